// Planning by code, for programs that use graphpipe as a library: what `graphpipe plan` and
// `graphpipe simulate` do, with values in place of files and flags. Without libtorch.

#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "cluster/cluster.h"
#include "cost/cost_model.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "planners/planner.h"

namespace graphpipe {

struct PlanRequest {
  std::int64_t mini_batch = 1;  // samples a weight update
  std::string planner = "graphpipe";
  PlanOptions options;      // micro-batch sizes to try, replicas, recomputation, optimiser
  double time_limit_s = 0;  // of the planner; 0: none
  PhaseProgress progress;   // told how far the search is
};

struct PlanAnswer {
  PlanStatus status = PlanStatus::kInfeasible;
  std::string reason;   // why not kOk, and what would do
  Plan plan;            // kOk only: verified, simulated, its estimate filled in
  double search_s = 0;  // the planner's own time
};

// The planner's fastest plan by simulation. Costs are AnalyticCosts, or a profile
// (ProfiledCosts). Throws InputError where the request does not make sense.
PlanAnswer make_plan(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                     const PlanRequest& request);

// A table of the plan's stages, as `graphpipe plan` prints it.
std::string plan_text(const Plan& plan, const Graph& graph, const Cluster& cluster,
                      const CostModel& costs);

// The simulated iteration, a row a rank, at most so many characters wide, as `graphpipe
// simulate` draws it.
std::string timeline_text(const Plan& plan, const Graph& graph, const Cluster& cluster,
                          const CostModel& costs, int columns = 100);

// Throws InputError("the plan", ...) naming the first rule that the plan breaks, on this graph
// and cluster; too little memory is one. What make_plan() returns breaks none.
void require_runnable(const Plan& plan, const Graph& graph, const Cluster& cluster,
                      const CostModel& costs);

}  // namespace graphpipe
