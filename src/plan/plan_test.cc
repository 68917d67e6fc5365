#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/counter_random.h"
#include "graph/builder.h"
#include "plan/test_plans.h"

namespace graphpipe {
namespace {

using Counts = std::vector<std::int64_t>;

// Stages of these micro-batch sizes, joined by data edges; no operators.
Plan stage_graph(const Counts& micro_batches, const std::vector<std::pair<int, int>>& edges,
                 std::int64_t mini_batch = 1024) {
  Plan plan;
  plan.mini_batch = mini_batch;
  for (std::size_t s = 0; s < micro_batches.size(); ++s) {
    Stage stage;
    stage.micro_batch = micro_batches[s];
    stage.devices = {DeviceId(s)};
    plan.stages.push_back(stage);
  }
  for (const auto& [from, to] : edges) {
    plan.edges.push_back({StageId(from), StageId(to), EdgeKind::kData, {}, true});
  }
  return plan;
}

// The known answers of docs/papers.md.
TEST(LeastInFlight, AChainCountsDownToTheSink) {
  EXPECT_EQ(least_in_flight(stage_graph({1, 1, 1, 1}, {{0, 1}, {1, 2}, {2, 3}})),
            (Counts{4, 3, 2, 1}));
}

TEST(LeastInFlight, ParallelStagesCountAlike) {
  EXPECT_EQ(least_in_flight(stage_graph({1, 1, 1, 1}, {{0, 3}, {1, 3}, {2, 3}})),
            (Counts{2, 2, 2, 1}));
}

TEST(LeastInFlight, MixedSizesCountInSamples) {
  const std::vector<std::pair<int, int>> chain{{0, 1}, {1, 2}};
  EXPECT_EQ(least_in_flight(stage_graph({1, 2, 4}, chain)), (Counts{10, 8, 4}));
  EXPECT_EQ(least_in_flight(stage_graph({4, 4, 4}, chain)), (Counts{12, 8, 4}));
  EXPECT_EQ(least_in_flight(stage_graph({2, 1, 1}, chain)), (Counts{6, 2, 1}));
}

TEST(LeastInFlight, AJoinInABranchRaisesTheOtherBranch) {
  // A is 0 1 2 3, whose last stage holds the join; B is 4 5 6 7.
  const Plan plan = stage_graph({1, 1, 1, 1, 1, 1, 1, 1},
                                {{0, 1}, {1, 2}, {2, 3}, {4, 5}, {5, 6}, {6, 7}, {7, 3}});
  EXPECT_EQ(least_in_flight(plan), (Counts{4, 3, 2, 1, 5, 4, 3, 2}));
}

TEST(LeastInFlight, AShortBranchDoesNotRunAhead) {
  // Branches of 4 (0 to 3) and 1 (4) before 2 shared stages (5, 6).
  const Plan plan =
      stage_graph({1, 1, 1, 1, 1, 1, 1}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}, {4, 5}, {5, 6}});
  EXPECT_EQ(least_in_flight(plan), (Counts{6, 5, 4, 3, 3, 2, 1}));
}

TEST(LeastInFlight, OrderEdgesCountAsDataDoes) {
  Plan plan = stage_graph({1, 1, 1, 1}, {{0, 3}, {1, 3}, {2, 3}});
  add_chain_order(plan);
  EXPECT_EQ(least_in_flight(plan), (Counts{4, 3, 2, 1}));
}

TEST(LeastInFlight, GroupsOfKCountAsOne) {
  // For k = 2: I(sink) = 2b; before it I + max(g, b) + max(0, b - g) = 2 + 2.
  Plan plan = stage_graph({1, 1}, {{0, 1}});
  for (Stage& stage : plan.stages) stage.kfkb = 2;
  EXPECT_EQ(least_in_flight(plan), (Counts{4, 2}));
}

TEST(LeastInFlight, RoundRobinCountsWithAllReplicas) {
  // Three stages with 1, 3 and 1 replicas (PipeDream's 1-3-1).
  Plan plan = stage_graph({1, 1, 1}, {{0, 1}, {1, 2}});
  plan.stages[1].devices = {DeviceId(1), DeviceId(3), DeviceId(4)};
  plan.stages[1].replication = Replication::kRoundRobin;
  EXPECT_EQ(least_in_flight(plan), (Counts{9, 6, 1}));
  plan.stages[1].replication = Replication::kSplit;
  EXPECT_EQ(least_in_flight(plan), (Counts{3, 2, 1}));
}

TEST(LeastInFlight, IsCappedAtTheMiniBatch) {
  EXPECT_EQ(least_in_flight(stage_graph({2, 2, 2}, {{0, 1}, {1, 2}}, 5)), (Counts{5, 4, 2}));
}

