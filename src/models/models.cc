#include "models/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "graph/graph_json.h"
#include "graph/weights.h"
#include "models/dnn_partitioning_json.h"
#include "models/imported_graph.h"
#include "models/onnx/import.h"
#include "models/pipedream_profile.h"
#include "models/piper_json.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

constexpr const char* kWhere = "MODEL";
constexpr std::string_view kSupported =
    "supported: this program's graph JSON (\"format\": \"graphpipe-graph\"), PipeDream's "
    "graph.txt, "
    "ONNX, Piper's and dnn-partitioning's JSON, and the models of `graphpipe models`";

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest_word(word, known);
  return near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near);
}

const ZooModel* find_zoo_model(std::string_view name) {
  const auto found = std::find_if(zoo().begin(), zoo().end(),
                                  [&](const ZooModel& model) { return model.name == name; });
  return found == zoo().end() ? nullptr : &*found;
}

std::string parameter_place(const std::string& where, const std::string& name) {
  return fmt::format("{}: {}", where, name);
}

std::int64_t parse_value(const ZooParameter& parameter, const std::string& value,
                         const std::string& where) {
  const std::string place = parameter_place(where, parameter.name);
  if (parameter.choices.empty()) return parse_integer(value, place);
  const auto found = std::ranges::find(parameter.choices, value);
  if (found != parameter.choices.end()) return found - parameter.choices.begin();
  throw InputError(
      place, fmt::format("expected {}, found \"{}\"{}", fmt::join(parameter.choices, " or "), value,
                         did_you_mean(value, parameter.choices)));
}

// "branches=2,layers=8"
ZooArguments parse_arguments(const ZooModel& model, std::string_view text) {
  ZooArguments arguments(model.parameters);
  for (const std::string& item : split_text(text, ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) {
      throw InputError(kWhere, fmt::format("expected NAME=VALUE behind \"{}:\", found \"{}\"",
                                           model.name, item));
    }
    const std::string name = item.substr(0, equals);
    if (arguments.given(name))
      throw InputError(parameter_place(kWhere, name), "stands twice; keep one");
    arguments.set(name, item.substr(equals + 1), kWhere);
  }
  return arguments;
}

struct ModelFile {
  std::string path;
  double time_unit_s = 0;  // 0: as the form has it
  double edge_unit_s = 0;
  std::vector<std::pair<std::string, std::string>> options = {};  // other ones
};

double unit_seconds(const std::string& value, const std::string& where) {
  if (value == "s") return 1;
  if (value == "ms") return 1e-3;
  if (value == "us") return 1e-6;
  throw InputError(where, fmt::format("expected s, ms or us, found \"{}\"", value));
}

[[noreturn]] void fail_file_option(const std::string& item) {
  throw InputError(kWhere,
                   fmt::format("expected time-unit=s|ms|us or edge-unit=s|ms|us behind the "
                               "file, or behind an ONNX file such as loss=mse (docs/onnx.md), "
                               "found \"{}\"",
                               item));
}

// "FILE", or "FILE:time-unit=ms,edge-unit=s", or for an ONNX file "FILE:loss=mse,batch=N".
ModelFile parse_model_file(const std::string& model) {
  std::error_code ignored;
  ModelFile file{model};
  const std::size_t colon = model.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(model, ignored)) return file;
  if (model.find('=', colon) == std::string::npos) return file;
  file.path = model.substr(0, colon);
  for (const std::string& item : split_text(model.substr(colon + 1), ',')) {
    const std::size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    if (equals == std::string::npos) fail_file_option(item);
    if (key != "time-unit" && key != "edge-unit") {
      file.options.emplace_back(key, item.substr(equals + 1));
      continue;
    }
    const double unit_s = unit_seconds(item.substr(equals + 1), parameter_place(kWhere, key));
    (key == "time-unit" ? file.time_unit_s : file.edge_unit_s) = unit_s;
  }
  return file;
}

std::string model_name(const std::string& path) {
  const std::string stem = std::filesystem::path(path).filename().string();
  return stem.substr(0, stem.find('.'));
}

DnnFile parse_dnn_file(const Json& document, const ModelFile& file) {
  return parse_dnn_partitioning(document, file.path,
                                file.edge_unit_s > 0 ? file.edge_unit_s : 1e-3);
}

