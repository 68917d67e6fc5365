#include "cost/analytic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/counter_random.h"
#include "cluster/presets.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

constexpr double kFlopsPerS = 0.85 * 15.7e12;
constexpr double kBytesPerS = 0.8 * 900e9;
constexpr double kLaunchS = 5e-6;

const DeviceType& v100() {
  static const DeviceType kType = preset_cluster("summit:1").types[0];
  return kType;
}

const DeviceType& cpu() {
  static const DeviceType kType = preset_cluster("local:1").types[0];
  return kType;
}

// The formula of analytic.h as it is written there.
double plain_share(double problems, double rows, double columns, double multiprocessors) {
  const double tiles[3][3] = {{128, 128, 1}, {128, 64, 0.85}, {64, 64, 0.7}};
  double best = 0;
  for (const auto& [tile_rows, tile_columns, e] : tiles) {
    const double T = problems * std::ceil(rows / tile_rows) * std::ceil(columns / tile_columns);
    best = std::max(best, e * (problems * rows * columns) / (T * tile_rows * tile_columns) * T /
                              (multiprocessors * std::ceil(T / multiprocessors)));
  }
  return best;
}

double seconds(const Graph& graph, OpId op, std::int64_t samples, Phase phase,
               const DeviceType& device = v100(), AnalyticOptions options = {}) {
  return AnalyticCosts(options).op_cost(graph, op, samples, 1, device, phase).seconds;
}

std::int64_t saved(const Graph& graph, OpId op, std::int64_t samples, const DeviceType& device) {
  return AnalyticCosts().op_cost(graph, op, samples, 1, device, Phase::kForward).saved_bytes;
}

OpId last_op(const Graph& graph) { return OpId(graph.op_count() - 1); }

Graph linear_graph(std::int64_t in, std::int64_t out, std::int64_t sequence) {
  GraphBuilder g("linear");
  g.linear("fc", g.input("x", {sequence, in}), out);
  return std::move(g).build();
}

TEST(AnalyticLinear, FullWavesReachTheEfficientPeak) {
  // 80 tiles of 128 x 128 on 80 multiprocessors: r = 1.
  const Graph graph = linear_graph(4096, 128, 128);
  const double flops = 2.0 * (80 * 128) * 128 * 4096;
  EXPECT_NEAR(seconds(graph, OpId(0), 80, Phase::kForward), flops / kFlopsPerS + kLaunchS, 1e-12);
}

TEST(AnalyticLinear, OneTileMoreCostsAWave) {
  // 81 tiles of 128 x 128 make two waves (0.506); 162 of 128 x 64 three (0.85 * 162 / 240 =
  // 0.574, the best); 324 of 64 x 64 five (0.7 * 324 / 400 = 0.567).
  const Graph graph = linear_graph(4096, 128, 128);
  const double flops = 2.0 * (81 * 128) * 128 * 4096;
  EXPECT_NEAR(seconds(graph, OpId(0), 81, Phase::kForward),
              flops / (kFlopsPerS * 0.85 * 162 / 240) + kLaunchS, 1e-12);
}

TEST(AnalyticLinear, AgreesWithTheFormulaOnManyShapes) {
  const CounterRandom random(7);
  for (std::uint64_t i = 0; i < 300; i += 4) {
    const auto in = static_cast<std::int64_t>(1 + random.below(i, 3000));
    const auto out = static_cast<std::int64_t>(1 + random.below(i + 1, 3000));
    const auto sequence = static_cast<std::int64_t>(1 + random.below(i + 2, 300));
    const auto samples = static_cast<std::int64_t>(1 + random.below(i + 3, 64));
    const Graph graph = linear_graph(in, out, sequence);
    const double rows = static_cast<double>(samples * sequence);
    const double flops = 2 * rows * static_cast<double>(in * out);
    const double bytes =
        4 * (rows * static_cast<double>(in + out) + static_cast<double>(in * out + out));
    const double r = plain_share(1, rows, static_cast<double>(out), 80);
    const double forward = std::max(flops / (kFlopsPerS * r), bytes / kBytesPerS);
    EXPECT_NEAR(seconds(graph, OpId(0), samples, Phase::kForward), forward + kLaunchS,
                1e-9 * forward);
    EXPECT_NEAR(seconds(graph, OpId(0), samples, Phase::kBackward), 2 * forward + 2 * kLaunchS,
                1e-9 * forward);
  }
}

