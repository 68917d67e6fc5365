#include "schedule/task_seconds.h"

#include <algorithm>
#include <utility>

#include "plan/stage_memory.h"
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
      known_(plan.stages.size()),
      through_(plan.stages.size()) {}

int TaskSeconds::type_of(RankId rank) const {
  return cluster_.device_type[schedule_.ranks[rank.index()].device.index()];
}

double TaskSeconds::of(RankId rank, const Action& action) {
  const int type = type_of(rank);
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
  const double seconds = of(rank, action);
  if (action.samples.empty()) return seconds;
  const std::vector<OpId>& ops = plan_.stage(action.stage).ops;
  const auto place = std::ranges::lower_bound(ops, op) - ops.begin();
  const std::vector<double>& before = before_s(action.stage, action.samples.size(), type_of(rank));
  return std::max(0.0, seconds - before[static_cast<std::size_t>(place)]);
}

const std::vector<double>& TaskSeconds::before_s(StageId stage, std::int64_t samples, int type) {
  std::vector<Through>& known = through_[stage.index()];
  for (const Through& one : known) {
    if (one.samples == samples && one.device_type == type) return one.before_s;
  }
  const DeviceType& device = cluster_.types[static_cast<std::size_t>(type)];
  std::vector<double> before = {0};
  for (const OpId op : plan_.stage(stage).ops) {
    before.push_back(before.back() +
                     costs_.op_cost(graph_, op, samples, 1, device, Phase::kBackward).seconds);
  }
  known.push_back({samples, type, std::move(before)});
  return known.back().before_s;
}

double TaskSeconds::step_s(StageId stage) const {
  std::int64_t params = 0;
  std::int64_t bytes = 0;
  for (const ParamId param : stage_params(graph_, plan_.stage(stage).ops)) {
    if (!graph_.param(param).trainable) continue;
    ++params;
    bytes += param_bytes(graph_.param(param));
  }
  return costs_.step_s(params, bytes, optimizer_moments(plan_.optimizer));
}

double TaskSeconds::ask(const Action& action, const DeviceType& device) const {
  if (action.kind == ActionKind::kStep) return step_s(action.stage);
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

EmulationStretch emulation_stretch(const Schedule& schedule, const Plan& plan, const Graph& graph,
                                   const Cluster& cluster, const CostModel& costs, int cores) {
  // An action that wakes another rank, with the message that it sends, on a machine that has
  // other things to do; and how much of the busiest rank's time all of them may take.
  constexpr double kActionS = 40e-6;
  constexpr double kShare = 0.05;
  // What the end of an iteration is measured by, some milliseconds, is little of so much.
  constexpr double kLeastBusyS = 1;
  // A stage of a kernel or two would stretch the others to minutes.
  constexpr double kMostBusyS = 20;
  TaskSeconds task_seconds(schedule, plan, graph, cluster, costs);
  EmulationStretch stretch;
  double busiest_s = 0;
  double work_s = 0;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    double busy_s = 0;
    for (ActionCursor at(schedule, plan, RankId(r)); !at.done(); at.next()) {
      work_s += kActionS;
      if (!is_compute(at.action().kind)) continue;
      const double task_s = task_seconds.of(RankId(r), at.action());
      busy_s += task_s;
      double& shortest_s = stretch.shortest_task_s;
      if (task_s > 0 && (shortest_s == 0 || task_s < shortest_s)) shortest_s = task_s;
    }
    busiest_s = std::max(busiest_s, busy_s);
  }
  for (const Bucket& bucket : schedule.buckets) {
    const auto holders = static_cast<double>(bucket.ranks.size());
    work_s += kActionS * 2 * holders * (holders - 1);  // shares to all, sums to all
  }
  if (stretch.shortest_task_s <= 0) return stretch;
  stretch.factor =
      std::max({std::min(kShortestEmulatedTaskS / stretch.shortest_task_s, kMostBusyS / busiest_s),
                work_s / std::max(1, cores) / (kShare * busiest_s), kLeastBusyS / busiest_s});
  return stretch;
}

}  // namespace graphpipe