// For k = 1 the rule is I(j) + b(s) + |b(s) - b(j)|, rounded up to b(s).
TEST(LeastInFlight, EqualsTheShortFormForOneForwardOneBackward) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const CounterRandom random(seed);
    const int count = 2 + static_cast<int>(random.below(0, 6));
    Counts sizes;
    std::vector<std::pair<int, int>> edges;
    for (int s = 0; s < count; ++s) {
      sizes.push_back(std::int64_t{1} << random.below(static_cast<std::uint64_t>(10 + s), 4));
      for (int t = 0; t < s; ++t) {
        if (random.below(static_cast<std::uint64_t>(100 + 10 * s + t), 2) == 0) {
          edges.emplace_back(t, s);
        }
      }
    }
    std::ranges::sort(edges);
    Counts expected = sizes;
    for (int s = count - 1; s >= 0; --s) {
      const std::int64_t b = sizes[static_cast<std::size_t>(s)];
      std::int64_t needed = b;
      for (const auto& [from, to] : edges) {
        if (from != s) continue;
        const auto j = static_cast<std::size_t>(to);
        needed = std::max(needed, expected[j] + b + std::abs(b - sizes[j]));
      }
      expected[static_cast<std::size_t>(s)] = (needed + b - 1) / b * b;
    }
    EXPECT_EQ(least_in_flight(stage_graph(sizes, edges)), expected) << "seed " << seed;
  }
}

TEST(PipelineDepth, IsTheLongestPathOverDataAndOrder) {
  Plan plan = stage_graph({1, 1, 1, 1}, {{0, 3}, {1, 3}, {2, 3}});
  EXPECT_EQ(pipeline_depth(plan), 2);
  add_chain_order(plan);
  EXPECT_EQ(pipeline_depth(plan), 4);
  EXPECT_EQ(pipeline_depth(stage_graph({1, 1, 1}, {})), 1);
}

TEST(AddChainOrder, JoinsOnlyNeighboursThatNoDataJoins) {
  Plan plan = stage_graph({1, 1, 1, 1}, {{0, 1}, {0, 3}});
  add_chain_order(plan);
  ASSERT_EQ(plan.edges.size(), 4U);
  EXPECT_EQ(plan.edges[0].kind, EdgeKind::kData);
  EXPECT_EQ(plan.edges[1], (StageEdge{StageId(0), StageId(3), EdgeKind::kData, {}, true}));
  EXPECT_EQ(plan.edges[2], (StageEdge{StageId(1), StageId(2), EdgeKind::kOrder, {}, true}));
  EXPECT_EQ(plan.edges[3], (StageEdge{StageId(2), StageId(3), EdgeKind::kOrder, {}, true}));
}

TEST(DevicesUsed, CountsADeviceOnce) {
  Plan plan = stage_graph({1, 1, 1}, {});
  plan.stages[2].devices = {DeviceId(0), DeviceId(7)};
  EXPECT_EQ(devices_used(plan), 3);
}

TEST(DataEdges, OneEdgeCarriesAllTensorsBetweenTwoStages) {
  const Graph graph = two_branch_graph();
  const std::vector<StageEdge> edges =
      data_edges(graph, {stage_of(graph, {"a", "b"}, 0), stage_of(graph, {"c"}, 1),
                         stage_of(graph, {"join", "head", "loss", "score"}, 2)});
  ASSERT_EQ(edges.size(), 3U);
  EXPECT_EQ(edges[0].from, StageId(0));
  EXPECT_EQ(edges[0].to, StageId(1));
  EXPECT_EQ(edges[0].tensors, tensors_named(graph, {"a"}));
  EXPECT_EQ(edges[1].to, StageId(2));
  EXPECT_EQ(edges[1].tensors, tensors_named(graph, {"b"}));
  EXPECT_EQ(edges[2].from, StageId(1));
  EXPECT_EQ(edges[2].tensors, tensors_named(graph, {"c"}));
  for (const StageEdge& edge : edges) EXPECT_TRUE(edge.gradient);
}

TEST(DataEdges, ATensorThatTwoOperatorsReadCrossesOnce) {
  const Graph graph = two_branch_graph();
  const std::vector<StageEdge> edges = data_edges(
      graph,
      {stage_of(graph, {"a"}, 0), stage_of(graph, {"b", "c", "join", "head", "loss", "score"}, 1)});
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].tensors, tensors_named(graph, {"a"}));
}

