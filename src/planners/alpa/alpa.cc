// Departs from the paper: a sub-mesh trains its stage by data parallelism alone, whose times are
// those of the share of a micro-batch; Alpa's other pass would choose tensor parallelism too.

#include "planners/alpa/alpa.h"

#include "planners/latency_plans.h"

namespace graphpipe {
namespace {

// Sub-meshes: powers of two in a node, or whole nodes.
std::vector<int> mesh_widths(const Problem& problem) {
  std::vector<int> widths = {1};
  if (!problem.options.data_parallel) return widths;
  const int devices = problem.cluster->device_count();
  const int node = problem.cluster->levels.front().group_size;
  for (int w = 2; w <= node && w <= devices; w *= 2) widths.push_back(w);
  for (int w = 2 * node; w <= devices; w += node) widths.push_back(w);
  return widths;
}

}  // namespace

PlanResult plan_alpa(const Problem& problem, const Budget& budget) {
  return plan_latency_chain(problem, budget,
                            {"alpa", mesh_widths(problem), problem.options.data_parallel});
}

}  // namespace graphpipe
