#include "runtime/profiler.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/error.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "graph/builder.h"
#include "runtime/counting_allocator.h"

namespace graphpipe {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kFloat = 4;

OpId op_named(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (graph.ops[i].name == name) return OpId(i);
  }
  GP_CHECK(false, "no operator {}", name);
}

// Two equal linears, so that there is one signature for both.
Graph small_model() {
  GraphBuilder g("small");
  const TensorId ids = g.input("ids", DType::kInt64, {});
  const TensorId h = g.embedding("table", ids, 100, 16);
  const TensorId a = g.relu("relu", g.linear("fc0", h, 16));
  const TensorId b = g.dropout("drop", g.linear("fc1", a, 16), 0.5);
  const TensorId logits = g.linear("out", g.softmax("soft", b), 5);
  const TensorId label = g.input("label", DType::kInt64, {});
  g.loss(g.cross_entropy("loss", logits, label));
  g.metric("accuracy", "mean", g.correct("correct", logits, label));
  return std::move(g).build();
}

ProfilePoint measure(const Graph& graph, const std::string& op, std::int64_t samples) {
  install_counting_allocator();
  return measure_op(graph, op_named(graph, op), samples, 1, 0.0);
}

TEST(MeasureOp, ALinearSavesNothingBesideItsInput) {
  const ProfilePoint point = measure(small_model(), "fc0", 8);
  EXPECT_EQ(point.samples, 8);
  EXPECT_GT(point.forward_s, 0);
  EXPECT_GT(point.backward_s, 0);
  EXPECT_EQ(point.saved_bytes, 0);
  // The backward makes the gradients of the input, the weight and the bias.
  EXPECT_GE(point.workspace_bytes, (8 * 16 + 16 * 16 + 16) * kFloat);
}

TEST(MeasureOp, DropoutSavesItsMask) {
  EXPECT_EQ(measure(small_model(), "drop", 8).saved_bytes, 8 * 16 * kFloat);
}

TEST(MeasureOp, AnOperatorWithoutAGradientHasNoBackward) {
  const ProfilePoint point = measure(small_model(), "correct", 8);
  EXPECT_GT(point.forward_s, 0);
  EXPECT_EQ(point.backward_s, 0);
  EXPECT_EQ(point.saved_bytes, 0);
}

// Weights that are brought into another order for images of one pixel: 9 MiB and 4 MiB.
TEST(MeasureOp, TheAnalyticWorkspaceOfAConvolutionHolds) {
  GraphBuilder g("pixels");
  TensorId x = g.input("x", {512, 2, 2});
  x = g.conv2d("to_one", x, 512, 3, {.stride = 2, .padding = 1});
  x = g.conv2d("at_one", x, 512, 3, {.padding = 1});
  x = g.conv2d("small", x, 2048, 1);
  g.loss(g.mse_loss("loss", x, g.input("y", {2048, 1, 1})));
  const Graph graph = std::move(g).build();
  const AnalyticCosts costs;
  const DeviceType device = preset_cluster("local:1").types[0];
  for (const char* op : {"to_one", "at_one", "small"}) {
    const std::int64_t measured = measure(graph, op, 2).workspace_bytes;
    const OpCost backward =
        costs.op_cost(graph, op_named(graph, op), 2, 1, device, Phase::kBackward);
    EXPECT_LE(measured, backward.workspace_bytes) << op;
    // Matrix products, where oneDNN is left out, read the weights as they are.
    if (!at::globalContext().userEnabledMkldnn()) continue;
    EXPECT_GE(measured, backward.workspace_bytes * 9 / 10) << op;
  }
}

TEST(MeasureOp, KeepsWholeNumbersWithinTheirRange) {
  // With ids or labels out of range the library throws.
  const Graph graph = small_model();
  EXPECT_NO_THROW(measure(graph, "table", 64));
  EXPECT_NO_THROW(measure(graph, "loss", 64));
}

TEST(FitTransferLine, FindsTheLineThatTimesLieOn) {
  std::vector<TransferTime> times;
  for (const double bytes : {256.0, 4096.0, 65536.0, 1e6}) {
    times.push_back({bytes, 1e-4 + bytes / 2e9});
  }
  const TransferLine line = fit_transfer_line(times);
  EXPECT_NEAR(line.latency_s, 1e-4, 1e-12);
  EXPECT_NEAR(line.bytes_per_s, 2e9, 1);
}

TEST(FitTransferLine, SaysHowFarTimesAreFromTheLine) {
  const auto residual = [](double second) {
    return fit_transfer_line({{1000, 1e-4}, {2000, second}, {3000, 3e-4}}).residual;
  };
  EXPECT_NEAR(residual(2e-4), 0, 1e-12);
  EXPECT_GT(residual(1.5e-4), 0.05);
  EXPECT_LT(residual(1.5e-4), 0.3);
}

