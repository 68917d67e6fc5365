// What a planner proposes first, for tests of training by planners' plans.

#pragma once

#include <gtest/gtest.h>

#include "cost/analytic.h"
#include "equivalence/partitions.h"
#include "planners/planner.h"

namespace graphpipe {

// The planner's favourite for so many ranks, a stage each, and these sizes.
inline Plan favourite(const Planner& planner, const Graph& graph, int ranks,
                      std::int64_t mini_batch, std::int64_t micro_batch) {
  const Cluster cluster = test_cluster(ranks);
  const AnalyticCosts costs;
  Problem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.costs = &costs;
  problem.mini_batch = mini_batch;
  problem.options.data_parallel = false;
  problem.options.micro_batches = {micro_batch};
  const PlanResult result = planner.plan(problem, {});
  EXPECT_EQ(result.status, PlanStatus::kOk) << result.reason;
  return result.candidates.empty() ? Plan() : result.candidates[0];
}

}  // namespace graphpipe
