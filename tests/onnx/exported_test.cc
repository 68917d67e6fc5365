// Networks of the families that people export, written by PyTorch's exporter
// (tests/onnx/exported/make.py): outputs, loss and gradients are PyTorch's, and training in a
// pipeline equals training on one device.

#include <ATen/ops/allclose.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "base/file.h"
#include "data/dataset.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "graph/weights.h"
#include "models/models.h"
#include "onnx/evaluate.h"
#include "runtime/parameters.h"
#include "runtime/reference.h"

namespace graphpipe {
namespace {

struct Exported {
  std::string name;
  std::int64_t samples_axis;
  std::size_t named;  // weights whose names the exporter kept, at least
  bool near = false;  // not bit by bit
};

std::string path_of(const std::string& name) {
  return fmt::format("{}/tests/onnx/exported/{}", GP_SOURCE, name);
}

Graph load(const std::string& name) {
  return load_model(path_of(name + ".onnx") + ":loss=cross_entropy,labels=label");
}

std::map<std::string, at::Tensor> recorded(const std::string& name) {
  const std::string path = path_of(name + ".safetensors");
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [key, weight] : parse_safetensors(read_file(path), path)) {
    tensors[key] = to_tensor({key, weight.dtype, weight.shape, *weight.values});
  }
  return tensors;
}

class ExportedModel : public testing::TestWithParam<Exported> {};

TEST_P(ExportedModel, OutputsAreThoseOfPyTorch) {
  const std::string path = path_of(GetParam().name + ".onnx");
  const auto expected = recorded(GetParam().name);
  const ImportedOnnx imported = import_onnx(parse_onnx(read_file(path), path, ""), {}, path);
  const auto found = evaluate(imported, {{"x", expected.at("input.x")}},
                              {{"x", static_cast<std::size_t>(GetParam().samples_axis)}});
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].sizes(), expected.at("output").sizes());
  EXPECT_TRUE(at::allclose(found[0], expected.at("output"), 1e-4, 1e-5));
}

TEST_P(ExportedModel, LossAndGradientsAreThoseOfPyTorch) {
  const Graph graph = load(GetParam().name);
  const auto expected = recorded(GetParam().name);
  std::vector<at::Tensor> params;
  for (const Parameter& param : graph.params) params.push_back(make_parameter(param, 1));
  std::vector<at::Tensor> tensors(graph.tensors.size());
  const at::Tensor x = expected.at("input.x").movedim(GetParam().samples_axis, 0).contiguous();
  for (const TensorId input : graph.inputs) {
    tensors[input.index()] = graph.tensor(input).name == "x" ? x : expected.at("label");
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(x.size(0)));
  std::iota(ids.begin(), ids.end(), 0);
  run_operators(graph, params, {.training = false, .sample_ids = ids}, tensors);
  const at::Tensor loss = tensors[graph.losses[0].tensor.index()].mean();
  EXPECT_TRUE(at::allclose(loss.detach(), expected.at("loss"), 1e-5, 1e-6));
  torch::autograd::backward({loss}, {});
  std::size_t compared = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::string& name = graph.params[i].name;
    const auto found = expected.find("gradient." + name);
    if (found == expected.end()) continue;
    ++compared;
    at::Tensor gradient = params[i].grad();
    ASSERT_TRUE(gradient.defined()) << name;
    if (gradient.sizes() != found->second.sizes()) gradient = gradient.view(found->second.sizes());
    EXPECT_TRUE(at::allclose(gradient, found->second, 1e-3, 1e-5)) << name;
  }
  EXPECT_GE(compared, GetParam().named);
}

// Absolutely: a key's bias has no gradient but what rounding leaves of it.
void expect_near(const Outcome& expected, const Outcome& found) {
  for (std::size_t i = 0; i < expected.iterations.size(); ++i) {
    EXPECT_NEAR(found.iterations[i].loss, expected.iterations[i].loss, 1e-6);
  }
  ASSERT_EQ(found.parameters.size(), expected.parameters.size());
  for (const auto& [name, values] : expected.parameters) {
    EXPECT_TRUE(at::allclose(found.parameters.at(name), values, 1e-5, 1e-6)) << name;
  }
}

// Bit by bit, over plans that cut the graph anywhere, halves of the backward (zb-h1) too; but where
// two stages hold a weight or three operators read a tensor, a sum of gradients is taken in other
// groups.
TEST_P(ExportedModel, PipelinesTrainAsOneDevice) {
  const Graph graph = load(GetParam().name);
  const auto dataset = synthetic_dataset(graph, 40, 7);
  Lesson lesson;
  lesson.batches = {
      {1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}, {20, 21, 22, 23, 24}};
  lesson.evaluated = {5, 3, 30, 7};
  lesson.options.learning_rate = 0.05;
  lesson.options.momentum = 0.9;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto micro_batch = static_cast<std::int64_t>(2 + seed % 2);
    const Plan plan = cut_graph(graph, {.stages = 2 + static_cast<int>(seed % 4),
                                        .seed = seed,
                                        .mini_batch = 8,
                                        .micro_batch = micro_batch,
                                        .schedule = seed % 3 == 0   ? ScheduleKind::kZbH1
                                                    : seed % 3 == 1 ? ScheduleKind::k1F1B
                                                                    : ScheduleKind::kGpipe,
                                        .chain = seed % 2 == 0});
    SCOPED_TRACE(seed);
    const Outcome expected = train_on_one_device(graph, *dataset, lesson, micro_batch);
    const Outcome found = train_by_plan(plan, graph, *dataset, lesson);
    if (GetParam().near) {
      expect_near(expected, found);
    } else {
      EXPECT_EQ(bitwise_difference(expected, found), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ExportedModel,
                         testing::Values(Exported{"cnn", 0, 13}, Exported{"bert", 0, 20, true},
                                         Exported{"gpt", 0, 14, true}, Exported{"lstm", 1, 2},
                                         Exported{"encoder", 1, 4}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace graphpipe
