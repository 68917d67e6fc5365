#include "search/turns.h"

#include <gtest/gtest.h>

#include "planners/test_problems.h"
#include "search/search.h"

namespace graphpipe {
namespace {

// A heavy operator, and a light one whose many parameters are dear to reduce.
TestProblem heavy_and_light() {
  TestProblem test = even_problem({{}, {0}}, 4, 12);
  test.costs.ops[0].per_sample_s = 3e-3;
  test.graph.params[1].shape = {1'000'000};
  for (Level& level : test.cluster.levels) level.link.bandwidth_bytes_per_s = 1e8;
  return test;
}

// Each operator a stage; three devices split micro-batches of 4 for the first.
Plan three_and_one(const Problem& problem) {
  Plan plan = empty_plan(problem, "test");
  plan.stages = {
      {.ops = {OpId(0)},
       .devices = {DeviceId(0), DeviceId(1), DeviceId(2)},
       .micro_batch = 4,
       .in_flight_samples = 8},
      {.ops = {OpId(1)}, .devices = {DeviceId(3)}, .micro_batch = 4, .in_flight_samples = 4}};
  plan.edges = data_edges(*problem.graph, plan.stages);
  return plan;
}

TEST(PlansInTurns, HaveMicroBatchesOfAboutTheShareThatAReplicaHad) {
  const TestProblem test = heavy_and_light();
  const Problem problem = test.problem();
  CostTable table(problem);
  Workbench bench(table);
  const std::vector<Plan> plans = plans_in_turns(bench, three_and_one(problem));
  ASSERT_FALSE(plans.empty());
  for (const Plan& plan : plans) {
    EXPECT_NO_THROW(validate(plan, test.graph, test.cluster, "plan"));
    EXPECT_EQ(plan.stages[0].replication, Replication::kRoundRobin);
    EXPECT_EQ(plan.stages[1].replication, Replication::kSplit);  // of one device
    EXPECT_LE(plan.stages[0].micro_batch, 2);                    // the share is 4 / 3
    EXPECT_EQ(plan.stages[0].micro_batch, plan.stages[1].micro_batch);
  }
}

TEST(PlansInTurns, AreNoneWhereNoStageIsWideOrTurnsAreTaken) {
  const TestProblem test = heavy_and_light();
  const Problem problem = test.problem();
  CostTable table(problem);
  Workbench bench(table);
  Plan plan = three_and_one(problem);
  plan.stages[0].replication = Replication::kRoundRobin;
  EXPECT_TRUE(plans_in_turns(bench, plan).empty());
  plan = three_and_one(problem);
  plan.stages[0].devices.resize(1);
  EXPECT_TRUE(plans_in_turns(bench, plan).empty());
}

// Floors of their stages are all that is known of them, whatever is in flight: local steps from
// such plans must get as far as to merge stages, which they try last.
TEST(PlansInTurns, AreEstimatedForLittleWork) {
  const TestProblem test = heavy_and_light();
  const Problem problem = test.problem();
  CostTable table(problem);
  Workbench bench(table);
  Plan plan = three_and_one(problem);
  for (Stage& stage : plan.stages) stage.micro_batch = 1;
  plan.stages[0].replication = Replication::kRoundRobin;
  plan.stages[0].in_flight_samples = 12;
  const std::int64_t before = bench.work();
  EXPECT_EQ(bench.estimate_s(plan), bench.floor_s(plan));
  EXPECT_LE(bench.work() - before, static_cast<std::int64_t>(test.graph.op_count()));
}

// Thirds of 12 samples: each replica takes 4, 36 ms, and the pipeline fills and drains in 9. Of
// micro-batches that are powers of two the fullest takes 5 at least, and waits for the second
// stage.
TEST(SearchPlan, LetsReplicasTakeTurnsWhereTheyCannotSplitEvenly) {
  const TestProblem test = heavy_and_light();
  const SearchResult result = search_plan(planner_named("graphpipe"), test.problem());
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  ASSERT_EQ(result.plan.stages.size(), 2U);
  EXPECT_EQ(result.plan.stages[0].devices.size(), 3U);
  EXPECT_EQ(result.plan.stages[0].replication, Replication::kRoundRobin);
  EXPECT_LT(result.plan.estimate.iteration_s, 46e-3);
}

}  // namespace
}  // namespace graphpipe
