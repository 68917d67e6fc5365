// Departs from the paper: its planner estimates the latency about a pivot stage, which it moves by
// a rule; here every bound on the slowest stage is tried. Placement is by neighbours alone.

#include "planners/dapple/dapple.h"

#include "planners/latency_plans.h"

namespace graphpipe {
namespace {

std::vector<int> stage_widths(const Problem& problem) {
  std::vector<int> widths = {1};
  const int devices = problem.cluster->device_count();
  for (int w = 2; problem.options.data_parallel && w <= devices; ++w) widths.push_back(w);
  return widths;
}

}  // namespace

PlanResult plan_dapple(const Problem& problem, const Budget& budget) {
  return plan_latency_chain(problem, budget, {"dapple", stage_widths(problem), false});
}

}  // namespace graphpipe
