// ONNX's own node tests (libonnx-testdata) through our importer and operators. A test counts
// where its operators are supported and its inputs are float32, int64 or bool. It is imported in
// several ways: without samples, with samples along axis 0 of its first input, of every input
// as long there, and along axes 1 and 2 of those; it passes where one way at least is taken, and
// every way that is gives the recorded outputs. tests/onnx/exceptions.txt names those that do not,
// with the reason.

#include <ATen/ops/allclose.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "models/onnx/import.h"
#include "onnx/evaluate.h"

namespace graphpipe {
namespace {

// As ONNX's own runner compares, but for the last bits of float32.
constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-6;

// How many node tests the versions have whose figures README.md states.
constexpr std::size_t kStatedCounts[] = {932, 1288};  // ONNX 1.12, 1.17
bool is_stated(std::size_t count) {
  return std::ranges::find(kStatedCounts, count) != std::end(kStatedCounts);
}

// GP_ONNX_TESTDATA in the environment: the data of another version.
std::filesystem::path node_folder() {
  const char* other = std::getenv("GP_ONNX_TESTDATA");
  return std::filesystem::path(other != nullptr ? other : GP_ONNX_TESTDATA) / "node";
}
const std::filesystem::path kNodes = node_folder();

struct NodeTest {
  OnnxModel model;
  std::vector<OnnxTensor> inputs;
  std::vector<OnnxTensor> outputs;
};

std::vector<OnnxTensor> read_tensors(const std::filesystem::path& folder, const char* what) {
  std::vector<OnnxTensor> tensors;
  for (int i = 0;; ++i) {
    const auto path = folder / fmt::format("{}_{}.pb", what, i);
    if (!std::filesystem::exists(path)) return tensors;
    tensors.push_back(parse_onnx_tensor(read_file(path.string()), path.string()));
  }
}

bool is_eligible(const OnnxModel& model) {
  static const std::vector<std::string> kSupported = supported_onnx_operators();
  const bool supported = std::ranges::all_of(model.nodes, [](const OnnxNode& node) {
    return node.domain.empty() && std::ranges::binary_search(kSupported, node.type);
  });
  return supported && std::ranges::all_of(model.inputs, [](const OnnxValue& input) {
           return input.declared == "FLOAT" || input.declared == "INT64" ||
                  input.declared == "BOOL";
         });
}

// "": right. Otherwise what is wrong.
std::string differences(const std::vector<at::Tensor>& found, const NodeTest& test) {
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    const at::Tensor expected = to_tensor(test.outputs[i]);
    if (found[i].sizes() != expected.sizes()) {
      return fmt::format("output {} has shape ({}), expected ({})", i,
                         fmt::join(found[i].sizes(), ", "), fmt::join(expected.sizes(), ", "));
    }
    if (found[i].scalar_type() != expected.scalar_type()) return "another type";
    const bool equal = found[i].is_floating_point()
                           ? at::allclose(found[i], expected, kRelative, kAbsolute, true)
                           : found[i].equal(expected);
    if (!equal) return fmt::format("output {} has other values", i);
  }
  return "";
}

struct Outcome {
  bool taken = false;
  std::string message;
};

// Whole numbers among the inputs from which a tensor is computed, or that input itself.
std::set<std::size_t> sources_of(const OnnxModel& model, const std::string& tensor) {
  std::set<std::string> needed = {tensor};
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node) {
    const bool wanted =
        std::ranges::any_of(node->outputs, [&](const auto& o) { return needed.contains(o); });
    if (wanted) needed.insert(node->inputs.begin(), node->inputs.end());
  }
  std::set<std::size_t> sources;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const OnnxValue& input = model.inputs[i];
    if (input.name == tensor) return {i};
    if (needed.contains(input.name) && input.declared == "INT64") sources.insert(i);
  }
  return sources;
}

// Inputs that an operator takes as constants only are that: weights, shapes, axes, and what those
// are computed from.
using Way = std::map<std::string, std::size_t, std::less<>>;  // axes of the samples

Outcome run(const NodeTest& test, const Way& batched) {
  OnnxOptions options;
  options.batched_inputs = batched;
  std::map<std::string, at::Tensor> inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs[test.model.inputs[i].name] = to_tensor(test.inputs[i]);
  }
  while (true) {
    try {
      const ImportedOnnx imported = import_onnx(test.model, options, "model.onnx");
      return {true, differences(evaluate(imported, inputs, batched), test)};
    } catch (const NeedsConstant& needs) {
      const std::size_t before = options.constants.size();
      for (const std::size_t i : sources_of(test.model, needs.input())) {
        options.constants[test.model.inputs[i].name] = test.inputs[i];
      }
      if (options.constants.size() == before) return {false, needs.what()};
    } catch (const InputError& error) {
      return {false, error.what()};
    } catch (const std::exception& error) {
      return {true, std::string(error.what()).substr(0, 200)};
    }
  }
}