TEST(DataEdges, AMetricSendsNoGradientBack) {
  const Graph graph = two_branch_graph();
  const std::vector<StageEdge> edges = data_edges(
      graph,
      {stage_of(graph, {"a", "b", "c", "join", "head", "loss"}, 0), stage_of(graph, {"score"}, 1)});
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].tensors, tensors_named(graph, {"head"}));
  EXPECT_FALSE(edges[0].gradient);
}

TEST(Canonicalise, SortsStagesAndRebuildsDataEdges) {
  const Graph graph = two_branch_graph();
  Plan plan = chain_plan(graph, {{"join", "head", "loss", "score"}, {"c"}, {"b", "a"}});
  plan.edges = {{StageId(2), StageId(1), EdgeKind::kOrder, {}, true}};
  plan.estimate.stage_tps_s = {3, 2, 1};
  canonicalise(plan, graph);
  EXPECT_EQ(plan.stages[0].ops, ops_named(graph, {"a", "b"}));
  EXPECT_EQ(plan.stages[1].ops, ops_named(graph, {"c"}));
  EXPECT_EQ(plan.estimate.stage_tps_s, (std::vector<double>{1, 2, 3}));
  ASSERT_EQ(plan.edges.size(), 4U);  // three of data, and the order edge, which stays
  EXPECT_EQ(plan.edges[1], (StageEdge{StageId(0), StageId(1), EdgeKind::kOrder, {}, true}));
  EXPECT_EQ(plan.edges[2].tensors, tensors_named(graph, {"b"}));
}

TEST(Canonicalise, TiesGoToTheStageWithTheSmallestOperator) {
  const Graph graph = two_branch_graph();
  Plan plan = chain_plan(graph, {{"a"}, {"c"}, {"b"}, {"join", "head", "loss", "score"}});
  canonicalise(plan, graph);
  EXPECT_EQ(plan.stages[1].ops, ops_named(graph, {"b"}));
  EXPECT_EQ(plan.stages[2].ops, ops_named(graph, {"c"}));
  const Plan once = plan;
  canonicalise(plan, graph);
  EXPECT_EQ(plan, once);
}

TEST(PlanHash, LeavesOutWhatIsCosmetic) {
  const Graph graph = two_branch_graph();
  const Plan plan = chain_plan(graph, {{"a", "b"}, {"c", "join", "head", "loss", "score"}});
  Plan other = plan;
  other.planner = "somebody";
  other.cluster = "elsewhere";
  other.estimate.iteration_s = 3;
  EXPECT_EQ(plan_hash(other), plan_hash(plan));
}

TEST(PlanHash, DependsOnAllThatRuns) {
  const Graph graph = two_branch_graph();
  const Plan plan = chain_plan(graph, {{"a", "b"}, {"c", "join", "head", "loss", "score"}});
  std::vector<Plan> others(11, plan);
  others[0].mini_batch += 1;
  others[1].schedule = ScheduleKind::kGpipe;
  others[2].optimizer = OptimizerKind::kAdam;
  others[3].stages[0].micro_batch += 1;
  others[4].stages[1].in_flight_samples += 1;
  others[5].stages[1].devices = {DeviceId(5)};
  others[6].stages[0].kfkb = 2;
  others[7].stages[0].recompute = true;
  others[8].stages[0].replication = Replication::kRoundRobin;
  others[9].graph_hash += 1;
  others[10].edges.clear();
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(plan_hash(others[i]), plan_hash(plan)) << "change " << i;
  }
}

TEST(PlanNames, AreThoseOfTheFiles) {
  EXPECT_EQ(schedule_kind_name(ScheduleKind::k1F1B), "1f1b");
  EXPECT_EQ(schedule_kind_name(ScheduleKind::kGpipe), "gpipe");
  EXPECT_EQ(schedule_kind_name(ScheduleKind::kZbH1), "zb-h1");
  EXPECT_EQ(optimizer_name(OptimizerKind::kSgd), "sgd");
  EXPECT_EQ(optimizer_name(OptimizerKind::kSgdMomentum), "sgd-momentum");
  EXPECT_EQ(optimizer_name(OptimizerKind::kAdam), "adam");
}

TEST(SharesDevices, WhereADeviceIsInSeveralStages) {
  const Graph graph = two_branch_graph();
  Plan plan = chain_plan(graph, {{"a"}, {"b", "c", "join"}, {"head", "loss", "score"}});
  EXPECT_FALSE(shares_devices(plan));
  plan.stages[2].devices = plan.stages[0].devices;
  EXPECT_TRUE(shares_devices(plan));
  EXPECT_EQ(devices_used(plan), 2);
}

}  // namespace
}  // namespace graphpipe
