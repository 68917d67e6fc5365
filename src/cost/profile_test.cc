#include "cost/profile.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "cost/analytic.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

// fc (linear), relu, and another linear of another shape.
Graph three_ops() {
  GraphBuilder g("three");
  const TensorId x = g.input("x", {16});
  g.linear("other", g.relu("relu", g.linear("fc", x, 16)), 4);
  return std::move(g).build();
}

DeviceType device() {
  return {.name = "core",
          .peak_flops_per_s = 1e9,
          .memory_bandwidth_bytes_per_s = 1e9,
          .memory_bytes = 1 << 30,
          .launch_overhead_s = 1e-6};
}

Profile profile_of(const Graph& graph, std::vector<std::pair<int, ProfileEntry>> entries) {
  Profile profile;
  profile.model = "three";
  for (auto& [op, entry] : entries) {
    profile.entries[op_signature(graph, OpId(op))] = std::move(entry);
  }
  return profile;
}

// 1, 4 and 8 samples.
ProfileEntry three_points() {
  return {.points = {{1, 2, 10, 100, 7}, {4, 5, 40, 400, 70}, {8, 13, 60, 801, 90}}, .failure = ""};
}

OpCost cost_at(const ProfiledCosts& costs, const Graph& graph, std::int64_t samples,
               Phase phase = Phase::kForward, int op = 0) {
  return costs.op_cost(graph, OpId(op), samples, 1, device(), phase);
}

TEST(ProfiledCosts, MeasuredCountsAreTakenAsTheyAre) {
  const Graph graph = three_ops();
  const ProfiledCosts costs(profile_of(graph, {{0, three_points()}}), "p.json");
  const OpCost forward = cost_at(costs, graph, 4);
  EXPECT_DOUBLE_EQ(forward.seconds, 5);
  EXPECT_EQ(forward.saved_bytes, 400);
  EXPECT_EQ(forward.workspace_bytes, 70);
  EXPECT_FALSE(forward.extrapolated);
  const OpCost backward = cost_at(costs, graph, 4, Phase::kBackward);
  EXPECT_DOUBLE_EQ(backward.seconds, 40);
  EXPECT_EQ(backward.saved_bytes, 0);
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 4, Phase::kBackwardInput).seconds, 20);
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 4, Phase::kRecompute).seconds, 5);
  EXPECT_EQ(cost_at(costs, graph, 0).seconds, 0);
}

TEST(ProfiledCosts, BetweenTwoCountsIsInterpolated) {
  const Graph graph = three_ops();
  const ProfiledCosts costs(profile_of(graph, {{0, three_points()}}), "p.json");
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 3).seconds, 4);
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 6).seconds, 9);
  EXPECT_EQ(cost_at(costs, graph, 6).saved_bytes, 601);  // 600.5, rounded up
  EXPECT_FALSE(cost_at(costs, graph, 6).extrapolated);
}

TEST(ProfiledCosts, BeyondTheLastGrowsWithTheLastSlope) {
  const Graph graph = three_ops();
  const ProfiledCosts costs(profile_of(graph, {{0, three_points()}}), "p.json");
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 12).seconds, 13 + 4 * 2);
  EXPECT_TRUE(cost_at(costs, graph, 12).extrapolated);
}

TEST(ProfiledCosts, ASlopeThatFallsIsNoise) {
  const Graph graph = three_ops();
  const ProfileEntry noisy{.points = {{4, 6, 8, 0, 0}, {8, 5, 9, 0, 0}}, .failure = ""};
  const ProfiledCosts costs(profile_of(graph, {{0, noisy}}), "p.json");
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 100).seconds, 6);
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 1).seconds, 6);
}

TEST(ProfiledCosts, BelowTheFirstFallsWithTheFirstSlopeButNotBelowProportion) {
  const Graph graph = three_ops();
  const ProfileEntry fixed_part{.points = {{4, 10, 8, 0, 0}, {8, 12, 8, 0, 0}}, .failure = ""};
  const ProfileEntry steep{.points = {{4, 10, 8, 0, 0}, {8, 30, 8, 0, 0}}, .failure = ""};
  const ProfiledCosts costs(profile_of(graph, {{0, fixed_part}, {2, steep}}), "p.json");
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 2).seconds, 9);
  EXPECT_TRUE(cost_at(costs, graph, 2).extrapolated);
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 2, Phase::kForward, 2).seconds, 5);
}