std::vector<Way> ways_of(const NodeTest& test) {
  std::vector<Way> ways = {{}};
  if (test.inputs.empty() || test.inputs[0].shape.empty()) return ways;
  ways.push_back({{test.model.inputs[0].name, 0}});
  for (const std::size_t axis : {0U, 1U, 2U}) {
    Way all;
    for (std::size_t i = 0; i < test.inputs.size(); ++i) {
      const auto& shape = test.inputs[i].shape;
      const auto& first = test.inputs[0].shape;
      if (shape.size() > axis && first.size() > axis && shape[axis] == first[axis]) {
        all[test.model.inputs[i].name] = axis;
      }
    }
    if (all.size() > (axis == 0 ? 1 : 0)) ways.push_back(all);
  }
  return ways;
}

std::string way_text(const Way& way) {
  std::string text;
  for (const auto& [input, axis] : way) text += fmt::format("{} (axis {}) ", input, axis);
  return way.empty() ? "without samples" : text + "with samples";
}

std::string fault(const NodeTest& test) {
  bool taken = false;
  std::string refusals;
  for (const Way& way : ways_of(test)) {
    const Outcome outcome = run(test, way);
    const std::string name = way_text(way);
    if (outcome.taken && !outcome.message.empty()) return name + ": " + outcome.message;
    taken = taken || outcome.taken;
    if (!outcome.taken) refusals += fmt::format("\n    {}: {}", name, outcome.message);
  }
  return taken ? "" : refusals;
}

// "test_name  reason", lines with # are comments. Those behind a line "[N]" are of the version
// that has N node tests; those before the first are of every version that is stated.
std::map<std::string, std::string> read_exceptions(std::size_t count) {
  std::map<std::string, std::string> exceptions;
  std::ifstream file(std::string(GP_SOURCE) + "/tests/onnx/exceptions.txt");
  bool counts = true;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      counts = !is_stated(count) || line == fmt::format("[{}]", count);
      continue;
    }
    if (!counts) continue;
    const std::size_t blank = line.find(' ');
    exceptions[line.substr(0, blank)] = line.substr(std::min(line.size(), blank + 1));
  }
  return exceptions;
}

TEST(OnnxConformance, NodeTestsPassOrAreNamedExceptions) {
  if (!std::filesystem::exists(kNodes)) GTEST_SKIP() << "libonnx-testdata is not installed";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kNodes)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  const std::map<std::string, std::string> exceptions = read_exceptions(names.size());
  const char* only = std::getenv("GP_ONNX_ONLY");
  int eligible = 0;
  int passed = 0;
  for (const std::string& name : names) {
    if (only != nullptr && name.find(only) == std::string::npos) continue;
    NodeTest test;
    try {
      const std::string path = (kNodes / name / "model.onnx").string();
      test.model = parse_onnx(read_file(path), path, "");
      if (!is_eligible(test.model)) continue;
      test.inputs = read_tensors(kNodes / name / "test_data_set_0", "input");
      test.outputs = read_tensors(kNodes / name / "test_data_set_0", "output");
    } catch (const InputError&) {
      continue;  // types or an opset that are not ours
    }
    ++eligible;
    const std::string wrong = fault(test);
    passed += wrong.empty();
    const auto exception = exceptions.find(name);
    if (exception == exceptions.end()) {
      EXPECT_TRUE(wrong.empty()) << name << ": " << wrong;
    } else {
      EXPECT_NE(wrong, "") << name << " passes: take it out of exceptions.txt";
      EXPECT_NE(exception->second, "") << name << " has no reason";
    }
  }
  fmt::print("{} of {} node tests pass; {} of them have operators and inputs that are supported\n",
             passed, names.size(), eligible);
  if (only != nullptr) return;
  // Another version has a figure that README.md does not state.
  if (!is_stated(names.size())) return;
  const std::string stated = fmt::format("{} of {}", passed, names.size());
  EXPECT_NE(read_file(std::string(GP_SOURCE) + "/README.md").find(stated), std::string::npos)
      << "README.md does not state " << stated;
  EXPECT_EQ(exceptions.size(), static_cast<std::size_t>(eligible - passed));
}

TEST(OnnxConformance, TheListOfSupportedOperatorsIsCheckedIn) {
  std::istringstream file(
      read_file(std::string(GP_SOURCE) + "/src/models/onnx/supported_operators.txt"));
  std::vector<std::string> listed;
  for (std::string line; std::getline(file, line);) listed.push_back(line);
  EXPECT_EQ(listed, supported_onnx_operators());
}

}  // namespace
}  // namespace graphpipe
