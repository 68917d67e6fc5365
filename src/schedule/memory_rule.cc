#include "schedule/memory_rule.h"

#include <algorithm>

#include "plan/stage_memory.h"

namespace graphpipe {

MemoryRule::MemoryRule(const Schedule& schedule, const Plan& plan, const Graph& graph,
                       const Cluster& cluster, const CostModel& costs, RankId rank)
    : plan_(plan),
      graph_(graph),
      costs_(costs),
      device_(cluster.type_of(schedule.ranks[rank.index()].device)) {
  const DeviceId device = schedule.ranks[rank.index()].device;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (std::ranges::find(stage.devices, device) == stage.devices.end()) continue;
    const StageMemory part = stage_static_memory(graph, stage.ops, plan.optimizer);
    static_bytes_ += schedule.training ? part.static_bytes() : part.weights_bytes;
    step_bytes_[StageId(s)] = part.step_bytes;
  }
}

MemoryEffect MemoryRule::of(const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward: {
      const std::int64_t arrived = take_arrived(action);
      const TaskBytes& bytes = task_bytes(action);
      return {bytes.saved - arrived, bytes.workspace + arrived};
    }
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kRecompute:
      return {0, task_bytes(action).workspace};
    case ActionKind::kStep:
      return {0, step_bytes_[action.stage]};
    case ActionKind::kWaitReceive:
      if (action.direction == Direction::kForward) {
        arrived_[{action.stage, action.micro_batch}] += action.bytes;
      }
      return {};
    case ActionKind::kPostReceive:
    case ActionKind::kStartSend:
      return {action.bytes, 0};
    case ActionKind::kWaitSend:
      return {-action.bytes, 0};
    case ActionKind::kFree:
      if (!action.edge.valid()) return {-task_bytes(action).saved, 0};
      return {action.direction == Direction::kBackward ? -action.bytes : 0, 0};
    case ActionKind::kStartReduce:
    case ActionKind::kWaitReduce:
    case ActionKind::kMakeVersion:
    case ActionKind::kDropVersion:
      return {};
  }
  return {};
}

std::int64_t MemoryRule::take_arrived(const Action& task) {
  const auto at = arrived_.find({task.stage, task.micro_batch});
  if (at == arrived_.end()) return 0;
  const std::int64_t bytes = at->second;
  arrived_.erase(at);
  return bytes;
}

const MemoryRule::TaskBytes& MemoryRule::task_bytes(const Action& action) {
  const std::int64_t samples = action.samples.size();
  const auto [at, is_new] = task_bytes_.try_emplace({action.stage, samples});
  if (is_new && samples > 0) {
    const std::vector<OpId>& ops = plan_.stage(action.stage).ops;
    at->second.saved = stage_saved_bytes(costs_, graph_, ops, samples, device_);
    at->second.workspace = stage_cost(costs_, graph_, ops, samples, device_).workspace_bytes;
  }
  return at->second;
}

}  // namespace graphpipe
