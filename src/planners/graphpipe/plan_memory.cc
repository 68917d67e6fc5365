#include "planners/graphpipe/plan_memory.h"

#include <algorithm>

#include "plan/stage_memory.h"

namespace graphpipe {

PlanMemory::PlanMemory(SearchContext& context, const StageCosts& costs, const Plan& plan)
    : context_(context), costs_(costs) {
  const std::vector<PositionInfo>& positions = context.pieces.positions;
  std::vector<int> position_of(positions.size());
  for (std::size_t p = 0; p < positions.size(); ++p) {
    position_of[positions[p].op.index()] = static_cast<int>(p);
  }
  for (const Stage& stage : plan.stages) {
    StageParts parts;
    context.accumulator.clear();
    for (const OpId op : stage.ops) {
      const int p = position_of[op.index()];
      parts.spans.push_back({p, p + 1});
      context.accumulator.add(p);
    }
    parts.sums = context.accumulator.sums();
    parts.width = -1;
    for (int i = 0; i < costs.width_count() && !costs.rules().turns; ++i) {
      if (costs.width(i) == static_cast<int>(stage.devices.size())) parts.width = i;
    }
    stages_.push_back(std::move(parts));
  }
  depth_ = pipeline_depth(plan);
}

bool PlanMemory::fits(const Plan& plan, StageId id) const {
  const StageParts& parts = stages_[id.index()];
  const std::int64_t b = costs_.micro_batch();
  if (parts.width >= 0 && !is_asynchronous(plan.weights)) {
    std::int64_t window = depth_;
    for (const Stage& stage : plan.stages) {
      window = std::max(window, (stage.in_flight_samples + b - 1) / b);
    }
    const std::int64_t level = (plan.stage(id).in_flight_samples + b - 1) / b;
    if (costs_.memory_bound_bytes(parts.sums, parts.spans, parts.width, level, window,
                                  plan.stage(id).recompute) <= costs_.memory_limit_bytes()) {
      return true;
    }
  }
  CostTable& table = context_.columns.table();
  return stage_memory(plan, *table.problem().graph, table.facts(), table.task_memories(),
                      table.device(), id)
             .total() <= costs_.memory_limit_bytes();
}

bool PlanMemory::fits(const Plan& plan) const {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (!fits(plan, StageId(s))) return false;
  }
  return true;
}

}  // namespace graphpipe
