// Steps that the simulator finds faster.

#include "search/improve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planners/in_flight.h"
#include "planners/test_problems.h"
#include "schedule/verify.h"
#include "search/moves.h"
#include "search/search.h"
#include "search/test_branches.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kMuch = 100'000'000;

// Not series-parallel.
const Dependencies kCrossed = {{}, {}, {0}, {0, 1}, {2, 3}, {3}, {4, 5}, {6, 0}};

// Stages of these operators, a device each, one sample a task.
Plan plan_of(const TestProblem& test, const std::vector<std::vector<int>>& stages) {
  Plan plan = empty_plan(test.problem(), "test");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Stage stage;
    for (const int op : stages[s]) stage.ops.emplace_back(op);
    stage.devices = {DeviceId(s)};
    plan.stages.push_back(std::move(stage));
  }
  canonicalise(plan, test.graph);
  set_in_flight(plan, least_in_flight(plan));
  return plan;
}

Plan improved(const TestProblem& test, const Plan& plan, ImproveBy by = ImproveBy::kSimulation) {
  const Problem problem = test.problem();
  CostTable table(problem);
  Workbench bench(table);
  return improve_plan(bench, plan, by, {kMuch, {}});
}

std::vector<std::vector<int>> stages_of(const Plan& plan) {
  std::vector<std::vector<int>> stages;
  for (const Stage& stage : plan.stages) {
    stages.emplace_back();
    for (const OpId op : stage.ops) stages.back().push_back(op.value);
  }
  return stages;
}

TEST(ImprovePlan, EvensOutAChain) {
  TestProblem test = even_problem({{}, {0}, {1}, {2}, {3}, {4}, {5}, {6}}, 4, 32);
  test.options.data_parallel = false;
  test.options.micro_batches = {1};
  const Plan better = improved(test, plan_of(test, {{0, 1, 2, 3, 4}, {5}, {6}, {7}}));
  EXPECT_EQ(stages_of(better), (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

TEST(ImprovePlan, PutsPiecesOfSeveralBranchesTogether) {
  // Three branches of four on two devices, and a light join.
  TestProblem test =
      even_problem({{}, {0}, {1}, {2}, {}, {4}, {5}, {6}, {}, {8}, {9}, {10}, {3, 7, 11}}, 2, 64);
  test.costs.ops.back().per_sample_s = 1e-6;
  test.options.data_parallel = false;
  test.options.micro_batches = {1};
  const Plan better = improved(test, plan_of(test, {{0, 1, 2, 3}, {4, 5, 6, 7, 8, 9, 10, 11, 12}}));
  EXPECT_EQ(better.stages[0].ops.size(), 6U);
  EXPECT_EQ(better.stages[1].ops.size(), 7U);
}

TEST(ImprovePlan, UsesDevicesThatAreLeftOver) {
  TestProblem test = even_problem({{}, {0}, {1}, {2}}, 4, 32);
  test.options.micro_batches = {4};
  Plan one = plan_of(test, {{0, 1, 2, 3}});
  one.stages[0].micro_batch = one.stages[0].in_flight_samples = 4;
  EXPECT_EQ(devices_used(improved(test, one)), 4);
}

// Ways to pass operators on from stage to stage that no stage has room for: without an end to
// them there are as many as ways through a mesh.
TEST(MovesFrom, EndsWhereNoStageHasRoom) {
  constexpr int kLayers = 5;
  constexpr int kWide = 6;
  Dependencies before;
  std::vector<std::vector<int>> stages;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int i = 0; i < kWide; ++i) {
      const int first = 2 * (layer * kWide + i);
      before.emplace_back();
      for (int j = 0; j < kWide && layer > 0; ++j) {
        before.back().push_back(2 * ((layer - 1) * kWide + j) + 1);
      }
      before.push_back({first});
      stages.push_back({first, first + 1});
    }
  }
  TestProblem test = even_problem(before, kLayers * kWide, 32);
  test.options.data_parallel = false;
  test.options.micro_batches = {1};
  const Plan plan = plan_of(test, stages);
  const Problem problem = test.problem();
  CostTable table(problem);
  Workbench bench(table);
  const double two_and_a_half_s = 2.5 * 3e-3 * 32;
  EXPECT_TRUE(moves_from(bench, {plan.stages, 1}, 0, two_and_a_half_s).empty());
}

TEST(ImprovePlan, NeverMakesAPlanSlowerOrWrong) {
  int gains = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    TestProblem test =
        random_problem(seed % 2 == 0 ? kBranches : kCrossed, 5, 24, seed % 4 == 0, seed);
    test.options.recompute = seed % 3 == 0;
    const PlanResult proposed = planner_named("graphpipe").plan(test.problem(), Budget());
    if (proposed.status != PlanStatus::kOk) continue;
    const Plan& worst = proposed.candidates.back();
    for (const ImproveBy by : {ImproveBy::kSimulation, ImproveBy::kEstimate}) {
      const Plan better = improved(test, worst, by);
      const Verification verification = verify_plan(better, test.graph, test.cluster, test.costs);
      EXPECT_TRUE(verification.ok()) << "seed " << seed << ": " << verification.faults[0].message;
      if (by == ImproveBy::kEstimate) continue;
      EXPECT_LE(simulated_s(better, test), simulated_s(worst, test)) << "seed " << seed;
      if (simulated_s(better, test) < 0.99 * simulated_s(worst, test)) ++gains;
    }
  }
  EXPECT_GT(gains, 10);
}

