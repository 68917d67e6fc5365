#include "search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "planners/stage_tps.h"
#include "planners/test_problems.h"
#include "search/test_branches.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

// Two branches of 3 with a skip, and what follows their join.

TEST(IterationFloor, IsNeverAboveTheSimulatedIteration) {
  int plans = 0;
  double nearness = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    TestProblem test =
        random_problem(kBranches, 6, 5 + static_cast<std::int64_t>(seed), false, seed);
    if (seed % 3 == 0) test.cluster.cores_per_node = 2;
    if (seed % 5 == 0) {
      test.options.recompute = true;
      test.cluster.types[0].memory_bytes = 40'000;
    }
    for (Level& level : test.cluster.levels) {
      level.link = {.bandwidth_bytes_per_s = seed % 2 == 0 ? 1e5 : 1e8, .latency_s = 1e-5};
    }
    const Problem problem = test.problem();
    CostTable table(problem);
    for (const Planner& planner : planners()) {
      for (const Plan& plan : planner.plan(problem, Budget()).candidates) {
        const double floor_s = iteration_floor_s(table, plan);
        const double exact_s = simulated_s(plan, test);
        EXPECT_LE(floor_s, exact_s) << planner.name << ", seed " << seed;
        nearness += floor_s / exact_s;
        ++plans;
      }
    }
  }
  EXPECT_GT(plans, 500);
  EXPECT_GT(nearness / plans, 0.75);  // a floor of zero would pass the above
}

TEST(SearchPlan, FindsTheFastestOfTheCandidates) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const TestProblem test = random_problem(kBranches, 6, 24, false, seed);
    const Problem problem = test.problem();
    for (const Planner& planner : planners()) {
      const SearchResult result = search_plan(planner, problem);
      ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
      double fastest_s = result.plan.estimate.iteration_s;
      for (const Plan& plan : planner.plan(problem, Budget()).candidates) {
        fastest_s = std::min(fastest_s, simulated_s(plan, test));
      }
      // One whose floor is within a part of 5e-4 of the best is not looked at.
      EXPECT_LE(result.plan.estimate.iteration_s, fastest_s * (1 + 6e-4))
          << planner.name << ", seed " << seed;
      EXPECT_GT(result.candidates, 0);
    }
  }
}

TEST(SearchPlan, FillsInTheEstimate) {
  const TestProblem test = random_problem(kBranches, 6, 24, false, 5);
  const SearchResult result = search_plan(planner_named("graphpipe"), test.problem());
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  const Plan& plan = result.plan;
  EXPECT_NO_THROW(validate(plan, test.graph, test.cluster, "plan"));
  EXPECT_DOUBLE_EQ(plan.estimate.iteration_s, simulated_s(plan, test));
  EXPECT_DOUBLE_EQ(plan.estimate.throughput_samples_per_s, 24 / plan.estimate.iteration_s);
  EXPECT_GT(plan.estimate.bubble_fraction, 0);
  EXPECT_LT(plan.estimate.bubble_fraction, 1);
  EXPECT_GT(plan.estimate.lower_bound_s, 0);
  EXPECT_LE(plan.estimate.lower_bound_s, plan.estimate.iteration_s);
  EXPECT_GT(plan.estimate.search_s, 0);
  ASSERT_EQ(plan.estimate.stage_tps_s.size(), plan.stages.size());
  ASSERT_EQ(plan.estimate.stage_memory_bytes.size(), plan.stages.size());
  const Problem problem = test.problem();
  CostTable table(problem);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    EXPECT_DOUBLE_EQ(
        plan.estimate.stage_tps_s[s],
        stage_tps_s(table, stage.ops, stage.micro_batch, static_cast<int>(stage.devices.size())));
    EXPECT_GT(plan.estimate.stage_memory_bytes[s], 0);
  }
}

