// Equality over graphs that the zoo does not have: one tensor for several stages, skips,
// several losses, losses in the middle, tensors without a gradient, frozen parameters; and
// stages with micro-batches of different sizes. Three gradients of one tensor are summed in
// another order by a pipeline than by one device, so these are compared norm-wise.

#include <gtest/gtest.h>

#include <cmath>

#include "base/counter_random.h"
#include "data/dataset.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "graph/builder.h"
#include "models/models.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 64;
constexpr double kTolerance = 1e-11;  // float64

Lesson lesson(const Plan& plan) {
  Lesson lesson;
  for (std::int64_t first : {0, 20, 40}) {
    std::vector<std::int64_t> batch;
    // The last mini-batch is short.
    const std::int64_t size = first == 40 ? (plan.mini_batch + 1) / 2 : plan.mini_batch;
    for (std::int64_t i = 0; i < size; ++i) batch.push_back((first + 3 * i) % kSamples);
    lesson.batches.push_back(std::move(batch));
  }
  lesson.evaluated = {5, 3, 60, 7, 9, 11, 13};
  lesson.options.learning_rate = 0.05;
  return lesson;
}

void expect_equal_to_one_device(const Graph& graph, const Plan& plan) {
  const auto dataset = synthetic_dataset(graph, kSamples, 7);
  const Lesson what = lesson(plan);
  const Outcome expected = train_on_one_device(graph, *dataset, what, plan.mini_batch);
  const Outcome got = train_by_plan(plan, graph, *dataset, what);
  const Difference difference = largest_difference(expected, got);
  EXPECT_LE(difference.relative, kTolerance) << difference.where;
  EXPECT_EQ(got.metrics.size(), expected.metrics.size());
  for (const auto& [name, value] : expected.metrics) {
    EXPECT_NEAR(got.metrics.at(name), value, 1e-12) << name;
  }
}

// ids crosses stages as a tensor without a gradient; `trunk` has three readers and a skip to
// the end; one loss is in the middle and one is a sum; `frozen` is not trained, and nothing
// but a metric reads `side`.
Graph knotted_graph() {
  GraphBuilder g("knotted", DType::kFloat64);
  const TensorId ids = g.input("ids", DType::kInt64, {4});
  const TensorId x = g.input("x", {6});
  const TensorId label = g.input("label", DType::kInt64, {});
  const TensorId some = g.slice("some", ids, 0, 1, 2);
  const TensorId trunk = g.gelu("trunk", g.linear("fc", x, 6));
  const TensorId a = g.relu("a", g.linear("a.fc", trunk, 6));
  const TensorId b = g.mul("b", trunk, g.linear("b.fc", trunk, 6));
  const TensorId bag = g.embedding_bag("bag", some, 30, 6, "mean");
  const ParamId frozen = g.param("frozen.weight", {6, 6}, {InitKind::kUniform, 0.4}, false);
  const TensorId c = g.add_op("c", OpKind::kLinear, {bag}, {frozen}, {})[0];
  const TensorId joined = g.add("joined", {a, b, c, trunk});
  const TensorId logits = g.linear("logits", joined, 3);
  const TensorId middle = g.mse_loss("middle", a, x);
  const TensorId end = g.cross_entropy("end", logits, label);
  const TensorId side = g.linear("side", g.dropout("side.dropout", b, 0.3), 3);
  g.loss(end, 0.7);
  g.loss(middle, 0.1, Normaliser::kSum);
  g.metric("accuracy", "mean", g.correct("correct", logits, label));
  g.metric("side_accuracy", "mean", g.correct("side_correct", side, label));
  return std::move(g).build();
}

TEST(StageGraphs, KnottedGraphsEqualOneDevice) {
  const Graph graph = knotted_graph();
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const Plan plan =
        cut_graph(graph, {.stages = 2 + static_cast<int>(seed % 5),
                          .seed = seed,
                          .mini_batch = 10,
                          .micro_batch = 1 + static_cast<std::int64_t>(seed % 4),
                          .schedule = seed % 3 == 0 ? ScheduleKind::kGpipe : ScheduleKind::k1F1B,
                          .chain = seed % 2 == 0});
    SCOPED_TRACE(seed);
    expect_equal_to_one_device(graph, plan);
  }
}

TEST(StageGraphs, StagesWithMicroBatchesOfTheirOwnSizeEqualOneDevice) {
  const Graph graph =
      load_model("movielens:users=40,films=60,dim=8,hidden=12,title_dim=8", DType::kFloat64);
  const std::int64_t sizes[] = {1, 2, 3, 4, 6};
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    const CounterRandom random(seed);
    Plan plan = cut_graph(graph, {.stages = 2 + static_cast<int>(seed % 4),
                                  .seed = seed,
                                  .mini_batch = 14,
                                  .micro_batch = 1,
                                  .chain = seed % 4 == 0});
    std::vector<std::int64_t> own;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      own.push_back(sizes[random.below(s, std::size(sizes))]);
    }
    set_micro_batches(plan, own);
    SCOPED_TRACE(seed);
    expect_equal_to_one_device(graph, plan);
  }
}

TEST(Comparison, SeesOneBitAndAMissingTensor) {
  const Graph graph = load_model("digits:hidden=4");
  const auto dataset = synthetic_dataset(graph, kSamples, 7);
  const Plan plan = cut_graph(graph, {.stages = 1, .mini_batch = 8, .micro_batch = 8});
  const Lesson what = lesson(plan);
  const Outcome expected = train_on_one_device(graph, *dataset, what, 8);
  Outcome got = train_on_one_device(graph, *dataset, what, 8);
  EXPECT_EQ(bitwise_difference(expected, got), "");
  at::Tensor& weight = got.parameters.at("head.fc1.weight");
  float& element = weight.data_ptr<float>()[3];
  element = std::nextafter(element, 1.0F);
  EXPECT_TRUE(bitwise_difference(expected, got).starts_with("parameter of head.fc1.weight: "));
  EXPECT_GT(largest_difference(expected, got).relative, 0);
  EXPECT_LT(largest_difference(expected, got).relative, 1e-7);
  element += 0.1F;
  EXPECT_GT(largest_difference(expected, got).relative, 1e-3);
  EXPECT_EQ(largest_difference(expected, got).where, "parameter of head.fc1.weight");
  got.parameters = expected.parameters;
  got.gradients.erase("head.fc2.bias");
  EXPECT_EQ(bitwise_difference(expected, got), "gradient of head.fc2.bias: on one side only");
  EXPECT_EQ(largest_difference(expected, got).where, "gradient of head.fc2.bias");
  got.gradients = expected.gradients;
  got.iterations[1].loss = std::nextafter(got.iterations[1].loss, 0.0);
  EXPECT_TRUE(bitwise_difference(expected, got).starts_with("loss of iteration 1: "));
}

}  // namespace
}  // namespace graphpipe