TEST(RacePlans, EndsWithTheFastestAndNoneTwice) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const TestProblem test = random_problem(kCrossed, 5, 24, false, seed);
    const Problem problem = test.problem();
    std::vector<Plan> starts = planner_named("graphpipe").plan(problem, Budget()).candidates;
    starts.push_back(starts.front());
    CostTable table(problem);
    Workbench bench(table);
    double fastest_s = 1e30;
    for (const Plan& plan : starts) fastest_s = std::min(fastest_s, bench.estimate_s(plan));
    const std::vector<Plan> ends = race_plans(bench, starts, 3, {kMuch, {}});
    ASSERT_FALSE(ends.empty());
    EXPECT_LE(ends.size(), 3U);
    EXPECT_LE(bench.estimate_s(ends[0]), fastest_s) << "seed " << seed;
    for (std::size_t i = 1; i < ends.size(); ++i) {
      EXPECT_LE(bench.estimate_s(ends[i - 1]), bench.estimate_s(ends[i])) << "seed " << seed;
      EXPECT_NE(plan_hash(ends[i - 1]), plan_hash(ends[i])) << "seed " << seed;
    }
  }
}

TEST(RacePlans, HasNoEndsWithoutStarts) {
  const TestProblem test = random_problem(kBranches, 6, 24, false, 3);
  const Problem problem = test.problem();
  CostTable table(problem);
  Workbench bench(table);
  EXPECT_TRUE(race_plans(bench, {}, 2, {kMuch, {}}).empty());
}

TEST(ImprovePlan, IsTheSameEveryTime) {
  const TestProblem test = random_problem(kBranches, 6, 24, false, 3);
  const Plan start = planner_named("graphpipe").plan(test.problem(), Budget()).candidates.back();
  EXPECT_EQ(improved(test, start), improved(test, start));
}

TEST(ImprovePlan, EndsWithItsWork) {
  const TestProblem test = random_problem(kBranches, 6, 24, false, 3);
  const Problem problem = test.problem();
  const Plan start = planner_named("graphpipe").plan(problem, Budget()).candidates.back();
  CostTable table(problem);
  Workbench bench(table);
  EXPECT_EQ(improve_plan(bench, start, ImproveBy::kSimulation, {0, {}}), start);
}

// The first stage has a large fixed cost a task, so it wants large tasks; the others, small ones.
TestProblem uneven_sizes() {
  TestProblem test = even_problem({{}, {0}, {1}}, 3, 32);
  test.options.data_parallel = false;
  test.options.micro_batches = {1, 2, 4, 8, 16};
  test.costs.ops[0] = {.fixed_s = 2e-3, .per_sample_s = 0.5e-3};
  return test;
}

TEST(SearchPlan, StagesHaveSizesOfTheirOwnWhereAsked) {
  TestProblem test = uneven_sizes();
  const SearchResult alike = search_plan(planner_named("graphpipe"), test.problem());
  test.options.per_stage_micro_batch = true;
  const SearchResult own = search_plan(planner_named("graphpipe"), test.problem());
  ASSERT_EQ(own.status, PlanStatus::kOk) << own.reason;
  EXPECT_LT(own.plan.estimate.iteration_s, 0.99 * alike.plan.estimate.iteration_s);
  EXPECT_GT(own.plan.stages[0].micro_batch, own.plan.stages[2].micro_batch);
  EXPECT_NO_THROW(validate(own.plan, test.graph, test.cluster, "plan"));
}

