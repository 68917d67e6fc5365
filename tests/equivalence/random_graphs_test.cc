// Random graphs whose gradients are sums of two at most, cut at random: bitwise equal to one
// device in float32. (random_test.cc has sums of more, and replicas, norm-wise.)

#include "equivalence/random_graphs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/dataset.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "plan/stage_memory.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 64;
constexpr std::int64_t kMiniBatch = 10;  // the last micro-batch of 4 is short

Plan plan_of(const Graph& graph, std::uint64_t seed) {
  return cut_graph(graph, {.stages = 2 + static_cast<int>(seed % 5),
                           .seed = seed,
                           .mini_batch = kMiniBatch,
                           .micro_batch = 1 + static_cast<std::int64_t>(seed % 4),
                           .schedule = seed % 3 == 0 ? ScheduleKind::kGpipe : ScheduleKind::k1F1B,
                           .chain = seed % 4 == 0});
}

// Every option that changes a step, so that an error in one gradient reaches all weights.
Lesson lesson(std::uint64_t seed) {
  Lesson lesson;
  lesson.batches = {{0, 3, 6, 9, 12, 15, 18, 21, 24, 27},
                    {1, 5, 9, 13, 17, 21, 25, 29, 33, 37},
                    {60, 50, 40, 30, 20, 10},
                    {2, 4, 8, 16, 32, 63, 31, 15, 7, 3}};
  lesson.evaluated = {5, 3, 60, 7, 9, 11, 13};
  lesson.options.learning_rate = 0.05;
  lesson.options.weight_decay = 0.01;
  lesson.options.momentum = seed % 2 == 0 ? 0.9 : 0;
  lesson.options.clip = seed % 3 == 0 ? 0 : 0.5;
  lesson.options.accumulate = 1 + static_cast<std::int64_t>(seed % 3);
  return lesson;
}

void expect_bitwise_equality(const Graph& graph, const Plan& plan, std::uint64_t seed) {
  const auto dataset = synthetic_dataset(graph, kSamples, 7);
  const Lesson what = lesson(seed);
  const Outcome expected = train_on_one_device(graph, *dataset, what, plan.stages[0].micro_batch);
  const Outcome got = train_by_plan(plan, graph, *dataset, what);
  EXPECT_EQ(bitwise_difference(expected, got), "");
  ASSERT_EQ(got.metrics.size(), expected.metrics.size());
  for (const auto& [name, value] : expected.metrics) {
    EXPECT_NEAR(got.metrics.at(name), value, 1e-5 * std::abs(value)) << name;
  }
}

TEST(RandomGraphs, HaveWhatTheyAreFor) {
  const Graph graph = random_graph({.seed = 1});
  EXPECT_GE(graph.losses.size(), 2U);
  const std::vector<bool> needs = needs_gradient(graph);
  const auto reads = consumers(graph);
  bool frozen_value = false;
  bool unused = false;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    frozen_value = frozen_value || (tensor.name == "frozen.fc2" && !needs[t]);
    unused = unused || (tensor.name == "unused" && reads[t].empty() && !needs[t]);
    const auto with_gradient = std::ranges::count_if(
        reads[t], [&](OpId op) { return needs[t] && needs[graph.op(op).outputs[0].index()]; });
    EXPECT_LE(with_gradient, 2) << tensor.name;
  }
  EXPECT_TRUE(frozen_value);
  EXPECT_TRUE(unused);
}

TEST(RandomGraphs, EqualOneDeviceInEveryBit) {
  for (std::uint64_t seed = 1; seed <= 48; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph({.seed = seed});
    expect_bitwise_equality(graph, plan_of(graph, seed), seed);
  }
}

std::ptrdiff_t stages_with_tied_weight(const Plan& plan, const Graph& graph) {
  return std::ranges::count_if(plan.stages, [&](const Stage& stage) {
    return std::ranges::any_of(stage_params(graph, stage.ops), [&](ParamId param) {
      return graph.param(param).name == "tied.weight";
    });
  });
}

TEST(RandomGraphs, TiedWeightsWithinAStageEqualOneDeviceInEveryBit) {
  int trained = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph({.seed = seed, .tied = true});
    const Plan plan = plan_of(graph, seed);
    if (stages_with_tied_weight(plan, graph) != 1) continue;
    expect_bitwise_equality(graph, plan, seed);
    ++trained;
  }
  EXPECT_GE(trained, 12);
}

}  // namespace
}  // namespace graphpipe
