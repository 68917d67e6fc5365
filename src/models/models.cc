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
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

constexpr const char* kWhere = "MODEL";
constexpr std::string_view kSupported =
    "supported: this program's graph JSON (\"format\": \"graphpipe-graph\"), and the models of "
    "`graphpipe models`";

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

[[noreturn]] void fail_unsupported(const std::string& path, std::string_view what) {
  throw InputError(path, fmt::format("{} is not supported by this version; {}", what, kSupported));
}

Graph load_json(const std::string& path, const std::string& text) {
  const Json document = parse_json(text, path);
  if (document.contains("format")) return parse_graph(text, path);
  if (document.contains("nodes") && document.contains("edges")) {
    fail_unsupported(path, "a Piper or dnn-partitioning JSON file");
  }
  throw InputError(path, fmt::format("JSON of a form that is not known; {}", kSupported));
}

Graph load_file(const std::string& path) {
  const std::string text = read_file(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw InputError(path, "the file is empty");
  if (text[first] == '{' || text[first] == '[') return load_json(path, text);
  // PipeDream's lines: "node1 -- Linear(...) -- forward_compute_time=...".
  if (text.compare(first, 4, "node") == 0 && text.find(" -- ") != std::string::npos) {
    fail_unsupported(path, "a PipeDream graph");
  }
  // An ONNX file is a protocol buffer whose first field is ir_version, a number.
  if (text[0] == '\x08') fail_unsupported(path, "an ONNX model");
  throw InputError(path, fmt::format("not a model file that is known; {}", kSupported));
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
  static const std::vector<ZooModel> kModels{
      candle_uno_model(), digits_model(),      dlrm_model(),       mmt_model(),  movielens_model(),
      resnet50_model(),   transformer_model(), two_branch_model(), unet_model(), vgg16_model()};
  return kModels;
}

Graph load_model(const std::string& model, DType floating) {
  const std::size_t colon = model.find(':');
  const std::string name = model.substr(0, colon);
  if (const ZooModel* found = find_zoo_model(name)) {
    const std::string_view rest =
        colon == std::string::npos ? "" : std::string_view(model).substr(colon + 1);
    return found->build(parse_arguments(*found, rest), floating);
  }
  if (looks_like_path(model)) return load_file(model);
  std::vector<std::string> known;
  for (const ZooModel& m : zoo()) known.push_back(m.name);
  throw InputError(kWhere, fmt::format("unknown model \"{}\"{}; expected one of {}, or a file that "
                                       "exists",
                                       name, did_you_mean(name, known), fmt::join(known, ", ")));
}

}  // namespace graphpipe