TEST(ProfiledCosts, OnePointGrowsInProportion) {
  const Graph graph = three_ops();
  const ProfileEntry one{.points = {{4, 10, 8, 100, 0}}, .failure = ""};
  const ProfiledCosts costs(profile_of(graph, {{0, one}}), "p.json");
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 2).seconds, 5);
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 12).seconds, 30);
  EXPECT_EQ(cost_at(costs, graph, 12).saved_bytes, 300);
  EXPECT_TRUE(cost_at(costs, graph, 12).extrapolated);
}

TEST(ProfiledCosts, ContentionOfTheMeasurementIsTakenOut) {
  const Graph graph = three_ops();
  Profile profile = profile_of(graph, {{0, three_points()}});
  profile.load = 6;
  profile.cores = 2;
  const ProfiledCosts shared(profile, "p.json");
  EXPECT_DOUBLE_EQ(cost_at(shared, graph, 4).seconds, 5.0 / 3);
  profile.cores = 8;
  const ProfiledCosts idle_cores(profile, "p.json");
  EXPECT_DOUBLE_EQ(cost_at(idle_cores, graph, 4).seconds, 5);
}

// Measured to analytic: fc twice as slow, relu four times, so other is taken three times.
TEST(ProfiledCosts, AnUnknownOperatorTakesTheMedianRatio) {
  const Graph graph = three_ops();
  const AnalyticCosts analytic;
  std::vector<std::pair<int, ProfileEntry>> entries;
  for (const int op : {0, 1}) {
    const double ratio = op == 0 ? 2 : 4;
    const auto seconds = [&](Phase phase) {
      return ratio * analytic.op_cost(graph, OpId(op), 4, 1, device(), phase).seconds;
    };
    entries.push_back({op, {{{4, seconds(Phase::kForward), seconds(Phase::kBackward), 0, 0}}, ""}});
  }
  entries.push_back({2, {{}, "out of memory"}});  // tried, and not measured
  const ProfiledCosts costs(profile_of(graph, std::move(entries)), "p.json");
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const OpCost expected = analytic.op_cost(graph, OpId(2), 8, 1, device(), phase);
    const OpCost found = cost_at(costs, graph, 8, phase, 2);
    EXPECT_NEAR(found.seconds, 3 * expected.seconds, 1e-9 * expected.seconds);
    EXPECT_EQ(found.workspace_bytes, expected.workspace_bytes);
    EXPECT_TRUE(found.extrapolated);
  }
}

TEST(ProfiledCosts, AnEmptyProfileIsTheAnalyticModel) {
  const Graph graph = three_ops();
  const ProfiledCosts costs(Profile{}, "p.json");
  EXPECT_DOUBLE_EQ(
      cost_at(costs, graph, 8).seconds,
      AnalyticCosts().op_cost(graph, OpId(0), 8, 1, device(), Phase::kForward).seconds);
}

// Equal signatures share an entry; the object may serve several graphs.
TEST(ProfiledCosts, EntriesAreFoundBySignatureInAnyGraph) {
  const Graph graph = three_ops();
  const ProfiledCosts costs(profile_of(graph, {{0, three_points()}}), "p.json");
  EXPECT_DOUBLE_EQ(cost_at(costs, graph, 4).seconds, 5);
  GraphBuilder g("another");
  const TensorId x = g.input("x", {16});
  g.linear("second", g.linear("first", g.relu("start", x), 16), 16);
  const Graph another = std::move(g).build();
  EXPECT_TRUE(cost_at(costs, another, 4, Phase::kForward, 0).extrapolated);  // relu: no entry
  EXPECT_DOUBLE_EQ(cost_at(costs, another, 4, Phase::kForward, 1).seconds, 5);
  EXPECT_DOUBLE_EQ(cost_at(costs, another, 4, Phase::kForward, 2).seconds, 5);
}

TEST(ProfiledCosts, TransfersAreMeasuredWhereTheyWere) {
  Profile profile;
  const Link link{100, 0.5};
  EXPECT_DOUBLE_EQ(ProfiledCosts(profile, "p.json").transfer_s(100, link), 1.5);
  profile.transfer_bytes_per_s = 50;
  profile.transfer_latency_s = 0.25;
  const ProfiledCosts measured(profile, "p.json");
  EXPECT_DOUBLE_EQ(measured.transfer_s(100, link), 2.25);
  EXPECT_DOUBLE_EQ(measured.reduce_s(100, 2, link), 2.5);
}

