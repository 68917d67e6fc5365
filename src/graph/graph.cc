#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "graph/custom_op.h"
#include "graph/op_rules.h"

namespace graphpipe {
namespace {

constexpr std::array kDTypes{DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kBool};

template <typename T>
const T& attribute_of(const Operator& op, std::string_view name) {
  const auto found = std::find_if(op.attributes.begin(), op.attributes.end(),
                                  [&](const auto& a) { return a.first == name; });
  GP_CHECK(found != op.attributes.end(), "operator \"{}\" has no attribute \"{}\"", op.name, name);
  const T* value = std::get_if<T>(&found->second);
  GP_CHECK(value != nullptr, "attribute \"{}\" of operator \"{}\" is {}", name, op.name,
           attribute_text(found->second));
  return *value;
}

// "float32[*,256,1024]"; the asterisk is the sample.
std::string tensor_text(const Tensor& tensor) {
  std::string text = fmt::format("{}[{}", dtype_name(tensor.dtype), tensor.batched ? "*" : "");
  for (const std::int64_t dimension : tensor.shape) {
    if (text.back() != '[') text += ',';
    text += fmt::format("{}", dimension);
  }
  return text + "]";
}

std::string param_text(const Parameter& param) {
  return fmt::format("{}[{}]{}", dtype_name(param.dtype), fmt::join(param.shape, ","),
                     param.trainable ? "" : " frozen");
}

std::string attributes_text(const Operator& op) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : op.attributes) {
    texts.push_back(name + "=" + attribute_text(value));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

// Folds texts into one hash. Lengths go in too, so that "ab", "c" is not "a", "bc".
class TextHash {
 public:
  void add(std::string_view text) {
    hash_ = combine_hash(hash_, hash_bytes(text));
    hash_ = combine_hash(hash_, text.size());
  }
  void add_number(std::int64_t n) { hash_ = combine_hash(hash_, static_cast<std::uint64_t>(n)); }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0;
};

}  // namespace

std::int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kBool:
      return 1;
  }
  GP_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt64:
      return "int64";
    case DType::kBool:
      return "bool";
  }
  GP_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : kDTypes) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::int64_t Operator::integer(std::string_view attribute) const {
  return attribute_of<std::int64_t>(*this, attribute);
}

double Operator::number(std::string_view attribute) const {
  return attribute_of<double>(*this, attribute);
}

bool Operator::flag(std::string_view attribute) const {
  return attribute_of<bool>(*this, attribute);
}

const std::string& Operator::text(std::string_view attribute) const {
  return attribute_of<std::string>(*this, attribute);
}

const std::vector<std::int64_t>& Operator::list(std::string_view attribute) const {
  return attribute_of<std::vector<std::int64_t>>(*this, attribute);
}

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(count, dimension, &count)) {
      return std::numeric_limits<std::int64_t>::max();  // too many; G2 refuses it
    }
  }
  return count;
}

std::int64_t tensor_bytes(const Tensor& tensor, std::int64_t samples) {
  return element_count(tensor.shape) * dtype_bytes(tensor.dtype) * (tensor.batched ? samples : 1);
}

std::int64_t param_bytes(const Parameter& param) {
  return element_count(param.shape) * dtype_bytes(param.dtype);
}

std::vector<std::vector<OpId>> consumers(const Graph& graph) {
  std::vector<std::vector<OpId>> readers(graph.tensors.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpId op(i);
    for (const TensorId input : graph.ops[i].inputs) {
      std::vector<OpId>& list = readers[input.index()];
      if (list.empty() || list.back() != op) list.push_back(op);
    }
  }
  return readers;
}

