#include "graph/graph_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "graph/op_rules.h"

namespace graphpipe {
namespace {

constexpr std::string_view kFormat = "graphpipe-graph";
constexpr std::int64_t kVersion = 1;

constexpr std::array<std::pair<InitKind, std::string_view>, 6> kInitNames{
    {{InitKind::kZeros, "zeros"},
     {InitKind::kOnes, "ones"},
     {InitKind::kConstant, "constant"},
     {InitKind::kUniform, "uniform"},
     {InitKind::kNormal, "normal"},
     {InitKind::kGiven, "given"}}};

constexpr std::array<std::pair<Normaliser, std::string_view>, 2> kNormaliserNames{
    {{Normaliser::kMeanOverSamples, "mean_over_samples"}, {Normaliser::kSum, "sum"}}};

constexpr std::array<std::pair<DType, std::string_view>, 4> kDTypeNames{
    {{DType::kFloat32, "float32"},
     {DType::kFloat64, "float64"},
     {DType::kInt64, "int64"},
     {DType::kBool, "bool"}}};

template <typename Enum, std::size_t n>
std::string_view name_of(const std::array<std::pair<Enum, std::string_view>, n>& names,
                         Enum value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  GP_CHECK(false, "enumerator {}", static_cast<int>(value));
}

[[noreturn]] void fail_unknown(const JsonReader& json, std::string_view what,
                               const std::string& found, const std::vector<std::string>& known) {
  const std::string near = nearest_word(found, known);
  json.fail(fmt::format("unknown {} \"{}\"{}; expected one of {}", what, found,
                        near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                        fmt::join(known, ", ")));
}

template <typename Enum, std::size_t n>
Enum read_name(const JsonReader& json, std::string_view what,
               const std::array<std::pair<Enum, std::string_view>, n>& names) {
  const std::string found = json.string();
  std::vector<std::string> known;
  for (const auto& [value, name] : names) {
    if (name == found) return value;
    known.emplace_back(name);
  }
  fail_unknown(json, what, found, known);
}

OpKind read_kind(const JsonReader& json) {
  const std::string found = json.string();
  if (const std::optional<OpKind> kind = parse_op_kind(found)) return *kind;
  std::vector<std::string> known;
  for (int i = 0; i < kOpKindCount; ++i) known.emplace_back(op_kind_name(static_cast<OpKind>(i)));
  fail_unknown(json, "operator kind", found, known);
}

std::vector<std::int64_t> read_integers(const JsonReader& json) {
  std::vector<std::int64_t> values;
  for (const JsonReader& item : json.items()) values.push_back(item.integer());
  return values;
}

// By the JSON's own type, but a whole number where the kind declares a number is one.
Attribute read_attribute(const JsonReader& json, OpKind kind, const std::string& name) {
  for (const AttributeRule& rule : op_rules(kind).attributes) {
    if (rule.name == name && rule.type == AttributeType::kNumber) return json.number();
  }
  const Json& value = json.value();
  if (value.is_boolean()) return json.boolean();
  if (value.is_number_integer()) return json.integer();
  if (value.is_number()) return json.number();
  if (value.is_string()) return json.string();
  if (value.is_array()) return read_integers(json);
  json.fail("expected true or false, a number, a string or a list of whole numbers");
}

// Names to ids, for one kind of thing. Where a name stands twice the first holds;
// validate() then refuses the second.
template <typename Tag>
class Names {
 public:
  template <typename T>
  Names(std::string_view what, const std::vector<T>& things) : what_(what) {
    for (std::size_t i = 0; i < things.size(); ++i) ids_.try_emplace(things[i].name, i);
  }

