#include "schedule/schedule.h"

#include <algorithm>

#include "schedule/shift.h"

namespace graphpipe {

RankId Schedule::rank_of(DeviceId device) const {
  const auto at = std::ranges::lower_bound(ranks, device, {}, &RankProgram::device);
  if (at == ranks.end() || at->device != device) return {};
  return RankId(static_cast<std::size_t>(at - ranks.begin()));
}

ActionCursor::ActionCursor(const Schedule& schedule, const Plan& plan, RankId rank)
    : schedule_(&schedule), plan_(&plan), program_(&schedule.ranks[rank.index()]) {
  settle();
}

void ActionCursor::next() {
  ++index_;
  ++position_;
  settle();
}

void ActionCursor::settle() {
  while (section_ < 3) {
    const std::vector<Action>& actions = section_ == 0   ? program_->prologue
                                         : section_ == 1 ? program_->period
                                                         : program_->epilogue;
    const bool runs = section_ != 1 || repetition_ < schedule_->repeats;
    if (runs && index_ < actions.size()) {
      current_ = section_ == 1
                     ? shifted(actions[index_], *plan_, repetition_ * schedule_->period_samples)
                     : actions[index_];
      return;
    }
    index_ = 0;
    if (section_ == 1 && ++repetition_ < schedule_->repeats) continue;
    ++section_;
  }
}

std::vector<bool> stages_that_recompute(const Plan& plan, const std::vector<bool>& backward) {
  std::vector<bool> result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    result.push_back(plan.stages[s].recompute && backward[s]);
  }
  return result;
}

std::vector<bool> stages_with_backward(const Plan& plan, const Graph& graph) {
  const std::vector<bool> needs = needs_gradient(graph);
  std::vector<bool> backward(plan.stages.size(), false);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const OpId op : plan.stages[s].ops) {
      if (has_backward(graph.op(op), needs)) backward[s] = true;
    }
  }
  // A consumer that no loss depends on still owes its producer explicit zeros.
  for (const StageEdge& edge : plan.edges) {
    if (edge.kind == EdgeKind::kData && edge.gradient) backward[edge.to.index()] = true;
  }
  return backward;
}

}  // namespace graphpipe
