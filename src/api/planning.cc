#include "api/planning.h"

#include <fmt/format.h>

#include "base/error.h"
#include "report/text_report.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/verify.h"
#include "search/search.h"
#include "sim/simulator.h"

namespace graphpipe {

PlanAnswer make_plan(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                     const PlanRequest& request) {
  if (request.mini_batch < 1) {
    throw InputError("mini_batch", fmt::format("{} is not at least 1", request.mini_batch));
  }
  if (is_asynchronous(request.options.weights)) {
    throw InputError("options.weights", "asynchronous plans are made by `graphpipe plan --async`");
  }
  validate(graph, graph.name);
  validate(cluster, cluster.name);
  Problem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.costs = &costs;
  problem.mini_batch = request.mini_batch;
  problem.options = request.options;
  problem.model_argument = graph.name;
  problem.cluster_argument = cluster.name;
  const SearchResult found = search_plan(planner_named(request.planner), problem,
                                         {request.time_limit_s, request.progress});
  return {found.status, found.reason, found.plan, found.search_s};
}

std::string plan_text(const Plan& plan, const Graph& graph, const Cluster& cluster,
                      const CostModel& costs) {
  return plan_table(plan, graph, cluster, costs);
}

std::string timeline_text(const Plan& plan, const Graph& graph, const Cluster& cluster,
                          const CostModel& costs, int columns) {
  const Schedule schedule = build_schedule(plan, graph, schedule_samples(plan));
  const Schedule lowered = lower(schedule, plan, graph);
  const Trace trace = simulate(lowered, plan, graph, cluster, costs, {.events = true});
  return schedule_grid(trace, lowered, plan, columns);
}

void require_runnable(const Plan& plan, const Graph& graph, const Cluster& cluster,
                      const CostModel& costs) {
  validate(plan, graph, cluster, "the plan");
  const Verification verification = verify_plan(plan, graph, cluster, costs);
  if (!verification.ok()) throw InputError("the plan", fault_text(verification));
}

}  // namespace graphpipe
