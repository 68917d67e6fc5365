#include "search/stream_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/weight_versions.h"
#include "planners/test_problems.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

// Two branches of two and their join.
const Dependencies kForkJoin = {{}, {0}, {}, {2}, {1, 3}};

// With a device a stage.
TestProblem branches(std::int64_t mini_batch) {
  TestProblem test = even_problem(kForkJoin, 5, mini_batch);
  test.options.data_parallel = false;
  return test;
}

TEST(StreamPlan, TakesAsLongAsItsSlowestStage) {
  const TestProblem test = branches(4);
  for (const WeightPolicy policy :
       {WeightPolicy::kStash, WeightPolicy::kVerticalSync, WeightPolicy::kNaive}) {
    const SearchResult result =
        search_stream_plan(planner_named("graphpipe"), test.problem(), policy);
    ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
    const Plan& plan = result.plan;
    EXPECT_EQ(plan.weights, policy);
    EXPECT_EQ(plan.stages.size(), 5U);
    EXPECT_NEAR(plan.estimate.iteration_s, 4 * 3e-3, 1e-5);  // of 1 ms forward, 2 ms backward
    EXPECT_NEAR(plan.estimate.bubble_fraction, 0, 1e-2);
    EXPECT_TRUE(verify_plan(plan, test.graph, test.cluster, test.costs).ok());
  }
}

// A graph pipeline is less deep than a chain, and so are its delays.
TEST(StreamPlan, OfAGraphHasYoungerWeightsThanAChain) {
  const TestProblem test = branches(4);
  const auto oldest = [&](const char* planner) {
    const SearchResult result =
        search_stream_plan(planner_named(planner), test.problem(), WeightPolicy::kStash);
    EXPECT_EQ(result.status, PlanStatus::kOk) << result.reason;
    const VersionRule rule(result.plan);
    std::int64_t most = 0;
    for (std::size_t s = 0; s < result.plan.stages.size(); ++s) {
      most = std::max(most, rule.kept_for(StageId(s)));
    }
    return most;
  };
  EXPECT_EQ(oldest("graphpipe"), 2);
  EXPECT_EQ(oldest("pipedream"), 4);
}

TEST(StreamPlan, Of2bwStepsAfterSeveralMicroBatches) {
  TestProblem test = branches(16);
  test.options.micro_batches = {4};
  const SearchResult result =
      search_stream_plan(planner_named("graphpipe"), test.problem(), WeightPolicy::k2bw);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  EXPECT_EQ(result.plan.mini_batch, 16);
  EXPECT_EQ(result.plan.stages[0].micro_batch, 4);
  EXPECT_NEAR(result.plan.estimate.iteration_s, 16 * 3e-3, 1e-5);
}

TEST(StreamPlan, CountsTheVersions) {
  TestProblem test = branches(4);
  for (Parameter& param : test.graph.params) param.shape = {1000};
  const SearchResult naive =
      search_stream_plan(planner_named("graphpipe"), test.problem(), WeightPolicy::kNaive);
  const SearchResult stash =
      search_stream_plan(planner_named("graphpipe"), test.problem(), WeightPolicy::kStash);
  ASSERT_EQ(stash.status, PlanStatus::kOk) << stash.reason;
  ASSERT_EQ(naive.plan.stages, stash.plan.stages);
  const VersionRule rule(stash.plan);
  for (std::size_t s = 0; s < stash.plan.stages.size(); ++s) {
    const std::int64_t more =
        stash.plan.estimate.stage_memory_bytes[s] - naive.plan.estimate.stage_memory_bytes[s];
    EXPECT_EQ(more, 4000 * (rule.most_held(StageId(s)) - 1)) << "stage " << s;
  }
}

// Of six equal operators on three devices the first stage has three versions: with two operators a
// stage it does not fit, and the search finds stages that do.
TEST(StreamPlan, FindsStagesWhoseVersionsFit) {
  TestProblem test = even_problem({{}, {0}, {1}, {2}, {3}, {4}}, 3, 4);
  test.options.data_parallel = false;
  for (Parameter& param : test.graph.params) param.shape = {100'000};
  test.cluster.types[0].memory_bytes = 2'900'000;
  for (const char* planner : {"graphpipe", "pipedream"}) {
    const auto operators_of_the_slowest = [&](WeightPolicy policy) {
      const SearchResult result =
          search_stream_plan(planner_named(planner), test.problem(), policy);
      EXPECT_EQ(result.status, PlanStatus::kOk) << planner << ": " << result.reason;
      EXPECT_TRUE(verify_plan(result.plan, test.graph, test.cluster, test.costs).ok());
      return std::llround(result.plan.estimate.iteration_s / (4 * 3e-3));
    };
    EXPECT_EQ(operators_of_the_slowest(WeightPolicy::kNaive), 2) << planner;
    EXPECT_EQ(operators_of_the_slowest(WeightPolicy::kStash), 3) << planner;
  }
}

// PipeDream's 3-1, or 4: replicas take turns, and sum what they hold after each round.
TEST(StreamPlan, ReplicatesTheStageWithMoreWork) {
  TestProblem test = even_problem({{}, {0}}, 4, 4);
  test.costs.ops[0].per_sample_s = 3e-3;
  for (Parameter& param : test.graph.params) param.shape = {100'000};
  for (Level& level : test.cluster.levels) level.link.bandwidth_bytes_per_s = 3e8;
  for (const char* planner : {"graphpipe", "pipedream"}) {
    const SearchResult result =
        search_stream_plan(planner_named(planner), test.problem(), WeightPolicy::kStash);
    ASSERT_EQ(result.status, PlanStatus::kOk) << planner << ": " << result.reason;
    const Plan& plan = result.plan;
    EXPECT_GT(plan.stages[0].devices.size(), 1U) << planner;
    EXPECT_EQ(plan.stages[0].replication, Replication::kRoundRobin) << planner;
    EXPECT_NEAR(plan.estimate.iteration_s, 4 * 3e-3, 1.1e-3) << planner;
    EXPECT_TRUE(verify_plan(plan, test.graph, test.cluster, test.costs).ok());
  }
}

// Branches of two operators and of one, twice as long, before a join.
TEST(StreamPlan, ReplicatesWithinAGraph) {
  TestProblem test = even_problem({{}, {0}, {}, {1, 2}}, 5, 4);
  test.costs.ops[2].per_sample_s = 2e-3;
  for (const WeightPolicy policy : {WeightPolicy::kStash, WeightPolicy::kVerticalSync}) {
    const SearchResult result =
        search_stream_plan(planner_named("graphpipe"), test.problem(), policy);
    ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
    EXPECT_NEAR(result.plan.estimate.iteration_s, 4 * 3e-3, 1e-3);
    EXPECT_TRUE(verify_plan(result.plan, test.graph, test.cluster, test.costs).ok());
  }
}

}  // namespace
}  // namespace graphpipe