PiperFile parse_piper_file(const Json& document, const ModelFile& file) {
  return parse_piper(document, file.path, file.time_unit_s > 0 ? file.time_unit_s : 1);
}

// Whether the form has such times; no other form than ONNX has other options.
void check_units(const ModelFile& file, bool time, bool edge) {
  if (!file.options.empty()) {
    fail_file_option(file.options.front().first + "=" + file.options.front().second);
  }
  if (file.time_unit_s > 0 && !time) {
    throw InputError(file.path, "time-unit has nothing to say about this form of file");
  }
  if (file.edge_unit_s > 0 && !edge) {
    throw InputError(file.path, "edge-unit has nothing to say about this form of file");
  }
}

Json parse_document(const std::string& text, const std::string& path) {
  if (text.size() > kMostImportedBytes) {
    throw InputError(path,
                     fmt::format("{} bytes, expected at most {}", text.size(), kMostImportedBytes));
  }
  return parse_json(text, path);
}

// Values that are given lie in a file of their own beside the graph's.
Graph with_weights(Graph graph, const std::string& path) {
  const std::string weights = weights_path(path);
  if (std::filesystem::exists(weights)) {
    attach_weights(graph, parse_safetensors(read_file(weights), weights), weights);
  }
  return graph;
}

OnnxOptions onnx_options(const ModelFile& file) {
  OnnxOptions options;
  for (const auto& [key, value] : file.options) {
    if (key == "loss") {
      options.loss = value;
    } else if (key == "of") {
      options.of = value;
    } else if (key == "labels") {
      options.labels = value;
    } else if (key == "batch") {
      options.batch = value;
    } else if (key == "classes") {
      options.classes_axis = parse_integer(value, parameter_place(kWhere, key));
    } else if (key == "frozen") {
      options.frozen.insert(value);
    } else {  // a dimension's name
      const std::string where = parameter_place(kWhere, key);
      const std::int64_t size = parse_integer(value, where);
      if (size < 1)
        throw InputError(where, fmt::format("expected a positive size, found {}", size));
      options.sizes[key] = size;
    }
  }
  return options;
}

Graph load_onnx(const ModelFile& file, const std::string& bytes) {
  const std::string folder = std::filesystem::path(file.path).parent_path().string();
  const OnnxModel model = parse_onnx(bytes, file.path, folder.empty() ? "." : folder);
  Graph graph = import_onnx(model, onnx_options(file), file.path).graph;
  graph.name = model_name(file.path);
  return graph;
}

Graph load_json(const ModelFile& file, const std::string& text) {
  const Json document = parse_document(text, file.path);
  if (document.contains("format")) {
    check_units(file, false, false);
    return with_weights(parse_graph(text, file.path), file.path);
  }
  if (is_piper(document)) {
    check_units(file, true, false);
    return piper_graph(parse_piper_file(document, file), model_name(file.path), file.path);
  }
  if (is_dnn_partitioning(document)) {
    check_units(file, false, true);
    return dnn_graph(parse_dnn_file(document, file), model_name(file.path), file.path);
  }
  throw InputError(file.path, fmt::format("JSON of a form that is not known; {}", kSupported));
}

// Where a line of it looks like PipeDream's: "node1 -- Linear(...) -- forward_compute_time=...".
bool looks_like_pipedream(std::string_view text) {
  return text.substr(0, text.find('\n')).find(" -- ") != std::string_view::npos;
}

Graph load_file(const ModelFile& file) {
  const std::string text = read_file(file.path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw InputError(file.path, "the file is empty");
  if (file.path.ends_with(".onnx")) return load_onnx(file, text);
  if (text[first] == '{' || text[first] == '[') return load_json(file, text);
  if (looks_like_pipedream(text)) {
    check_units(file, true, false);
    return pipedream_graph(parse_pipedream(text, file.path), model_name(file.path), file.path,
                           file.time_unit_s > 0 ? file.time_unit_s : 1e-3);
  }
  // An ONNX file is a protocol buffer whose first field is ir_version, a number.
  if (text[0] == '\x08') return load_onnx(file, text);
  throw InputError(file.path, fmt::format("not a model file that is known; {}", kSupported));
}

bool looks_like_path(const std::string& model) {
  std::error_code ignored;
  return model.find_first_of("/.") != std::string::npos || std::filesystem::exists(model, ignored);
}

}  // namespace

