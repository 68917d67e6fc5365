#include "planners/graphpipe/plan_drafts.h"

#include <algorithm>
#include <utility>

#include "base/numbers.h"
#include "planners/graphpipe/placement.h"

namespace graphpipe {
namespace {

std::vector<OpId> ops_of(const Pieces& pieces, const StageDraft& stage) {
  std::vector<OpId> ops;
  for (const Span span : stage.spans) {
    for (int p = span.begin; p < span.end; ++p) ops.push_back(pieces.positions[at(p)].op);
  }
  std::ranges::sort(ops);
  return ops;
}

// Of the stage's gradients, wherever it is placed.
double reduction_s(const Problem& problem, const Pieces& pieces, const StageDraft& stage,
                   int width) {
  if (width == 1) return 0;
  std::vector<bool> counted(problem.graph->params.size());
  std::int64_t bytes = 0;
  for (const Span span : stage.spans) {
    for (int p = span.begin; p < span.end; ++p) {
      for (const int param : pieces.positions[at(p)].params) {
        const Parameter& parameter = problem.graph->params[at(param)];
        if (counted[at(param)] || !parameter.trainable) continue;
        counted[at(param)] = true;
        bytes += param_bytes(parameter);
      }
    }
  }
  const bool one_node = width <= problem.cluster->levels[0].group_size;
  const Link& link = one_node ? problem.cluster->levels[0].link : worst_link(*problem.cluster);
  return problem.costs->reduce_s(bytes, width, link);
}

}  // namespace

PlanDraft estimate_draft(const Problem& problem, const Pieces& pieces, const StageCosts& costs,
                         Strategy strategy) {
  // Levels of replicas in turns are rounded up; no way through the stages has more than one
  // micro-batch a device.
  const int levels = std::min(strategy.levels, costs.device_count());
  const auto tasks = static_cast<double>(costs.micro_batches() + levels - 1);
  double reduction = 0;
  const bool in_tps = plans_streams(problem) || costs.rules().reduction;
  for (const StageDraft& stage : strategy.stages) {
    if (in_tps) break;
    reduction = std::max(reduction, reduction_s(problem, pieces, stage, costs.width(stage.width)));
  }
  const double steady = tasks * strategy.tps_s * static_cast<double>(costs.micro_batch());
  return {costs.micro_batch(), std::move(strategy), steady + reduction};
}

Plan make_plan(CostTable& table, const Plan& empty, const Pieces& pieces, const StageCosts& costs,
               const PlanDraft& draft) {
  const Problem& problem = table.problem();
  Plan plan = empty;
  std::vector<int> widths;
  for (const StageDraft& stage : draft.strategy.stages) widths.push_back(costs.width(stage.width));
  std::vector<std::vector<DeviceId>> devices = place_stages(*problem.cluster, widths);
  for (std::size_t s = 0; s < draft.strategy.stages.size(); ++s) {
    Stage stage;
    stage.ops = ops_of(pieces, draft.strategy.stages[s]);
    stage.devices = std::move(devices[s]);
    stage.micro_batch = draft.micro_batch;
    stage.in_flight_samples = draft.micro_batch;
    const bool turns = plans_streams(problem) || costs.rules().turns;
    if (turns && stage.devices.size() > 1) stage.replication = Replication::kRoundRobin;
    plan.stages.push_back(std::move(stage));
  }
  canonicalise(plan, *problem.graph, table.facts().needs);
  const std::vector<std::int64_t> in_flight = least_in_flight(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].in_flight_samples = in_flight[s];
  }
  if (!problem.options.recompute) return plan;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    fit_by_recompute(plan, problem, table.facts(), table.task_memories(), table.device(),
                     StageId(s), table.device().memory_bytes);
  }
  return plan;
}

}  // namespace graphpipe