TEST(FitTransferLine, KnowsNoBandwidthWhereTimesDoNotGrow) {
  const TransferLine line = fit_transfer_line({{256, 1e-4}, {4096, 1e-4}});
  EXPECT_NEAR(line.latency_s, 1e-4, 1e-12);
  EXPECT_EQ(line.bytes_per_s, 0);
}

TEST(FitTransferLine, HasNoNegativeLatency) {
  const TransferLine line = fit_transfer_line({{1000, 1e-6}, {2000, 1e-5}});
  EXPECT_EQ(line.latency_s, 0);
  EXPECT_GT(line.bytes_per_s, 0);
}

TEST(MeasureProfile, GivesEveryRankTheSameProfileOfEverySignature) {
  install_counting_allocator();
  const Graph graph = small_model();
  const ProfileOptions options{.model = "small", .samples = {1, 4}, .repeats = 1, .least_s = 0};
  auto transports = connect_threads(2, 20);
  std::vector<Profile> profiles(2);
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back(
        [&, rank] { profiles[rank] = measure_profile(graph, options, *transports[rank], {}); });
  }
  for (std::thread& rank : ranks) rank.join();

  const Profile& profile = profiles[0];
  validate(profile, "measured");
  EXPECT_EQ(profile.graph_hash, graph_hash(graph));
  EXPECT_EQ(profile.load, 2);
  EXPECT_THAT(profile.device, HasSubstr("cpu: "));
  EXPECT_THAT(profile.library, HasSubstr("libtorch"));
  EXPECT_GT(profile.transfer_latency_s, 0);
  EXPECT_GT(profile.action_overhead_s, 0);
  EXPECT_EQ(profile.entries.size(), graph.op_count() - 1);  // two linears are alike
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const auto entry = profile.entries.find(op_signature(graph, OpId(i)));
    ASSERT_NE(entry, profile.entries.end()) << graph.ops[i].name;
    ASSERT_EQ(entry->second.points.size(), 2) << entry->second.failure;
    EXPECT_EQ(entry->second.points[0].samples, 1);
    EXPECT_EQ(entry->second.points[1].samples, 4);
    const auto other = profiles[1].entries.find(entry->first);
    ASSERT_NE(other, profiles[1].entries.end());
    EXPECT_EQ(other->second.points[1].forward_s, entry->second.points[1].forward_s);
  }
}

TEST(MeasureProfile, TakesFromTheCacheWhatItHas) {
  install_counting_allocator();
  const Graph graph = small_model();
  const std::string folder = testing::TempDir() + "/gp_profiler_test_" + std::to_string(getpid());
  std::int64_t known = -1;
  ProfileOptions options{.model = "small", .samples = {1, 4}, .repeats = 1, .least_s = 0};
  options.cache = folder;
  options.on_known = [&](std::int64_t found, std::int64_t) { known = found; };
  std::vector<std::pair<std::string, double>> told;
  const auto measured = [&] {
    auto transports = connect_threads(1, 20);
    told.clear();
    return measure_profile(
               graph, options, *transports[0],
               [&](const std::string& what, double done) { told.emplace_back(what, done); })
        .entries;
  };
  const auto signatures = static_cast<std::int64_t>(graph.op_count()) - 1;
  const auto first = measured();
  EXPECT_EQ(known, 0);
  ASSERT_EQ(std::ssize(told), 2 * signatures + 2);
  EXPECT_EQ(told[0].second, 0);
  EXPECT_EQ(told[1].second, 1 / static_cast<double>(2 * signatures));
  EXPECT_EQ(told.back(), std::pair(std::string("the executor"), 1.0));
  options.samples = {1, 4, 8};
  const auto second = measured();
  EXPECT_EQ(known, 2 * signatures);
  EXPECT_EQ(std::ssize(told), signatures + 2);  // of what is measured alone
  for (const auto& [signature, entry] : first) {
    const ProfileEntry& again = second.at(signature);
    ASSERT_EQ(again.points.size(), 3);
    EXPECT_EQ(again.points[1].forward_s, entry.points[1].forward_s) << signature;
  }
  options.fresh = true;
  known = -1;
  measured();
  EXPECT_EQ(known, -1);
  std::filesystem::remove_all(folder);
}

TEST(MeasureProfile, RecordsWhatFailsAndGoesOn) {
  install_counting_allocator();
  const Graph graph = small_model();
  // More bytes than there are addresses.
  const ProfileOptions options{
      .model = "small", .samples = {std::int64_t{1} << 60}, .repeats = 1, .least_s = 0};
  auto transports = connect_threads(1, 20);
  const Profile profile = measure_profile(graph, options, *transports[0], {});
  EXPECT_EQ(profile.entries.size(), graph.op_count() - 1);
  for (const auto& [signature, entry] : profile.entries) {
    EXPECT_TRUE(entry.points.empty()) << signature;
    EXPECT_THAT(entry.failure, HasSubstr("1152921504606846976 samples: ")) << signature;
  }
  validate(profile, "measured");
}

}  // namespace
}  // namespace graphpipe
