#include "search/iteration.h"

#include "sim/simulator.h"

namespace graphpipe {

Plan as_run(Plan plan, const Problem& problem) {
  if (plans_streams(problem)) plan.mini_batch = problem.options.stream_mini_batch;
  return plan;
}

Trace simulate_iteration(const Plan& plan, const Problem& problem) {
  return simulate_samples(as_run(plan, problem), problem.mini_batch, *problem.graph,
                          *problem.cluster, *problem.costs);
}

}  // namespace graphpipe