std::vector<bool> needs_gradient(const Graph& graph) {
  // Forward: what depends on a trainable parameter, through floating tensors.
  std::vector<bool> trainable(graph.tensors.size(), false);
  for (const Operator& op : graph.ops) {
    if (!passes_gradient(op)) continue;
    const bool any = std::any_of(op.params.begin(), op.params.end(),
                                 [&](ParamId p) { return graph.param(p).trainable; }) ||
                     std::any_of(op.inputs.begin(), op.inputs.end(),
                                 [&](TensorId t) { return trainable[t.index()]; });
    for (const TensorId output : op.outputs) {
      trainable[output.index()] = any && is_floating(graph.tensor(output).dtype);
    }
  }
  // Backward: what a loss depends on.
  std::vector<bool> wanted(graph.tensors.size(), false);
  for (const Loss& loss : graph.losses)
    wanted[loss.tensor.index()] = trainable[loss.tensor.index()];
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    const Operator& op = graph.ops[i];
    const bool any = std::any_of(op.outputs.begin(), op.outputs.end(),
                                 [&](TensorId t) { return wanted[t.index()]; });
    if (!any) continue;
    for (const TensorId input : op.inputs) {
      if (trainable[input.index()]) wanted[input.index()] = true;
    }
  }
  return wanted;
}

bool has_backward(const Operator& op, const std::vector<bool>& needs) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](TensorId output) { return needs[output.index()]; });
}

std::vector<bool> running_statistics(const Graph& graph) {
  std::vector<bool> running(graph.params.size(), false);
  for (const Operator& op : graph.ops) {
    if (op.kind != OpKind::kBatchNorm) continue;
    for (const ParamId p : {op.params[2], op.params[3]}) running[p.index()] = true;
  }
  return running;
}

std::vector<OpKind> sample_mixing_kinds(const Graph& graph) {
  std::vector<OpKind> kinds;
  for (const Operator& op : graph.ops) {
    const bool known = std::find(kinds.begin(), kinds.end(), op.kind) != kinds.end();
    if (mixes_samples(op.kind) && !known) kinds.push_back(op.kind);
  }
  return kinds;
}

std::uint64_t graph_hash(const Graph& graph) {
  TextHash hash;
  for (const Tensor& tensor : graph.tensors) {
    hash.add(tensor_text(tensor));
    hash.add_number(tensor.producer.value);
  }
  for (const Parameter& param : graph.params) {
    hash.add(param.name);
    hash.add(param_text(param));
    hash.add_number(static_cast<int>(param.init.kind));
    hash.add(fmt::format("{}", param.init.scale));
    if (param.values && !param.trainable) hash.add(*param.values);
  }
  for (const Operator& op : graph.ops) {
    hash.add(op.name);
    hash.add(op_kind_name(op.kind));
    hash.add(attributes_text(op));
    for (const TensorId input : op.inputs) hash.add_number(input.value);
    hash.add("params");
    for (const ParamId param : op.params) hash.add_number(param.value);
    hash.add("outputs");
    for (const TensorId output : op.outputs) hash.add_number(output.value);
  }
  for (const TensorId input : graph.inputs) {
    hash.add(graph.tensor(input).name);
    hash.add_number(input.value);
  }
  for (const Loss& loss : graph.losses) {
    hash.add(fmt::format("loss {}", loss.weight));
    hash.add_number(loss.tensor.value);
    hash.add_number(static_cast<int>(loss.normaliser));
  }
  return hash.value();
}

std::string op_signature(const Graph& graph, OpId id) {
  const Operator& op = graph.op(id);
  std::vector<std::string> inputs, params, outputs;
  for (const TensorId t : op.inputs) inputs.push_back(tensor_text(graph.tensor(t)));
  for (const ParamId p : op.params) params.push_back(param_text(graph.param(p)));
  for (const TensorId t : op.outputs) outputs.push_back(tensor_text(graph.tensor(t)));
  return fmt::format("{}{} ({}; {}) -> {}", op_kind_name(op.kind), attributes_text(op),
                     fmt::join(inputs, " "), fmt::join(params, " "), fmt::join(outputs, " "));
}

}  // namespace graphpipe