TEST(SearchPlan, GraphPipelineBeatsAChainOnBranches) {
  // Four branches of two operators and a light join: depth 3 against 8.
  TestProblem test = even_problem({{}, {0}, {}, {2}, {}, {4}, {}, {6}, {1, 3, 5, 7}}, 8, 16);
  test.costs.ops.back().per_sample_s = 1e-5;
  test.options.data_parallel = false;
  const auto iteration_s = [&](const std::string& planner) {
    return search_plan(planner_named(planner), test.problem()).plan.estimate.iteration_s;
  };
  EXPECT_LT(iteration_s("graphpipe"), 0.8 * iteration_s("gpipe"));
}

// The case study of the paper: two branches of four equal stages, a light join that rides.
TEST(SearchPlan, TwoBranchesOfFourStagesShareTheirJoinOnOneOfThem) {
  TestProblem test = even_problem({{}, {0}, {1}, {2}, {}, {4}, {5}, {6}, {3, 7}}, 8, 8);
  test.costs.ops.back().per_sample_s = 1e-9;
  for (Level& level : test.cluster.levels) level.link = {.bandwidth_bytes_per_s = 1e30};
  test.options.data_parallel = false;
  test.options.micro_batches = {1};
  const SearchResult result = search_plan(planner_named("graphpipe"), test.problem());
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  const Plan& plan = result.plan;
  ASSERT_EQ(plan.stages.size(), 8U);
  EXPECT_EQ(pipeline_depth(plan), 5);
  std::vector<std::int64_t> with_join;
  std::vector<std::int64_t> other;
  const bool joined_first = plan.stages[3].ops.back() == OpId(8);
  for (const Stage& stage : plan.stages) {
    const bool first = stage.ops.front().value < 4;
    (first == joined_first ? with_join : other).push_back(stage.in_flight_samples);
  }
  EXPECT_EQ(with_join, (std::vector<std::int64_t>{4, 3, 2, 1}));
  EXPECT_EQ(other, (std::vector<std::int64_t>{5, 4, 3, 2}));
  EXPECT_NEAR(plan.estimate.iteration_s, 3e-3 * (8 + 4), 1e-5);  // a chain: 3 (8 + 7)
}

TEST(SearchPlan, PassesOnWhyThereIsNone) {
  TestProblem test = even_problem(kBranches, 4, 16);
  test.cluster.types[0].memory_bytes = 10;
  const SearchResult result = search_plan(planner_named("data-parallel"), test.problem());
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_EQ(result.reason.substr(0, 33), "a replica at micro-batch 4 needs ");
  EXPECT_EQ(result.candidates, 0);
}

TEST(SearchPlan, AtTheTimeLimitTakesWhatThereIs) {
  const TestProblem test = even_problem(kBranches, 4, 16);
  const SearchResult result = search_plan(planner_named("graphpipe"), test.problem(), {1e-9, {}});
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  EXPECT_EQ(result.plan.stages.size(), 1U);  // which needs no search
}

TEST(SearchPlan, GivesUpAtTheTimeLimitWhereThereIsNothing) {
  TestProblem test = even_problem(kBranches, 4, 16);
  test.cluster.types[0].memory_bytes = 900;  // less than the parameters of all stages
  const SearchResult result = search_plan(planner_named("graphpipe"), test.problem(), {1e-9, {}});
  EXPECT_EQ(result.status, PlanStatus::kGaveUp);
  EXPECT_EQ(result.reason, "stopped before a plan was found");
}

TEST(SearchPlan, TellsHowFarItIsAndFindsTheSamePlan) {
  const TestProblem test = random_problem(kBranches, 6, 24, false, 3);
  int steps = 0;
  for (const Planner& planner : planners()) {
    std::vector<std::string> phases;
    double most = 0;
    SearchControl control;
    control.progress = [&](const std::string& phase, double done) {
      if (phases.empty() || phases.back() != phase) {
        phases.push_back(phase);
        EXPECT_EQ(done, 0) << phase;
      } else if (done != 0) {
        EXPECT_GE(done, most) << phase;
        EXPECT_LE(done, 1) << phase;
        ++steps;
      }
      most = done;
    };
    const SearchResult told = search_plan(planner, test.problem(), control);
    EXPECT_EQ(plan_hash(told.plan), plan_hash(search_plan(planner, test.problem()).plan));
    EXPECT_FALSE(phases.empty()) << planner.name;
    for (const std::string& phase : phases) {
      EXPECT_TRUE(phase.starts_with(planner.name + ", ")) << phase;
    }
  }
  EXPECT_GT(steps, 50);
}

