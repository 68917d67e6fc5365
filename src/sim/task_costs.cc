#include "sim/task_costs.h"

namespace graphpipe {

namespace {

Phase phase_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kBackwardInput:
      return Phase::kBackwardInput;
    case ActionKind::kBackwardWeight:
      return Phase::kBackwardWeight;
    default:
      return Phase::kRecompute;
  }
}

}  // namespace

TaskCosts::TaskCosts(const Schedule& schedule, const Plan& plan, const Graph& graph,
                     const Cluster& cluster, const CostModel& costs)
    : schedule_(schedule),
      plan_(plan),
      graph_(graph),
      cluster_(cluster),
      costs_(costs),
      known_(plan.stages.size()) {}

const TaskCost& TaskCosts::of(RankId rank, const Action& action) {
  const int type = cluster_.device_type[schedule_.ranks[rank.index()].device.index()];
  std::vector<Known>& known = known_[action.stage.index()];
  for (const Known& one : known) {
    if (one.kind == action.kind && one.samples == action.samples.size() &&
        one.device_type == type) {
      return one.cost;
    }
  }
  known.push_back({action.kind, action.samples.size(), type,
                   ask(action, cluster_.types[static_cast<std::size_t>(type)])});
  return known.back().cost;
}

TaskCost TaskCosts::ask(const Action& action, const DeviceType& device) const {
  TaskCost cost;
  const std::int64_t samples = action.samples.size();
  if (samples <= 0) return cost;
  const std::vector<OpId>& ops = plan_.stage(action.stage).ops;
  const StageCost whole = stage_cost(costs_, graph_, ops, samples, device);
  cost.workspace_bytes = whole.workspace_bytes;
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kFree:
      cost.seconds = whole.forward_s;
      cost.saved_bytes = stage_saved_bytes(costs_, graph_, ops, samples, device);
      break;
    case ActionKind::kBackward:
      cost.seconds = whole.backward_s;
      break;
    default:
      cost.seconds = costs_.task_overhead_s();
      for (const OpId op : ops) {
        cost.seconds +=
            costs_.op_cost(graph_, op, samples, 1, device, phase_of(action.kind)).seconds;
      }
  }
  return cost;
}

}  // namespace graphpipe
