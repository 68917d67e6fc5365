#include "planners/data_parallel/data_parallel.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planners/test_problems.h"

namespace graphpipe {
namespace {

PlanResult data_parallel_plan(const TestProblem& test) {
  return plan_data_parallel(test.problem(), Budget());
}

TEST(DataParallel, IsOneStageOnEveryDevice) {
  const TestProblem test = even_problem({{}, {0}, {0}}, 4, 32);
  const PlanResult result = data_parallel_plan(test);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  std::vector<std::int64_t> sizes;
  for (const Plan& p : result.candidates) {
    EXPECT_NO_THROW(validate(p, test.graph, test.cluster, "plan"));
    ASSERT_EQ(p.stages.size(), 1U);
    EXPECT_EQ(p.stages[0].devices.size(), 4U);
    sizes.push_back(p.stages[0].micro_batch);
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 8, 16, 32}));  // all as fast, without overheads
}

TEST(DataParallel, LargestMicroBatchThatFitsIsFastestWithOverheads) {
  TestProblem test = even_problem({{}}, 4, 32);
  test.costs.ops[0].fixed_s = 1e-3;
  test.costs.ops[0].saved_bytes_per_sample = 1000;
  test.cluster.types[0].memory_bytes = 8000;  // four samples a device
  EXPECT_EQ(data_parallel_plan(test).candidates.front().stages[0].micro_batch, 16);
}

// What a stage saves beside its inputs is needed once even so: this helps where several tasks
// are in flight, and one stage has one.
TEST(DataParallel, RecomputationGainsNothingOverOneTaskInFlight) {
  TestProblem test = even_problem({{}, {0}}, 4, 32);
  test.costs.ops[0].saved_bytes_per_sample = 1000;
  test.cluster.types[0].memory_bytes = 5000;
  test.options.recompute = true;
  const PlanResult result = data_parallel_plan(test);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  for (const Plan& p : result.candidates) EXPECT_FALSE(p.stages[0].recompute);
  test.cluster.types[0].memory_bytes = 500;
  EXPECT_EQ(data_parallel_plan(test).status, PlanStatus::kInfeasible);
}

TEST(DataParallel, SaysHowFarMemoryIsShort) {
  TestProblem test = even_problem({{}, {0}}, 4, 32);
  for (Parameter& param : test.graph.params) param.shape = {1 << 20};
  test.cluster.types[0].memory_bytes = 12 << 20;
  const PlanResult result = data_parallel_plan(test);
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_EQ(result.reason,
            "a replica at micro-batch 4 needs 30.0 MiB (16.0 MiB of it weights, gradients and "
            "optimiser state), 18.0 MiB more than a device has; a planner that splits the model "
            "would do");
}

TEST(DataParallel, NeedsASampleForEveryDevice) {
  TestProblem test = even_problem({{}}, 64, 32);
  EXPECT_EQ(data_parallel_plan(test).reason,
            "64 devices can't split the largest micro-batch of 32 samples; 32 devices or fewer "
            "would do");
}

TEST(DataParallel, HasNoPlanOfWidthOne) {
  TestProblem test = even_problem({{}}, 4, 32);
  test.options.data_parallel = false;
  const PlanResult result = data_parallel_plan(test);
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_EQ(result.reason,
            "options \"none\" give a stage one device, and this planner has one stage; options "
            "\"dp\" or one device would do");
  test.cluster = test_cluster(1);
  EXPECT_EQ(data_parallel_plan(test).status, PlanStatus::kOk);
}

}  // namespace
}  // namespace graphpipe