std::int64_t ZooArguments::operator[](std::string_view name) const {
  const auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                  [&](const ZooParameter& p) { return p.name == name; });
  GP_CHECK(found != parameters_.end(), "no parameter \"{}\"", name);
  return found->value;
}

std::string weights_path(const std::string& graph_path) {
  std::filesystem::path path(graph_path);
  return path.replace_extension(".safetensors").string();
}

bool ZooArguments::given(std::string_view name) const { return given_.contains(name); }

void ZooArguments::set(const std::string& name, const std::string& text, const std::string& where) {
  const auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                  [&](const ZooParameter& p) { return p.name == name; });
  if (found == parameters_.end()) {
    std::vector<std::string> known;
    for (const ZooParameter& p : parameters_) known.push_back(p.name);
    throw InputError(where, fmt::format("unknown parameter \"{}\"{}; the model has {}", name,
                                        did_you_mean(name, known), fmt::join(known, ", ")));
  }
  const std::int64_t value = parse_value(*found, text, where);
  if (value < found->low || value > found->high) {
    throw InputError(where, fmt::format("{} is {}, expected {} to {} ({})", name, value, found->low,
                                        found->high, found->meaning));
  }
  found->value = value;
  given_.insert(name);
}

std::string value_text(const ZooParameter& parameter, std::int64_t value) {
  if (parameter.choices.empty()) return fmt::format("{}", value);
  return parameter.choices[static_cast<std::size_t>(value)];
}

const std::vector<ZooModel>& zoo() {
  static const std::vector<ZooModel> models{
      alexnet_model(),      bert_model(),      candle_uno_model(), clip_model(),
      digits_model(),       dlrm_model(),      gnmt_model(),       gpt_model(),
      inception_v3_model(), mmt_model(),       movielens_model(),  nasnet_cell_model(),
      resnet50_model(),     resnext50_model(), s2vt_model(),       transformer_model(),
      two_branch_model(),   unet_model(),      vgg16_model()};
  return models;
}

Graph load_model(const std::string& model, DType floating) {
  const std::size_t colon = model.find(':');
  const std::string name = model.substr(0, colon);
  if (const ZooModel* found = find_zoo_model(name)) {
    const std::string_view rest =
        colon == std::string::npos ? "" : std::string_view(model).substr(colon + 1);
    return found->build(parse_arguments(*found, rest), floating);
  }
  if (looks_like_path(model)) return load_file(parse_model_file(model));
  std::vector<std::string> known;
  for (const ZooModel& m : zoo()) known.push_back(m.name);
  throw InputError(kWhere, fmt::format("unknown model \"{}\"{}; expected one of {}, or a file that "
                                       "exists",
                                       name, did_you_mean(name, known), fmt::join(known, ", ")));
}

EmbeddedCluster embedded_cluster(const std::string& model) {
  constexpr std::string_view kExpected =
      "expected a Piper or dnn-partitioning JSON file, which says what memory and bandwidth its "
      "devices have; name a preset";
  if (find_zoo_model(model.substr(0, model.find(':'))) != nullptr || !looks_like_path(model)) {
    throw InputError("--cluster",
                     fmt::format("embedded: {} is a model of the zoo; {}", model, kExpected));
  }
  const ModelFile file = parse_model_file(model);
  const std::string text = read_file(file.path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    const Json document = parse_document(text, file.path);
    if (is_piper(document)) {
      const PiperFile piper = parse_piper_file(document, file);
      return {piper.devices, piper.memory_bytes, piper.bandwidth_bytes_per_s};
    }
    if (is_dnn_partitioning(document)) {
      const DnnFile dnn = parse_dnn_file(document, file);
      return {dnn.accelerators, dnn.accelerator_bytes, kDnnLinkBytesPerS};
    }
  }
  throw InputError("--cluster",
                   fmt::format("embedded: {} carries no cluster; {}", file.path, kExpected));
}

}  // namespace graphpipe