  Id<Tag> read(const JsonReader& json) const {
    const std::string name = json.string();
    const auto found = ids_.find(name);
    if (found != ids_.end()) return Id<Tag>(found->second);
    std::vector<std::string> known;
    for (const auto& [other, id] : ids_) known.push_back(other);
    const std::string near = nearest_word(name, known);
    json.fail(fmt::format("there is no {} \"{}\"{}", what_, name,
                          near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
  }

  std::vector<Id<Tag>> read_list(const JsonReader& json) const {
    std::vector<Id<Tag>> list;
    for (const JsonReader& item : json.items()) list.push_back(read(item));
    return list;
  }

 private:
  std::string_view what_;
  std::map<std::string, std::size_t> ids_;
};

Tensor read_tensor(const JsonReader& json) {
  json.only({"name", "dtype", "batched", "shape"});
  Tensor tensor;
  tensor.name = json["name"].string();
  tensor.dtype = read_name(json["dtype"], "dtype", kDTypeNames);
  tensor.batched = !json.has("batched") || json["batched"].boolean();
  tensor.shape = read_integers(json["shape"]);
  return tensor;
}

Init read_init(const JsonReader& json) {
  json.only({"kind", "scale"});
  Init init;
  init.kind = read_name(json["kind"], "initialisation", kInitNames);
  if (json.has("scale")) init.scale = json["scale"].number();
  return init;
}

Parameter read_param(const JsonReader& json) {
  json.only({"name", "dtype", "shape", "init", "trainable"});
  Parameter param;
  param.name = json["name"].string();
  param.dtype = read_name(json["dtype"], "dtype", kDTypeNames);
  param.shape = read_integers(json["shape"]);
  param.init = read_init(json["init"]);
  param.trainable = !json.has("trainable") || json["trainable"].boolean();
  return param;
}

Operator read_op(const JsonReader& json, const Names<TensorTag>& tensors,
                 const Names<ParamTag>& params) {
  json.only({"name", "kind", "attributes", "inputs", "params", "outputs"});
  Operator op;
  op.name = json["name"].string();
  op.kind = read_kind(json["kind"]);
  if (json.has("attributes")) {
    for (const auto& [name, value] : json["attributes"].members()) {
      op.attributes.emplace_back(name, read_attribute(value, op.kind, name));
    }
  }
  std::sort(op.attributes.begin(), op.attributes.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  op.inputs = tensors.read_list(json["inputs"]);
  if (json.has("params")) op.params = params.read_list(json["params"]);
  op.outputs = tensors.read_list(json["outputs"]);
  return op;
}

Loss read_loss(const JsonReader& json, const Names<TensorTag>& tensors) {
  json.only({"tensor", "weight", "normaliser"});
  Loss loss;
  loss.tensor = tensors.read(json["tensor"]);
  if (json.has("weight")) loss.weight = json["weight"].number();
  if (json.has("normaliser")) {
    loss.normaliser = read_name(json["normaliser"], "normaliser", kNormaliserNames);
  }
  return loss;
}

Metric read_metric(const JsonReader& json, const Names<TensorTag>& tensors) {
  json.only({"name", "kind", "tensor"});
  return {json["name"].string(), json["kind"].string(), tensors.read(json["tensor"])};
}

std::vector<JsonReader> items_of(const JsonReader& json, const std::string& key) {
  return json.has(key) ? json[key].items() : std::vector<JsonReader>();
}

// The first operator that gives a tensor out is its producer; validate() refuses others.
void set_producers(Graph& graph) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const TensorId output : graph.ops[i].outputs) {
      OpId& producer = graph.tensors[output.index()].producer;
      if (!producer.valid()) producer = OpId(i);
    }
  }
}

template <typename Tag, typename T>
Json names_json(const std::vector<Id<Tag>>& ids, const std::vector<T>& things) {
  Json names = Json::array();
  for (const Id<Tag> id : ids) names.push_back(things[id.index()].name);
  return names;
}

Json tensor_json(const Tensor& tensor) {
  return {{"name", tensor.name},
          {"dtype", name_of(kDTypeNames, tensor.dtype)},
          {"batched", tensor.batched},
          {"shape", tensor.shape}};
}

Json param_json(const Parameter& param) {
  return {{"name", param.name},
          {"dtype", name_of(kDTypeNames, param.dtype)},
          {"shape", param.shape},
          {"init", {{"kind", name_of(kInitNames, param.init.kind)}, {"scale", param.init.scale}}},
          {"trainable", param.trainable}};
}

Json op_json(const Graph& graph, const Operator& op) {
  Json attributes = Json::object();
  for (const auto& [name, value] : op.attributes) {
    attributes[name] = std::visit([](const auto& x) { return Json(x); }, value);
  }
  return {{"name", op.name},
          {"kind", op_kind_name(op.kind)},
          {"attributes", std::move(attributes)},
          {"inputs", names_json(op.inputs, graph.tensors)},
          {"params", names_json(op.params, graph.params)},
          {"outputs", names_json(op.outputs, graph.tensors)}};
}

Json loss_json(const Graph& graph, const Loss& loss) {
  return {{"tensor", graph.tensor(loss.tensor).name},
          {"weight", loss.weight},
          {"normaliser", name_of(kNormaliserNames, loss.normaliser)}};
}

Json metric_json(const Graph& graph, const Metric& metric) {
  return {
      {"name", metric.name}, {"kind", metric.kind}, {"tensor", graph.tensor(metric.tensor).name}};
}

// A list with a line for each item: readable, and changes show line by line.
template <typename T, typename Write>
std::string list_text(std::string_view key, const std::vector<T>& items, const Write& write) {
  std::string text = fmt::format(",\n  \"{}\": [", key);
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "\n    " : ",\n    ") + Json(write(items[i])).dump();
  }
  return text + (items.empty() ? "]" : "\n  ]");
}

}  // namespace

Graph parse_graph(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonReader json(document, file);
  json.expect_format(kFormat, kVersion, "a graph", "write the file anew with this program");
  json.only(
      {"format", "version", "name", "tensors", "params", "ops", "inputs", "losses", "metrics"});
  Graph graph;
  graph.name = json["name"].string();
  for (const JsonReader& item : json["tensors"].items()) graph.tensors.push_back(read_tensor(item));
  for (const JsonReader& item : items_of(json, "params")) graph.params.push_back(read_param(item));
  const Names<TensorTag> tensors("tensor", graph.tensors);
  const Names<ParamTag> params("parameter", graph.params);
  for (const JsonReader& item : json["ops"].items()) {
    graph.ops.push_back(read_op(item, tensors, params));
  }
  set_producers(graph);
  graph.inputs = tensors.read_list(json["inputs"]);
  for (const JsonReader& item : items_of(json, "losses")) {
    graph.losses.push_back(read_loss(item, tensors));
  }
  for (const JsonReader& item : items_of(json, "metrics")) {
    graph.metrics.push_back(read_metric(item, tensors));
  }
  validate(graph, file);
  return graph;
}

std::string to_json(const Graph& graph) {
  std::string text = fmt::format("{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"name\": {}",
                                 kFormat, kVersion, Json(graph.name).dump());
  text += list_text("tensors", graph.tensors, tensor_json);
  text += list_text("params", graph.params, param_json);
  text += list_text("ops", graph.ops, [&](const Operator& op) { return op_json(graph, op); });
  text += list_text("inputs", graph.inputs, [&](TensorId t) { return graph.tensor(t).name; });
  text += list_text("losses", graph.losses, [&](const Loss& x) { return loss_json(graph, x); });
  text +=
      list_text("metrics", graph.metrics, [&](const Metric& x) { return metric_json(graph, x); });
  return text + "\n}\n";
}

}  // namespace graphpipe