TEST(SearchPlan, MoreInARowIsHardlyEverSlower) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    TestProblem test = random_problem(kBranches, 4, 32, false, seed);
    for (Level& level : test.cluster.levels) level.link.latency_s = 1e-3;
    const double one_s =
        search_plan(planner_named("graphpipe"), test.problem()).plan.estimate.iteration_s;
    test.options.kfkb = {1, 2, 4};
    const SearchResult more = search_plan(planner_named("graphpipe"), test.problem());
    ASSERT_EQ(more.status, PlanStatus::kOk) << more.reason;
    EXPECT_LE(more.plan.estimate.iteration_s, 1.03 * one_s) << "seed " << seed;
  }
}

// The least iteration over all convex partitions of a small graph on one-device stages, found by
// trying each assignment of operators.
double best_of_all_s(const TestProblem& test, int devices) {
  double best_s = 1e30;
  const std::size_t ops = test.graph.op_count();
  std::vector<int> on(ops, 0);
  while (true) {
    std::vector<std::vector<int>> stages(static_cast<std::size_t>(devices));
    for (std::size_t op = 0; op < ops; ++op) {
      stages[static_cast<std::size_t>(on[op])].push_back(static_cast<int>(op));
    }
    std::erase_if(stages, [](const auto& stage) { return stage.empty(); });
    Layout layout;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      Stage stage;
      for (const int op : stages[s]) stage.ops.emplace_back(op);
      stage.devices = {DeviceId(s)};
      layout.stages.push_back(std::move(stage));
    }
    const Problem problem = test.problem();
    CostTable table(problem);
    const Plan like = empty_plan(problem, "test");
    if (const auto plan = Workbench(table).plan_of(layout, like)) {
      best_s = std::min(best_s, simulated_s(*plan, test));
    }
    std::size_t op = 0;
    while (op < ops && ++on[op] == devices) on[op++] = 0;
    if (op == ops) return best_s;
  }
}

TEST(SearchPlan, IsNearTheBestOfAllPartitionsOnSmallGraphs) {
  const std::vector<Dependencies> graphs = {
      {{}, {0}, {0}, {1, 2}, {3}},            // a diamond
      {{}, {}, {0}, {1}, {0, 1}, {2, 3, 4}},  // crossed
      {{}, {0}, {}, {2}, {}, {1, 3, 4}},      // branches
      {{}, {0}, {1}, {0, 2}, {3}, {1, 4}},    // skips
  };
  double excess = 0;
  int cases = 0;
  for (const Dependencies& graph : graphs) {
    for (std::uint64_t seed = 0; seed < 5; ++seed, ++cases) {
      TestProblem test = random_problem(graph, 3, 12, false, seed);
      test.options.data_parallel = false;
      test.options.micro_batches = {1};
      const double best_s = best_of_all_s(test, 3);
      const SearchResult found = search_plan(planner_named("graphpipe"), test.problem());
      ASSERT_EQ(found.status, PlanStatus::kOk);
      const double ratio = found.plan.estimate.iteration_s / best_s;
      EXPECT_LT(ratio, 1.1) << "seed " << seed << ", " << graph.size() << " operators";
      excess += ratio - 1;
    }
  }
  EXPECT_LT(excess / cases, 0.01);
}

TEST(SearchPlan, GivesAHalfSpeedDeviceLessWork) {
  Dependencies chain(12);
  for (int op = 1; op < 12; ++op) chain[static_cast<std::size_t>(op)] = {op - 1};
  TestProblem test = even_problem(chain, 3, 256);
  test.options.data_parallel = false;
  test.options.micro_batches = {1};
  test.costs.seconds_of_type = {{"slow", 2}};
  test.cluster.types.push_back(test.cluster.types[0]);
  test.cluster.types[1].name = "slow";
  test.cluster.types[1].peak_flops_per_s /= 2;
  test.cluster.device_type = {0, 1, 0};
  const SearchResult found = search_plan(planner_named("graphpipe"), test.problem());
  ASSERT_EQ(found.status, PlanStatus::kOk) << found.reason;
  ASSERT_EQ(found.plan.stages.size(), 3U);
  for (const Stage& stage : found.plan.stages) {
    // 12 operators at speeds 1, 1/2 and 1: none takes longer than 5 at full speed.
    const bool slow = test.cluster.type_of(stage.devices[0]).name == "slow";
    EXPECT_LE(stage.ops.size(), slow ? 2U : 5U);
  }
}

}  // namespace
}  // namespace graphpipe
