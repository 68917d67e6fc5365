#include "planners/planner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "planners/cost_table.h"
#include "planners/test_problems.h"

namespace graphpipe {
namespace {

template <typename Call>
std::string fault(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.where() + ": " + error.message();
  }
  return "";
}

TEST(Registry, GraphpipeComesFirst) {
  EXPECT_EQ(planners().front().name, "graphpipe");
  EXPECT_EQ(planner_named("data-parallel").name, "data-parallel");
}

TEST(Registry, RefusesUnknownNames) {
  const std::string list =
      "planners: graphpipe, pipedream, piper, max-load, dapple, alpa, gpipe, data-parallel";
  EXPECT_EQ(fault([] { planner_named("gpip"); }),
            "--planner: no planner is called \"gpip\" (did you mean gpipe?); " + list);
  EXPECT_EQ(fault([] { planner_named("simulated annealing"); }),
            "--planner: no planner is called \"simulated annealing\"; " + list);
}

TEST(MicroBatchSizes, ArePowersOfTwoUpToTheMiniBatch) {
  TestProblem test = even_problem({{}}, 1, 48);
  EXPECT_EQ(micro_batch_sizes(test.problem()), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32}));
  test.options.micro_batches = {12, 3, 12};
  EXPECT_EQ(micro_batch_sizes(test.problem()), (std::vector<std::int64_t>{3, 12}));
}

TEST(MicroBatchSizes, RefusesOnesThatTheMiniBatchDoesNotHold) {
  TestProblem test = even_problem({{}}, 1, 48);
  test.options.micro_batches = {4, 64};
  EXPECT_EQ(fault([&] { micro_batch_sizes(test.problem()); }),
            "--micro-batch: 64 is not between 1 and the mini-batch of 48; choose sizes in that "
            "range");
  test.options.micro_batches = {0};
  EXPECT_EQ(fault([&] { micro_batch_sizes(test.problem()); }),
            "--micro-batch: 0 is not between 1 and the mini-batch of 48; choose sizes in that "
            "range");
}

TEST(PlanOptions, HaveATextForm) {
  PlanOptions options;
  EXPECT_EQ(options.text(), "dp");
  options.recompute = true;
  EXPECT_EQ(options.text(), "dp,recompute");
  options.data_parallel = false;
  EXPECT_EQ(options.text(), "recompute");
  options.recompute = false;
  EXPECT_EQ(options.text(), "none");
}

TEST(EmptyPlan, CarriesTheProblem) {
  const TestProblem test = even_problem({{}}, 1, 48);
  const Plan plan = empty_plan(test.problem(), "gpipe");
  EXPECT_EQ(plan.model, "test");
  EXPECT_EQ(plan.cluster, "test");
  EXPECT_EQ(plan.planner, "gpipe");
  EXPECT_EQ(plan.options, "dp");
  EXPECT_EQ(plan.costs, "affine");
  EXPECT_EQ(plan.mini_batch, 48);
  EXPECT_EQ(plan.graph_hash, graph_hash(test.graph));
  EXPECT_TRUE(plan.stages.empty());
}

TEST(PlanningDevice, IsTheSlowestComputeWithTheSmallestMemory) {
  Cluster cluster = test_cluster(3);
  cluster.types.push_back(cluster.types[0]);
  cluster.types[0].memory_bytes = 100;
  cluster.types[1].peak_flops_per_s = 1e9;
  cluster.types[1].name = "slow";
  cluster.device_type = {0, 1, 0};
  EXPECT_EQ(planning_device(cluster).name, "slow");
  EXPECT_EQ(planning_device(cluster).memory_bytes, 100);
}

}  // namespace
}  // namespace graphpipe
