#include "search/plan_bound.h"

namespace graphpipe {

LowerBound plan_lower_bound(const Problem& problem, ScheduleKind schedule) {
  BoundRules rules;
  rules.mini_batch = problem.mini_batch;
  rules.micro_batches = micro_batch_sizes(problem);
  rules.max_width = problem.options.data_parallel ? problem.cluster->device_count() : 1;
  rules.halves = schedule == ScheduleKind::kZbH1;
  for (const Parameter& param : problem.graph->params) {
    const ParamMemory memory = param_memory(param, problem.options.optimizer);
    rules.param_bytes.push_back(memory.weight_bytes + memory.gradient_bytes +
                                memory.optimizer_bytes);
  }
  return iteration_lower_bound(*problem.graph, *problem.cluster, *problem.costs, rules);
}

}  // namespace graphpipe
