#include "schedule/memory_rule.h"

#include <algorithm>
#include <set>

#include "schedule/owner_map.h"

namespace graphpipe {

MemoryRule::MemoryRule(const Schedule& schedule, const Plan& plan, const Graph& graph,
                       const Cluster& cluster, const CostModel& costs, RankId rank)
    : plan_(plan),
      graph_(graph),
      costs_(costs),
      device_(cluster.type_of(schedule.ranks[rank.index()].device)),
      buckets_(schedule.buckets),
      local_(schedule, plan, graph, rank),
      samples_(schedule.samples),
      recompute_(plan.stages.size(), false) {
  if (schedule.training) {
    recompute_ = stages_that_recompute(plan, stages_with_backward(plan, graph));
  }
  const DeviceId device = schedule.ranks[rank.index()].device;
  std::vector<OpId> ops;  // of all the rank's stages: what they share is there once
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (std::ranges::find(stage.devices, device) == stage.devices.end()) continue;
    ops.insert(ops.end(), stage.ops.begin(), stage.ops.end());
    step_bytes_[StageId(s)] = stage_static_memory(graph, stage.ops, plan.optimizer).step_bytes;
  }
  const StageMemory all = stage_static_memory(graph, ops, plan.optimizer);
  static_bytes_ = schedule.training ? all.static_bytes() : all.weights_bytes;
}

MemoryEffect MemoryRule::of(const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward: {
      const std::int64_t arrived = take_arrived(action);
      const TaskBytes& bytes = task_bytes(action);
      return {bytes.kept - arrived + shared_bytes(action),
              bytes.saved - bytes.kept + bytes.workspace + arrived};
    }
    case ActionKind::kRecompute: {
      const TaskBytes& bytes = task_bytes(action);
      return {bytes.saved - bytes.kept, bytes.workspace};
    }
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return {given_bytes(action), task_bytes(action).workspace};
    case ActionKind::kBackwardWeight:
      return {0, task_bytes(action).workspace};
    case ActionKind::kStep:
      return {0, step_bytes_[action.stage]};
    case ActionKind::kWaitReceive:
      if (action.direction == Direction::kForward) {
        arrived_[{action.stage, action.micro_batch}] += action.bytes;
      }
      return {};
    case ActionKind::kPostReceive:
      return {action.bytes, 0};
    case ActionKind::kStartSend:
      return of_send(action);
    case ActionKind::kWaitSend:
      return {-action.bytes, 0};
    case ActionKind::kFree:
      if (!action.edge.valid()) {
        return {-task_bytes(action).saved - shared_bytes(action) - taken_bytes(action), 0};
      }
      return {action.direction == Direction::kBackward ? -action.bytes : 0, 0};
    case ActionKind::kStartReduce: {
      const ReductionMemory memory = reduction(action);
      return {memory.started_bytes, memory.start_bytes};
    }
    case ActionKind::kWaitReduce: {
      const ReductionMemory memory = reduction(action);
      return {-memory.started_bytes, memory.started_bytes + memory.wait_bytes};
    }
    case ActionKind::kMakeVersion:
    case ActionKind::kDropVersion:
      return {};
  }
  return {};
}

ReductionMemory MemoryRule::reduction(const Action& action) const {
  const Bucket& bucket = buckets_[static_cast<std::size_t>(action.bucket)];
  return reduction_memory(bucket.bytes, static_cast<std::int64_t>(bucket.ranks.size()));
}

std::int64_t MemoryRule::take_arrived(const Action& task) {
  const auto at = arrived_.find({task.stage, task.micro_batch});
  if (at == arrived_.end()) return 0;
  const std::int64_t bytes = at->second;
  arrived_.erase(at);
  return bytes;
}

// What a stage that recomputes gives away is not among what it keeps: all of it exists while
// any of its messages is packed.
MemoryEffect MemoryRule::of_send(const Action& send) {
  if (send.direction == Direction::kBackward) return {send.bytes, 0};
  const SampleRange task =
      replica_samples(plan_.stage(send.stage), send.replica, send.micro_batch, samples_);
  return {send.bytes, task_bytes(send.stage, task.size()).outputs};
}

// What the task holds more (less) than alone since stages of the rank share values: it does not
// hold what they made and it reads, and where it recomputes, holds what it made and they read.
std::int64_t MemoryRule::shared_bytes(const Action& task) const {
  if (!local_.any()) return 0;
  const bool recompute = recompute_[task.stage.index()];
  return (recompute ? local_.made_bytes(task.stage, task.samples) : 0) -
         local_.read_bytes(task.stage, task.samples);
}

std::int64_t MemoryRule::given_bytes(const Action& task) const {
  return local_.any() ? local_.gradients_given_bytes(task.stage, task.samples) : 0;
}

std::int64_t MemoryRule::taken_bytes(const Action& task) const {
  return local_.any() ? local_.gradients_taken_bytes(task.stage, task.samples) : 0;
}

// Each tensor once, whoever reads it.
std::int64_t MemoryRule::outputs_bytes(StageId stage, std::int64_t samples) const {
  std::set<TensorId> outputs;
  for (const StageEdge& edge : plan_.edges) {
    if (edge.from == stage) outputs.insert(edge.tensors.begin(), edge.tensors.end());
  }
  std::int64_t bytes = 0;
  for (const TensorId tensor : outputs) bytes += tensor_bytes(graph_.tensor(tensor), samples);
  return bytes;
}

const MemoryRule::TaskBytes& MemoryRule::task_bytes(StageId stage, std::int64_t samples) {
  const auto [at, is_new] = task_bytes_.try_emplace({stage, samples});
  TaskBytes& bytes = at->second;
  if (!is_new || samples <= 0) return bytes;
  const std::vector<OpId>& ops = plan_.stage(stage).ops;
  bytes.saved = bytes.kept = stage_saved_bytes(costs_, graph_, ops, samples, device_);
  bytes.workspace = stage_cost(costs_, graph_, ops, samples, device_).workspace_bytes;
  if (recompute_[stage.index()]) {
    bytes.kept = stage_input_bytes(graph_, ops, samples);
    bytes.outputs = outputs_bytes(stage, samples);
  }
  return bytes;
}

}  // namespace graphpipe