TEST(AnalyticLinear, OptionsFlattenEfficiencyAndScaleTheLaunch) {
  const Graph graph = linear_graph(4096, 128, 128);
  const double flops = 2.0 * 128 * 128 * 4096;
  const AnalyticOptions options{.flat_efficiency = true, .launch_overhead_scale = 0.5};
  const double bytes = 4.0 * (128 * 4096 + 128 * 128 + 128 * 4096 + 128);
  EXPECT_NEAR(seconds(graph, OpId(0), 1, Phase::kForward, v100(), options),
              std::max(flops / kFlopsPerS, bytes / kBytesPerS) + kLaunchS / 2, 1e-12);
  EXPECT_EQ(AnalyticCosts(options).name(), "analytic, flat efficiency, launch overhead x 0.5");
  EXPECT_EQ(AnalyticCosts().name(), "analytic");
}

TEST(AnalyticLinear, ACpuCoreLosesNothingToTiles) {
  const Graph graph = linear_graph(1024, 1024, 1);
  const double flops = 2.0 * 8 * 1024 * 1024;
  const double rate = cpu().compute_efficiency * cpu().peak_flops_per_s;
  const double bytes = 4.0 * (8 * 1024 * 2 + 1024 * 1024 + 1024);
  const double bytes_per_s = cpu().memory_efficiency * cpu().memory_bandwidth_bytes_per_s;
  EXPECT_NEAR(seconds(graph, OpId(0), 8, Phase::kForward, cpu()),
              std::max(flops / rate, bytes / bytes_per_s) + cpu().launch_overhead_s, 1e-12);
}

TEST(AnalyticMatmul, ProblemsOfABatchAreTiledApart) {
  GraphBuilder g("matmul");
  const TensorId a = g.input("a", {3, 100, 512});
  const TensorId b = g.input("b", {3, 512, 200});
  g.matmul("ab", a, b);
  const Graph graph = std::move(g).build();
  const double flops = 2.0 * (5 * 3) * 100 * 200 * 512;
  const double bytes = 4.0 * 5 * 3 * (100 * 512 + 512 * 200 + 100 * 200);
  EXPECT_NEAR(
      seconds(graph, OpId(0), 5, Phase::kForward),
      std::max(flops / (kFlopsPerS * plain_share(15, 100, 200, 80)), bytes / kBytesPerS) + kLaunchS,
      1e-12);
}

TEST(AnalyticConvolution, IsTheProductOfItsWindowsWithItsWeight) {
  GraphBuilder g("conv");
  g.conv2d("conv", g.input("x", {64, 28, 28}), 96, 3, {.padding = 1, .groups = 2});
  const Graph graph = std::move(g).build();
  const double rows = 4.0 * 28 * 28;
  const double inner = 32 * 9;
  const double flops = 2 * rows * 96 * inner;
  const double expected = flops / (kFlopsPerS * plain_share(2, rows, 48, 80));
  EXPECT_NEAR(seconds(graph, OpId(0), 4, Phase::kForward), expected + kLaunchS, 1e-12);
  EXPECT_NEAR(flops, 4 * forward_flops_per_sample(graph, OpId(0)), 1e-3);
}

TEST(AnalyticConvolution, ATransposedOneSpreadsItsInputs) {
  GraphBuilder g("grow");
  g.conv_transpose2d("grow", g.input("x", {512, 28, 28}), 256, 2, {.stride = 2});
  const Graph graph = std::move(g).build();
  const double rows = 4.0 * 28 * 28;
  const double flops = 2 * rows * (256 * 4) * 512;
  const double expected = flops / (kFlopsPerS * plain_share(1, rows, 256 * 4, 80));
  EXPECT_NEAR(seconds(graph, OpId(0), 4, Phase::kForward), expected + kLaunchS, 1e-12);
  EXPECT_NEAR(flops, 4 * forward_flops_per_sample(graph, OpId(0)), 1e-3);
}

TEST(AnalyticConvolution, ADepthwiseOneIsBoundByItsBytes) {
  GraphBuilder g("depthwise");
  g.conv2d("conv", g.input("x", {64, 28, 28}), 64, 3, {.padding = 1, .groups = 64, .bias = false});
  const Graph graph = std::move(g).build();
  const double bytes = 4.0 * (2 * 4 * 64 * 28 * 28 + 64 * 9);
  EXPECT_NEAR(seconds(graph, OpId(0), 4, Phase::kForward), bytes / kBytesPerS + kLaunchS, 1e-12);
}

TEST(AnalyticRecurrent, StepsWaitForEachOther) {
  GraphBuilder g("lstm");
  g.lstm("lstm", g.input("x", {50, 256}), 512);
  const Graph graph = std::move(g).build();
  const auto time = [](double m, double n, double k) {
    return 2 * m * n * k / (kFlopsPerS * plain_share(1, m, n, 80));
  };
  const double expected = time(8 * 50, 2048, 256) + 50 * time(8, 2048, 512);
  EXPECT_NEAR(seconds(graph, OpId(0), 8, Phase::kForward), expected + kLaunchS, 1e-12);
}

