#include "schedule/task_seconds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/drawing.h"

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

TaskSeconds::TaskSeconds(const Schedule& schedule, const Plan& plan, const Graph& graph,
                         const Cluster& cluster, const CostModel& costs)
    : schedule_(schedule),
      plan_(plan),
      graph_(graph),
      cluster_(cluster),
      costs_(costs),
      known_(plan.stages.size()) {}

double TaskSeconds::of(RankId rank, const Action& action) {
  const int type = cluster_.device_type[schedule_.ranks[rank.index()].device.index()];
  std::vector<Known>& known = known_[action.stage.index()];
  for (const Known& one : known) {
    if (one.kind == action.kind && one.samples == action.samples.size() &&
        one.device_type == type) {
      return one.seconds;
    }
  }
  known.push_back({action.kind, action.samples.size(), type,
                   ask(action, cluster_.types[static_cast<std::size_t>(type)])});
  return known.back().seconds;
}

double TaskSeconds::until(RankId rank, const Action& action, OpId op) {
  const int type = cluster_.device_type[schedule_.ranks[rank.index()].device.index()];
  const DeviceType& device = cluster_.types[static_cast<std::size_t>(type)];
  double seconds = of(rank, action);
  for (const OpId before : plan_.stage(action.stage).ops) {
    if (before >= op || action.samples.empty()) break;
    seconds -=
        costs_.op_cost(graph_, before, action.samples.size(), 1, device, Phase::kBackward).seconds;
  }
  return std::max(0.0, seconds);
}

double TaskSeconds::ask(const Action& action, const DeviceType& device) const {
  const std::int64_t samples = action.samples.size();
  if (samples <= 0) return 0;
  const std::vector<OpId>& ops = plan_.stage(action.stage).ops;
  if (action.kind == ActionKind::kForward) {
    return stage_cost(costs_, graph_, ops, samples, device).forward_s;
  }
  if (action.kind == ActionKind::kBackward) {
    return stage_cost(costs_, graph_, ops, samples, device).backward_s;
  }
  double seconds = costs_.task_overhead_s();
  for (const OpId op : ops) {
    seconds += costs_.op_cost(graph_, op, samples, 1, device, phase_of(action.kind)).seconds;
  }
  return seconds;
}

double shortest_task_s(const Schedule& schedule, const Plan& plan, const Graph& graph,
                       const Cluster& cluster, const CostModel& costs) {
  TaskSeconds task_seconds(schedule, plan, graph, cluster, costs);
  double shortest = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    for (ActionCursor at(schedule, plan, RankId(r)); !at.done(); at.next()) {
      if (!is_compute(at.action().kind)) continue;
      const double seconds = task_seconds.of(RankId(r), at.action());
      if (seconds > 0) shortest = std::min(shortest, seconds);
    }
  }
  return std::isinf(shortest) ? 0 : shortest;
}

double emulation_stretch(double shortest_task_s) {
  return shortest_task_s > 0 ? kShortestEmulatedTaskS / shortest_task_s : 1;
}

}  // namespace graphpipe