// Proposes plans that the verifier refuses, and one that it passes.
PlanResult mostly_wrong(const Problem& problem, const Budget& budget) {
  PlanResult result = planner_named("graphpipe").plan(problem, budget);
  Plan slowest = result.candidates.back();
  for (Plan& plan : result.candidates) ++plan.graph_hash;
  result.candidates.push_back(std::move(slowest));
  return result;
}

PlanResult all_wrong(const Problem& problem, const Budget& budget) {
  PlanResult result = mostly_wrong(problem, budget);
  result.candidates.pop_back();
  return result;
}

TEST(SearchPlan, TakesNoPlanThatTheVerifierRefuses) {
  TestProblem test = random_problem(kBranches, 6, 24, false, 5);
  const Planner planner = {"mostly-wrong", "", mostly_wrong};
  const SearchResult result = search_plan(planner, test.problem());
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  Plan plan = result.plan;
  EXPECT_EQ(judge_plan(plan, test.problem()), "");
  const Planner worse = {"all-wrong", "", all_wrong};
  const SearchResult none = search_plan(worse, test.problem());
  EXPECT_EQ(none.status, PlanStatus::kInfeasible);
  EXPECT_EQ(none.reason.substr(0, 50), "no plan passes the verifier; the fastest: P7 at pl");
}

TEST(SearchPlan, UsesEveryDeviceWhereAskedTo) {
  // One sample in a chain: more devices bring nothing but messages.
  TestProblem test = even_problem({{}, {0}, {1}, {2}}, 4, 1);
  test.options.data_parallel = false;
  for (Level& level : test.cluster.levels) level.link.latency_s = 1e-3;
  const SearchResult free = search_plan(planner_named("graphpipe"), test.problem());
  ASSERT_EQ(free.status, PlanStatus::kOk) << free.reason;
  EXPECT_LT(devices_used(free.plan), 4);
  test.options.all_devices = true;
  const SearchResult full = search_plan(planner_named("graphpipe"), test.problem());
  ASSERT_EQ(full.status, PlanStatus::kOk) << full.reason;
  EXPECT_EQ(devices_used(full.plan), 4);
}

TEST(SearchPlan, SaysWhereNoPlanUsesEveryDevice) {
  TestProblem test = even_problem(Dependencies(1), 2, 8);
  test.options.data_parallel = false;
  test.options.all_devices = true;
  const SearchResult result = search_plan(planner_named("graphpipe"), test.problem());
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_EQ(result.reason, "no plan was found that uses all 2 devices; the widest uses 1");
}

TEST(JudgePlan, FillsInPlansFromAnywhere) {
  const TestProblem test = random_problem(kBranches, 6, 24, false, 5);
  const Problem problem = test.problem();
  Plan plan = planner_named("gpipe").plan(problem, Budget()).candidates.front();
  EXPECT_EQ(judge_plan(plan, problem), "");
  EXPECT_DOUBLE_EQ(plan.estimate.iteration_s, simulated_s(plan, test));
}

TEST(JudgePlan, SaysWhatIsWrong) {
  TestProblem test = random_problem(kBranches, 6, 24, false, 5);
  Plan plan = planner_named("gpipe").plan(test.problem(), Budget()).candidates.front();
  plan.stages[0].devices = {DeviceId(99)};
  EXPECT_EQ(judge_plan(plan, test.problem()).substr(0, 3), "P5 ");
}

}  // namespace
}  // namespace graphpipe