TEST(AnalyticAttention, SumsFourProductsEachWithItsOwnShare) {
  constexpr double kSequence = 256, kChannels = 1024, kHeads = 16, kSamples = 4, kHead = 64;
  GraphBuilder g("attention");
  g.attention("mha", g.input("x", {256, 1024}), 16);
  const Graph graph = std::move(g).build();
  const double rows = kSamples * kSequence;
  const auto time = [](double problems, double m, double n, double k) {
    return 2 * problems * m * n * k / (kFlopsPerS * plain_share(problems, m, n, 80));
  };
  const double expected = time(1, rows, 3 * kChannels, kChannels) +
                          time(kSamples * kHeads, kSequence, kSequence, kHead) +
                          time(kSamples * kHeads, kSequence, kHead, kSequence) +
                          time(1, rows, kChannels, kChannels);
  EXPECT_NEAR(seconds(graph, OpId(0), 4, Phase::kForward), expected + kLaunchS, 1e-12);
  EXPECT_NEAR(seconds(graph, OpId(0), 4, Phase::kBackward), 2 * expected + 2 * kLaunchS, 1e-12);
}

TEST(AnalyticAttention, ProductsAddUpToTheGraphsFlops) {
  GraphBuilder g("attention");
  g.attention("mha", g.input("x", {64, 128}), 4);
  const Graph graph = std::move(g).build();
  const double products =
      2.0 * 64 * 128 * (3 * 128) + 2 * 2.0 * 64 * 64 * 128 + 2.0 * 64 * 128 * 128;
  EXPECT_NEAR(forward_flops_per_sample(graph, OpId(0)), products, 0.01 * products);
}

TEST(AnalyticOthers, AreBoundByTheBytesTheyMove) {
  GraphBuilder g("relu");
  g.relu("relu", g.input("x", {1000}));
  const Graph graph = std::move(g).build();
  EXPECT_NEAR(seconds(graph, OpId(0), 8, Phase::kForward), 2 * 8 * 4000 / kBytesPerS + kLaunchS,
              1e-15);
  EXPECT_NEAR(seconds(graph, OpId(0), 8, Phase::kBackward),
              2 * 2 * 8 * 4000 / kBytesPerS + 2 * kLaunchS, 1e-15);
}

TEST(AnalyticOthers, AReshapeMovesNothing) {
  GraphBuilder g("reshape");
  g.reshape("view", g.input("x", {10, 10}), {100});
  const Graph graph = std::move(g).build();
  EXPECT_EQ(seconds(graph, OpId(0), 1 << 20, Phase::kForward), kLaunchS);
}

TEST(AnalyticEmbedding, MovesRowsForwardAndTheTablesGradientBackward) {
  GraphBuilder g("bag");
  g.embedding_bag("bag", g.input("ids", DType::kInt64, {100}), 1'000'000, 64);
  const Graph graph = std::move(g).build();
  const double moved = 32 * (100 * 8 + 64 * 4 + 100 * 64 * 4);
  const double table = 1e6 * 64 * 4;
  EXPECT_NEAR(seconds(graph, OpId(0), 32, Phase::kForward), moved / kBytesPerS + kLaunchS, 1e-12);
  EXPECT_NEAR(seconds(graph, OpId(0), 32, Phase::kBackward),
              (2 * moved + table) / kBytesPerS + 2 * kLaunchS, 1e-12);
}

TEST(AnalyticPhases, HalvesOfABackwardMakeTheWhole) {
  GraphBuilder g("all");
  const TensorId ids = g.input("ids", DType::kInt64, {5});
  const TensorId x = g.embedding("table", ids, 50, 8);
  g.relu("relu", g.layer_norm("norm", g.linear("fc", x, 8)));
  const Graph graph = std::move(g).build();
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const OpId op(i);
    EXPECT_DOUBLE_EQ(seconds(graph, op, 3, Phase::kBackwardInput) +
                         seconds(graph, op, 3, Phase::kBackwardWeight),
                     seconds(graph, op, 3, Phase::kBackward))
        << graph.ops[i].name;
  }
  EXPECT_EQ(seconds(graph, OpId(0), 3, Phase::kBackwardInput), 0);          // ids: no gradient
  EXPECT_EQ(seconds(graph, last_op(graph), 3, Phase::kBackwardWeight), 0);  // no parameter
}

