// Bitwise equality over operators that no model of the zoo has: several outputs that go to
// several stages, sequences, padding and scaling.

#include <gtest/gtest.h>

#include "data/dataset.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 40;

// A sequence is split in three for an LSTM, a GRU and a convolution; nothing reads `rest`.
Graph sequence_graph() {
  GraphBuilder g("sequences");
  const TensorId x = g.linear("fc", g.input("x", {6, 5}), 12);
  const std::vector<TensorId> parts = g.split("parts", x, 1, {3, 4, 2, 3});
  const TensorId a = g.lstm("lstm", parts[0], 4);
  const TensorId b = g.tanh("tanh", g.gru("gru", parts[1], 4));
  const TensorId turned = g.transpose("turned", parts[2], {1, 0});
  const TensorId c = g.transpose(
      "back", g.sigmoid("sigmoid", g.conv1d("conv", turned, 4, 3, {.padding = 1})), {1, 0});
  const TensorId y = g.linear("head", g.mean("mean", g.concat("all", {a, b, c}, -1), 0), 3);
  g.loss(g.mse_loss("loss", y, g.input("target", {3})));
  return std::move(g).build();
}

// Halves of an image's channels go down and up again in two ways.
Graph image_graph() {
  GraphBuilder g("images");
  const TensorId x = g.conv2d("stem", g.input("x", {2, 9, 8}), 4, 3, {.padding = 1});
  const std::vector<TensorId> halves = g.split("halves", x, 0, {2, 2});
  TensorId a = g.avg_pool2d("mean", g.pad("pad", halves[0], {0, 1, 0}, {0, 0, 2}, 0.5), 2, 2);
  a = g.resize("bilinear", a, {9, 8}, "bilinear");
  TensorId b = g.conv2d("depthwise", halves[1], 2, 3, {.stride = 2, .padding = 1, .groups = 2});
  b = g.resize("nearest", g.conv_transpose2d("grow", b, 2, 3, {.stride = 2}), {9, 8});
  const TensorId joined = g.concat("joined", {a, b}, 0);
  const TensorId logits = g.linear("head", g.global_avg_pool("pool", joined), 3);
  g.loss(g.cross_entropy("loss", logits, g.input("label", DType::kInt64, {})));
  return std::move(g).build();
}

Lesson lesson() {
  Lesson lesson;
  for (const std::int64_t size : {10, 10, 7}) {
    std::vector<std::int64_t> batch;
    for (std::int64_t i = 0; i < size; ++i) batch.push_back((11 * size + 3 * i) % kSamples);
    lesson.batches.push_back(std::move(batch));
  }
  lesson.evaluated = {5, 3, 30, 7};
  lesson.options.learning_rate = 0.05;
  lesson.options.momentum = 0.9;
  return lesson;
}

void expect_equal_to_one_device(const Graph& graph) {
  const auto dataset = synthetic_dataset(graph, kSamples, 7);
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const auto micro_batch = static_cast<std::int64_t>(1 + seed % 4);
    const Plan plan =
        cut_graph(graph, {.stages = 2 + static_cast<int>(seed % 5),
                          .seed = seed,
                          .mini_batch = 10,
                          .micro_batch = micro_batch,
                          .schedule = seed % 3 == 0 ? ScheduleKind::kGpipe : ScheduleKind::k1F1B,
                          .chain = seed % 2 == 0});
    SCOPED_TRACE(seed);
    const Outcome expected = train_on_one_device(graph, *dataset, lesson(), micro_batch);
    EXPECT_EQ(bitwise_difference(expected, train_by_plan(plan, graph, *dataset, lesson())), "");
  }
}

TEST(OperatorGraphs, SequencesEqualOneDevice) { expect_equal_to_one_device(sequence_graph()); }

TEST(OperatorGraphs, ImagesEqualOneDevice) { expect_equal_to_one_device(image_graph()); }

}  // namespace
}  // namespace graphpipe