TEST(ProfiledCosts, SumsAreMeasuredWhereTheyWere) {
  Profile profile;
  profile.transfer_bytes_per_s = 50;
  profile.reduce_bytes_per_s = 20;
  profile.reduce_latency_s = 0.5;
  EXPECT_DOUBLE_EQ(ProfiledCosts(profile, "p.json").reduce_s(100, 2, {100, 0.5}), 6);
}

TEST(ProfiledCosts, AStepTakesTheMeasuredLineOfItsOptimiser) {
  EXPECT_EQ(AnalyticCosts().step_s(3, 100, 2), 0);
  Profile profile;
  EXPECT_EQ(ProfiledCosts(profile, "p.json").step_s(3, 100, 2), 0);
  profile.steps[2] = {0.5, 50};
  const ProfiledCosts measured(profile, "p.json");
  EXPECT_DOUBLE_EQ(measured.step_s(3, 100, 2), 3.5);
  EXPECT_EQ(measured.step_s(3, 100, 0), 0);
}

TEST(ProfiledCosts, ATaskTakesTheMeasuredOverhead) {
  const Graph graph = three_ops();
  Profile profile = profile_of(graph, {{0, three_points()}});
  profile.action_overhead_s = 0.125;
  const ProfiledCosts costs(profile, "movielens.profile.json");
  EXPECT_DOUBLE_EQ(stage_cost(costs, graph, {OpId(0)}, 4, device()).forward_s, 5.125);
  EXPECT_EQ(costs.name(), "profile movielens.profile.json");
}

std::string fault(const ProfileEntry& entry) {
  Profile profile;
  profile.entries["relu(4)"] = entry;
  try {
    validate(profile, "p.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ProfileValidate, F1AnEntryHasPointsOrAFailure) {
  EXPECT_EQ(fault({}),
            "p.json: /entries/relu(4): F1: neither points nor a failure; give one of them");
  EXPECT_EQ(fault({{{1, 1, 1, 0, 0}}, "out of memory"}),
            "p.json: /entries/relu(4): F1: both points and a failure; give one of them");
  EXPECT_EQ(fault({{}, "out of memory"}), "");
}

TEST(ProfileValidate, F1SampleCountsAscend) {
  EXPECT_EQ(fault({{{4, 1, 1, 0, 0}, {4, 1, 1, 0, 0}}, ""}),
            "p.json: /entries/relu(4)/points/1/samples: F1: sample counts must be positive and "
            "ascend, found 4 after 4");
  EXPECT_EQ(fault({{{0, 1, 1, 0, 0}}, ""}),
            "p.json: /entries/relu(4)/points/0/samples: F1: sample counts must be positive and "
            "ascend, found 0 after 0");
}

TEST(ProfileValidate, F2TimesAreFiniteAndPositive) {
  EXPECT_EQ(fault({{{1, 0, 1, 0, 0}}, ""}),
            "p.json: /entries/relu(4)/points/0/forward_s: F2: expected a positive number of "
            "seconds, found 0");
  EXPECT_EQ(fault({{{1, 1, -1, 0, 0}}, ""}),
            "p.json: /entries/relu(4)/points/0/backward_s: F2: expected a number that is not "
            "negative, found -1");
  EXPECT_EQ(fault({{{1, std::numeric_limits<double>::infinity(), 1, 0, 0}}, ""}),
            "p.json: /entries/relu(4)/points/0/forward_s: F2: expected a positive number of "
            "seconds, found inf");
  EXPECT_EQ(fault({{{1, 1, 0, 0, 0}}, ""}), "");  // no backward
}

TEST(ProfileValidate, F2BytesAndFiguresAreNotNegative) {
  EXPECT_EQ(fault({{{1, 1, 1, -1, 0}}, ""}),
            "p.json: /entries/relu(4)/points/0/saved_bytes: F2: bytes must not be negative, found "
            "-1");
  EXPECT_EQ(fault({{{1, 1, 1, 0, -1}}, ""}),
            "p.json: /entries/relu(4)/points/0/workspace_bytes: F2: bytes must not be negative, "
            "found -1");
  Profile profile;
  profile.transfer_latency_s = -1;
  try {
    validate(profile, "p.json");
    FAIL() << "the latency passed";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "p.json: /transfer_latency_s: F2: expected a number that is not negative, found "
                 "-1");
  }
}

}  // namespace
}  // namespace graphpipe
