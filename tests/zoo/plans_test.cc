// Every model of the zoo, as it comes, has a plan on 16 devices that the verifier passes.

#include <gtest/gtest.h>

#include "cluster/presets.h"
#include "cost/analytic.h"
#include "models/models.h"
#include "plan/plan.h"
#include "schedule/verify.h"
#include "search/search.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kMiniBatch = 64;
constexpr std::int64_t kMicroBatch = 4;

Problem problem_of(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                   std::int64_t mini_batch) {
  Problem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.costs = &costs;
  problem.mini_batch = mini_batch;
  return problem;
}

class ZooPlans : public testing::TestWithParam<std::string> {};

TEST_P(ZooPlans, OnSixteenDevices) {
  const Graph graph = load_model(GetParam());
  const Cluster cluster = preset_cluster("summit:16");
  const AnalyticCosts costs;
  Problem problem = problem_of(graph, cluster, costs, kMiniBatch);
  problem.options.micro_batches = {kMicroBatch};
  problem.options.data_parallel = false;  // replicas of the whole may be the better plan
  const SearchResult result = search_plan(planner_named("graphpipe"), problem);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  EXPECT_GT(result.plan.stages.size(), 1U) << "no pipeline";
  const Verification verification = verify_plan(result.plan, graph, cluster, costs);
  for (const Fault& fault : verification.faults) {
    ADD_FAILURE() << fault.where << ": " << fault.rule << ": " << fault.message;
  }
}

// What local steps may change besides makes no plan slower.
TEST(WiderOptions, MakeNoPlanSlower) {
  struct Case {
    const char* model;
    std::int64_t mini_batch;
    bool data_parallel;
  };
  const Cluster cluster = preset_cluster("summit:32");
  const AnalyticCosts costs;
  int faster = 0;
  for (const Case& one : {Case{"candle-uno", 8192, true}, Case{"two-branch", 512, false},
                          Case{"candle-uno", 1024, false}}) {
    const Graph graph = load_model(one.model);
    Problem problem = problem_of(graph, cluster, costs, one.mini_batch);
    problem.options.data_parallel = one.data_parallel;
    double narrower_s = 0;
    for (const int wider : {0, 1, 2}) {
      problem.options.per_stage_micro_batch = wider >= 1;
      if (wider >= 2) problem.options.kfkb = {1, 2, 4};
      const SearchResult result = search_plan(planner_named("graphpipe"), problem);
      ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
      const double iteration_s = result.plan.estimate.iteration_s;
      if (narrower_s > 0) {
        EXPECT_LE(iteration_s, narrower_s) << one.model;
        faster += iteration_s < narrower_s ? 1 : 0;
      }
      narrower_s = iteration_s;
    }
  }
  EXPECT_GT(faster, 0);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const ZooModel& model : zoo()) list.push_back(model.name);
  return list;
}

std::string name_of(const testing::TestParamInfo<std::string>& model) {
  std::string name = model.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooPlans, testing::ValuesIn(names()), name_of);

}  // namespace
}  // namespace graphpipe
