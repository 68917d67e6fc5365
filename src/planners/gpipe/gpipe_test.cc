#include "planners/gpipe/gpipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/stage_memory.h"
#include "planners/test_problems.h"

namespace graphpipe {
namespace {

PlanResult gpipe_plan(const TestProblem& test) { return plan_gpipe(test.problem(), Budget()); }

std::vector<std::size_t> sizes(const Plan& plan) {
  std::vector<std::size_t> sizes;
  for (const Stage& stage : plan.stages) sizes.push_back(stage.ops.size());
  return sizes;
}

// Two branches of 3 and their join.
const Dependencies kBranches = {{}, {0}, {1}, {}, {3}, {4}, {2, 5}};

TEST(Gpipe, BalancesSeconds) {
  TestProblem test = even_problem({{}, {0}, {1}, {2}, {3}, {4}}, 3, 16);
  test.costs.ops[0].per_sample_s = 4e-3;
  test.options.micro_batches = {2};
  const PlanResult result = gpipe_plan(test);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  EXPECT_EQ(sizes(result.candidates.front()), (std::vector<std::size_t>{1, 4, 1}));
}

TEST(Gpipe, UsesAllDevicesWhereThatIsWanted) {
  TestProblem test = even_problem({{}, {0}, {1}, {2}, {3}, {4}}, 4, 16);
  test.costs.ops[3].per_sample_s = 1;  // as long as all the others many times over
  test.options.micro_batches = {2};
  for (const Plan& plan : gpipe_plan(test).candidates) EXPECT_LE(plan.stages.size(), 3U);
  test.options.all_devices = true;
  const PlanResult result = gpipe_plan(test);
  ASSERT_EQ(result.candidates.size(), 1U) << result.reason;
  EXPECT_EQ(sizes(result.candidates[0]), (std::vector<std::size_t>{2, 1, 1, 2}));
  test.cluster = even_problem({{}}, 7, 16).cluster;  // more devices than operators
  for (const Plan& plan : gpipe_plan(test).candidates) EXPECT_LE(plan.stages.size(), 6U);
}

TEST(Gpipe, IsAChainOfAllForwardsThenAllBackwards) {
  TestProblem test = even_problem(kBranches, 4, 16);
  test.options.micro_batches = {2};
  const PlanResult result = gpipe_plan(test);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  const Plan& best = result.candidates.front();
  EXPECT_EQ(best.schedule, ScheduleKind::kGpipe);
  EXPECT_EQ(sizes(best), (std::vector<std::size_t>{2, 2, 2, 1}));
  EXPECT_EQ(pipeline_depth(best), 4);  // though the branches do not depend on one another
  for (const Stage& stage : best.stages) EXPECT_EQ(stage.in_flight_samples, 16);
}

TEST(Gpipe, EveryCandidateIsValidAndFits) {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    TestProblem test =
        random_problem(kBranches, 4, 5 + static_cast<std::int64_t>(seed), seed % 2 == 1, seed);
    test.cluster.types[0].memory_bytes += 20'000;
    for (const Plan& p : gpipe_plan(test).candidates) {
      ++plans;
      EXPECT_NO_THROW(validate(p, test.graph, test.cluster, "plan")) << "seed " << seed;
      for (std::size_t s = 0; s < p.stages.size(); ++s) {
        EXPECT_LE(
            stage_memory(p, test.graph, test.costs, test.cluster.types[0], StageId(s)).total(),
            test.cluster.types[0].memory_bytes);
      }
    }
  }
  EXPECT_GT(plans, 200);
}

TEST(Gpipe, RecomputesOnTheStagesThatDoNotFitOtherwise) {
  TestProblem test = even_problem({{}, {0}}, 2, 64);
  test.costs.ops[1].saved_bytes_per_sample = 1 << 20;
  test.cluster.types[0].memory_bytes = 32 << 20;
  test.options.micro_batches = {1};
  EXPECT_EQ(gpipe_plan(test).status, PlanStatus::kInfeasible);
  test.options.recompute = true;
  const PlanResult result = gpipe_plan(test);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  for (const Plan& p : result.candidates) {
    EXPECT_EQ(p.options, "dp,recompute");
    // Where the first operator is alone on a stage it fits as it is.
    if (p.stages.size() == 2) {
      EXPECT_FALSE(p.stages[0].recompute);
    }
    EXPECT_TRUE(p.stages.back().recompute);
  }
}

TEST(Gpipe, SaysHowFarMemoryIsShort) {
  TestProblem test = even_problem({{}, {0}}, 2, 64);
  for (AffineCosts::Op& op : test.costs.ops) op.saved_bytes_per_sample = 1 << 20;
  test.cluster.types[0].memory_bytes = 32 << 20;
  const PlanResult result = gpipe_plan(test);
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_EQ(
      result.reason,
      "the nearest that it came: 2 stages at micro-batch 4, where stage 1 needs 64.0 MiB with "
      "all 64 samples in flight, 32.0 MiB more than a device has; fewer samples a mini-batch, "
      "more devices or a planner that limits in-flight samples would do");
}

TEST(Gpipe, SameProblemGivesTheSamePlans) {
  const TestProblem test = random_problem(kBranches, 4, 16, false, 1);
  const PlanResult first = gpipe_plan(test);
  const PlanResult second = gpipe_plan(test);
  ASSERT_EQ(first.candidates.size(), second.candidates.size());
  for (std::size_t i = 0; i < first.candidates.size(); ++i) {
    EXPECT_EQ(plan_hash(first.candidates[i]), plan_hash(second.candidates[i]));
  }
}

}  // namespace
}  // namespace graphpipe
