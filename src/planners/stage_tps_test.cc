#include "planners/stage_tps.h"

#include <gtest/gtest.h>

#include <vector>

#include "planners/test_problems.h"

namespace graphpipe {
namespace {

const Dependencies kJoin = {{}, {}, {0, 1}};

TEST(StageTps, IsComputeOverTheMicroBatch) {
  const TestProblem test = even_problem(kJoin, 4, 32);
  const Problem problem = test.problem();
  CostTable table(problem);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0)}, 8, 1), 3e-3);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0), OpId(1), OpId(2)}, 8, 1), 9e-3);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0)}, 8, 2), 1.5e-3);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0)}, 8, 3), 3 * 3e-3 / 8);  // the largest share
}

TEST(StageTps, RecomputationAddsAForward) {
  TestProblem test = even_problem(kJoin, 4, 32);
  test.options.recompute = true;
  const Problem problem = test.problem();
  CostTable table(problem);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0)}, 8, 1, true), 4e-3);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0)}, 8, 1), 3e-3);
}

TEST(StageTps, SlowLinksBoundIt) {
  TestProblem test = even_problem(kJoin, 4, 32);
  test.cluster.levels[0].link = {.bandwidth_bytes_per_s = 1e4, .latency_s = 0.5};
  const Problem problem = test.problem();
  CostTable table(problem);
  // 64 bytes a sample go out and as many come back: two of the join's inputs, each way.
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0)}, 8, 1), (0.5 + 8 * 64 / 1e4) / 8);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(2)}, 8, 1), (0.5 + 8 * 2 * 64 / 1e4) / 8);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(2)}, 8, 2), (0.5 + 4 * 2 * 64 / 1e4) / 8);
  // A stage that is alone sends nothing.
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0), OpId(1), OpId(2)}, 8, 1), 9e-3);
}

TEST(StageTps, RanksThatShareCoresAreSlower) {
  TestProblem test = even_problem(kJoin, 4, 32);
  test.cluster.cores_per_node = 2;
  const Problem problem = test.problem();
  CostTable table(problem);
  EXPECT_DOUBLE_EQ(stage_tps_s(table, {OpId(0)}, 8, 1), 6e-3);
}

// One stage a device, in the order of operators.
Plan stages_of_one(const TestProblem& test, std::int64_t micro_batch) {
  Plan plan = empty_plan(test.problem(), "test");
  for (std::size_t op = 0; op < test.graph.op_count(); ++op) {
    Stage stage;
    stage.ops = {OpId(op)};
    stage.devices = {DeviceId(op)};
    stage.micro_batch = micro_batch;
    stage.in_flight_samples = plan.mini_batch;
    plan.stages.push_back(stage);
  }
  plan.edges = data_edges(test.graph, plan.stages);
  return plan;
}

TEST(IterationFloor, IsExactForEqualStagesWithoutTransfers) {
  // 3 (m + p - 1) for m micro-batches of one sample and depth p (F = 1 ms, B = 2 ms).
  TestProblem test = even_problem(kJoin, 4, 8);
  for (Level& level : test.cluster.levels) level.link.bandwidth_bytes_per_s = 1e30;
  const Problem problem = test.problem();
  CostTable table(problem);
  EXPECT_NEAR(iteration_floor_s(table, stages_of_one(test, 1)), 27e-3, 1e-9);
  // A short last micro-batch of two goes back faster: 3 * 8 of work, 3 in, 2 * 2 back.
  EXPECT_NEAR(iteration_floor_s(table, stages_of_one(test, 3)), (24 + 3 + 4) * 1e-3, 1e-9);
}

TEST(IterationFloor, CountsForwardsThatRunAgain) {
  TestProblem test = even_problem(kJoin, 4, 8);
  for (Level& level : test.cluster.levels) level.link.bandwidth_bytes_per_s = 1e30;
  test.options.recompute = true;
  const Problem problem = test.problem();
  CostTable table(problem);
  Plan plan = stages_of_one(test, 1);
  plan.stages[2].recompute = true;
  // The join is busy for 4 ms a sample, a forward is before and a backward behind.
  EXPECT_NEAR(iteration_floor_s(table, plan), (4 * 8 + 1 + 2) * 1e-3, 1e-9);
}

TEST(IterationFloor, CountsTheWayOverLinks) {
  TestProblem test = even_problem(kJoin, 4, 8);
  test.cluster.levels[0].link = {.bandwidth_bytes_per_s = 1e30, .latency_s = 1};
  const Problem problem = test.problem();
  CostTable table(problem);
  EXPECT_NEAR(iteration_floor_s(table, stages_of_one(test, 1)), 2.027, 1e-6);
}

TEST(IterationFloor, CountsTheReductionAtTheEnd) {
  TestProblem test = even_problem(Dependencies(1), 2, 8);
  for (Level& level : test.cluster.levels) level.link = {.bandwidth_bytes_per_s = 64};
  const Problem problem = test.problem();
  CostTable table(problem);
  Plan plan = stages_of_one(test, 4);
  plan.stages[0].devices.push_back(DeviceId(1));
  // Two tasks of two samples on each device; 64 bytes of gradients go once around, from
  // the last task's beginning at the earliest.
  EXPECT_NEAR(iteration_floor_s(table, plan), 2 * 3e-3 + 1, 1e-6);
}

TEST(IterationFloor, CountsTheWorkThatSharesCores) {
  TestProblem test = even_problem(Dependencies(3), 3, 8);
  test.cluster.cores_per_node = 1;
  const Problem problem = test.problem();
  CostTable table(problem);
  EXPECT_NEAR(iteration_floor_s(table, stages_of_one(test, 1)), 3 * 24e-3, 1e-6);
}

TEST(IterationFloor, KnowsTheTypeOfEachDevice) {
  TestProblem test = even_problem(kJoin, 4, 8);
  test.cluster.types.push_back(test.cluster.types[0]);
  test.cluster.types[1].name = "slow";
  test.costs.seconds_of_type = {{"slow", 10}};
  const Problem alike = test.problem();
  CostTable fast(alike);
  const double fast_s = iteration_floor_s(fast, stages_of_one(test, 1));
  test.cluster.device_type[2] = 1;
  const Problem problem = test.problem();
  CostTable table(problem);
  // The join alone is on the slow device: 8 tasks of 30 ms, after one of 1 ms and before one of 2.
  EXPECT_NEAR(iteration_floor_s(table, stages_of_one(test, 1)), 0.243, 1e-3);
  EXPECT_LT(fast_s, 0.1);
}

}  // namespace
}  // namespace graphpipe