TEST(AnalyticPhases, ARecomputeCostsAForward) {
  const Graph graph = linear_graph(64, 64, 4);
  EXPECT_EQ(seconds(graph, OpId(0), 3, Phase::kRecompute),
            seconds(graph, OpId(0), 3, Phase::kForward));
}

TEST(AnalyticPhases, NoSamplesCostNothing) {
  const Graph graph = linear_graph(64, 64, 4);
  EXPECT_EQ(seconds(graph, OpId(0), 0, Phase::kForward), 0);
  EXPECT_EQ(saved(graph, OpId(0), 0, v100()), 0);
}

TEST(AnalyticPhases, AMetricHasNoBackward) {
  GraphBuilder g("metric");
  g.correct("score", g.input("logits", {3}), g.input("label", DType::kInt64, {}));
  const Graph graph = std::move(g).build();
  EXPECT_GT(seconds(graph, OpId(0), 3, Phase::kForward), 0);
  EXPECT_EQ(seconds(graph, OpId(0), 3, Phase::kBackward), 0);
}

TEST(AnalyticSaved, AttentionKeepsProbabilitiesAndOnACpuItsProjections) {
  GraphBuilder g("attention");
  g.attention("mha", g.input("x", {10, 8}), 2);
  const Graph graph = std::move(g).build();
  const std::int64_t probabilities = 3 * 2 * 10 * 10 * 4;
  EXPECT_EQ(saved(graph, OpId(0), 3, v100()), probabilities);
  EXPECT_EQ(saved(graph, OpId(0), 3, cpu()), probabilities + 3 * 4 * 10 * 8 * 4);
}

TEST(AnalyticSaved, ExtrasAreWhatTheRuntimeKeeps) {
  GraphBuilder g("extras");
  const TensorId x = g.input("x", {10, 8});
  g.dropout("dropout", x, 0.5);
  g.layer_norm("norm", x);
  g.relu("relu", x);
  g.cross_entropy("loss", x, g.input("labels", DType::kInt64, {10}));
  const Graph graph = std::move(g).build();
  EXPECT_EQ(saved(graph, OpId(0), 3, v100()), 3 * 10 * 8 * 4);  // the mask
  EXPECT_EQ(saved(graph, OpId(1), 3, v100()), 3 * 10 * 2 * 4);  // mean and deviation a row
  EXPECT_EQ(saved(graph, OpId(2), 3, v100()), 0);
  EXPECT_EQ(saved(graph, OpId(3), 3, v100()), 3 * 10 * 8 * 4);  // log-probabilities
}

TEST(AnalyticSaved, PoolsKeepPlacesAndBatchNormsTwoNumbersAChannel) {
  GraphBuilder g("images");
  const TensorId x = g.input("x", {4, 8, 8});
  g.max_pool2d("pool", x, 2, 2);
  g.batch_norm("norm", x);
  g.conv2d("conv", x, 2, 1);
  const Graph graph = std::move(g).build();
  EXPECT_EQ(saved(graph, OpId(0), 3, v100()), 3 * 4 * 4 * 4 * 8);
  EXPECT_EQ(saved(graph, OpId(1), 3, v100()), 2 * 4 * 4);
  EXPECT_EQ(saved(graph, OpId(2), 3, v100()), 0);
}

// The library keeps 152,576 and 153,600 bytes of these, and works in 193,536 and 141,056.
TEST(AnalyticSaved, RecurrentOperatorsKeepSevenNumbersAUnitAndTheirInput) {
  GraphBuilder g("sequences");
  const TensorId x = g.input("x", {20, 32});
  g.lstm("lstm", x, 64);
  g.gru("gru", x, 64);
  const Graph graph = std::move(g).build();
  for (const OpId op : {OpId(0), OpId(1)}) {
    EXPECT_EQ(saved(graph, op, 4, cpu()), 4 * 20 * (7 * 64 + 32) * 4);
  }
  const auto workspace = [&](OpId op) {
    return AnalyticCosts().op_cost(graph, op, 4, 1, cpu(), Phase::kBackward).workspace_bytes;
  };
  EXPECT_GE(workspace(OpId(0)), 193'536);
  EXPECT_GE(workspace(OpId(1)), 141'056);
}

TEST(AnalyticWorkspace, ABackwardHoldsItsGradients) {
  const Graph graph = linear_graph(64, 32, 4);
  const AnalyticCosts costs;
  const OpCost cost = costs.op_cost(graph, OpId(0), 3, 1, v100(), Phase::kBackward);
  const std::int64_t x = 3 * 4 * 64 * 4, y = 3 * 4 * 32 * 4, params = (64 * 32 + 32) * 4;
  EXPECT_GE(cost.workspace_bytes, x + y + params);
}

}  // namespace
}  // namespace graphpipe
