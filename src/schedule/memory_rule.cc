#include "schedule/memory_rule.h"

#include <algorithm>
#include <map>

#include "schedule/owner_map.h"

namespace graphpipe {

MemoryFacts::MemoryFacts(const Schedule& schedule, const Plan& plan, const Graph& graph,
                         const CostModel& costs)
    : needs(needs_gradient(graph)),
      backward(plan.stages.size(), false),
      recompute(plan.stages.size(), false),
      plan_(plan),
      graph_(graph),
      costs_(costs) {
  if (schedule.training) {
    backward = stages_with_backward(plan, graph);
    recompute = stages_that_recompute(plan, backward);
  }
  edge_backward = edges_with_backward(plan, backward);
}

const MemoryFacts::TaskBytes& MemoryFacts::task_bytes(StageId stage, std::int64_t samples,
                                                      const DeviceType& device) {
  const auto [at, is_new] = task_bytes_.try_emplace({stage, samples, &device});
  TaskBytes& bytes = at->second;
  if (!is_new || samples <= 0) return bytes;
  const std::vector<OpId>& ops = plan_.stage(stage).ops;
  bytes.beside = task_memory(costs_, graph_, needs, ops, leaving_tensors(plan_, stage), samples,
                             device, plan_.schedule == ScheduleKind::kZbH1);
  bytes.saved = bytes.kept = bytes.beside.saved_bytes;
  if (recompute[stage.index()]) {
    bytes.kept = stage_input_bytes(graph_, ops, samples);
    bytes.saved = std::max(bytes.saved, bytes.kept);
    bytes.results = outputs_bytes(stage, samples) + watched_bytes(stage, samples);
  }
  return bytes;
}

const std::vector<TensorId>& MemoryFacts::kept_inputs(StageId stage, const DeviceType& device) {
  const auto [at, is_new] = kept_inputs_.try_emplace({stage, &device});
  if (is_new) {
    at->second = graphpipe::kept_inputs(costs_, graph_, needs, plan_.stage(stage).ops, device);
  }
  return at->second;
}

const StageMemory& MemoryFacts::static_memory(StageId stage) {
  const auto [at, is_new] = static_memory_.try_emplace(stage);
  if (is_new) at->second = stage_static_memory(graph_, plan_.stage(stage).ops, plan_.optimizer);
  return at->second;
}

std::int64_t MemoryFacts::outputs_bytes(StageId stage, std::int64_t samples) const {
  std::int64_t bytes = 0;
  for (const TensorId tensor : leaving_tensors(plan_, stage)) {
    bytes += tensor_bytes(graph_.tensor(tensor), samples);
  }
  return bytes;
}

std::int64_t MemoryFacts::watched_bytes(StageId stage, std::int64_t samples) const {
  const auto bytes_here = [&](TensorId tensor) {
    const OpId producer = graph_.tensor(tensor).producer;
    const bool here = std::ranges::binary_search(plan_.stage(stage).ops, producer);
    return here ? tensor_bytes(graph_.tensor(tensor), samples) : 0;
  };
  std::int64_t bytes = 0;
  for (const Loss& loss : graph_.losses) bytes += bytes_here(loss.tensor);
  for (const Metric& metric : graph_.metrics) bytes += bytes_here(metric.tensor);
  return bytes;
}

MemoryRule::MemoryRule(const Schedule& schedule, const Plan& plan, const Graph& graph,
                       const Cluster& cluster, const CostModel& costs, RankId rank,
                       std::shared_ptr<MemoryFacts> facts)
    : plan_(plan),
      graph_(graph),
      device_(cluster.type_of(schedule.ranks[rank.index()].device)),
      buckets_(schedule.buckets),
      local_(schedule, plan, graph, rank),
      samples_(schedule.samples),
      rank_device_(schedule.ranks[rank.index()].device),
      facts_(facts ? std::move(facts)
                   : std::make_shared<MemoryFacts>(schedule, plan, graph, costs)) {
  const RankProgram& program = schedule.ranks[rank.index()];
  for (const std::vector<Action>* section : {&program.prologue, &program.epilogue}) {
    for (const Action& action : *section) {
      if (action.after.valid()) add_within(action);
    }
  }
  std::vector<StageId> own;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const std::vector<DeviceId>& devices = plan.stages[i].devices;
    if (std::ranges::find(devices, rank_device_) != devices.end()) own.emplace_back(i);
  }
  const StageMemory all = own.size() == 1 ? facts_->static_memory(own[0]) : memory_of_all(own);
  static_bytes_ = schedule.training ? all.static_bytes() : all.weights_bytes;
}

// What the stages share is there once.
StageMemory MemoryRule::memory_of_all(const std::vector<StageId>& stages) const {
  std::vector<OpId> ops;
  for (const StageId stage : stages) {
    ops.insert(ops.end(), plan_.stage(stage).ops.begin(), plan_.stage(stage).ops.end());
  }
  return stage_static_memory(graph_, ops, plan_.optimizer);
}

void MemoryRule::add_within(const Action& action) {
  const ReductionMemory memory = reduction(action);
  Within& within = within_[{action.stage, action.micro_batch}];
  if (action.kind == ActionKind::kStartReduce) {
    within.held += memory.started_bytes;
    within.steps.push_back({action.after, within.held + memory.start_bytes});
  } else {
    within.steps.push_back({action.after, within.held + memory.wait_bytes});
    within.held -= memory.started_bytes;
  }
}

std::int64_t MemoryRule::during_backward_bytes(const Action& task, const Within& within) {
  const TaskMemory& memory = task_bytes(task).beside;
  const std::vector<OpId>& ops = plan_.stage(task.stage).ops;
  std::int64_t bytes = memory.backward_bytes;
  for (const Within::Step& step : within.steps) {
    const auto at = std::ranges::lower_bound(ops, step.after);
    if (at == ops.end() || memory.rest_bytes.empty()) continue;  // a fault, or no samples
    const std::int64_t rest = memory.rest_bytes[static_cast<std::size_t>(at - ops.begin())];
    bytes = std::max(bytes, rest + step.bytes);
  }
  return bytes;
}

MemoryEffect MemoryRule::of(const Action& action) {
  if (action.after.valid()) return {};  // it is its backward's
  switch (action.kind) {
    case ActionKind::kForward: {
      const Arrived in = arrived(action);
      const TaskBytes& bytes = task_bytes(action);
      return {held_bytes(action, in) - in.kept - in.copied,
              bytes.saved - bytes.kept + bytes.beside.forward_bytes + in.copied};
    }
    case ActionKind::kRecompute: {
      const TaskBytes& bytes = task_bytes(action);
      return {bytes.saved - bytes.kept, bytes.beside.forward_bytes};
    }
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return of_backward(action);
    case ActionKind::kBackwardWeight:
      return {0, task_bytes(action).beside.weight_half_bytes};
    case ActionKind::kStep:
      return {0, facts_->static_memory(action.stage).step_bytes};
    case ActionKind::kWaitReceive:
      return {};
    case ActionKind::kPostReceive:
      return {action.bytes, 0};
    case ActionKind::kStartSend:
      return of_send(action);
    case ActionKind::kWaitSend:
      return {-action.bytes, 0};
    case ActionKind::kFree:
      return of_free(action);
    case ActionKind::kStartReduce: {
      const ReductionMemory memory = reduction(action);
      return {memory.started_bytes, memory.start_bytes};
    }
    case ActionKind::kWaitReduce: {
      const ReductionMemory memory = reduction(action);
      return {-memory.started_bytes, memory.started_bytes + memory.wait_bytes};
    }
    case ActionKind::kMakeVersion:  // of what training changes, as the gradients are
      return {facts_->static_memory(action.stage).gradients_bytes, 0};
    case ActionKind::kDropVersion:
      return {-facts_->static_memory(action.stage).gradients_bytes, 0};
  }
  return {};
}

ReductionMemory MemoryRule::reduction(const Action& action) const {
  const Bucket& bucket = buckets_[static_cast<std::size_t>(action.bucket)];
  return reduction_memory(bucket.bytes, static_cast<std::int64_t>(bucket.ranks.size()));
}

// Every edge's messages end with the forward, but where they are what is kept.
MemoryRule::Arrived MemoryRule::arrived(const Action& task) const {
  Arrived in;
  for (const StageEdge& edge : plan_.edges) {
    if (edge.to != task.stage) continue;
    const Stage& from = plan_.stage(edge.from);
    const std::vector<OwnedPart> parts = owned_parts(from, task.samples, samples_);
    for (const OwnedPart& part : parts) {
      if (from.devices[static_cast<std::size_t>(part.replica)] == rank_device_) continue;
      const std::int64_t message =
          message_bytes(graph_, facts_->needs, edge, part.samples.size(), /*backward=*/false);
      if (parts.size() > 1 || edge.kind != EdgeKind::kData) {
        in.copied += message;
        continue;
      }
      std::int64_t kept = 0;
      for (const TensorId tensor : edge.tensors) {
        if (is_kept_input(task.stage, tensor)) {
          kept += tensor_bytes(graph_.tensor(tensor), part.samples.size());
        }
      }
      in.tensors += kept;
      (kept > 0 ? in.kept : in.copied) += message;
    }
  }
  return in;
}

bool MemoryRule::is_kept_input(StageId stage, TensorId tensor) const {
  return facts_->recompute[stage.index()] ||
         std::ranges::binary_search(facts_->kept_inputs(stage, device_), tensor);
}

std::int64_t MemoryRule::held_bytes(const Action& task, const Arrived& in) {
  return task_bytes(task).kept + in.kept - in.tensors + shared_bytes(task);
}

// Gradients that come in several messages are put together, and those of several readers are
// added up, for as long as the backward runs.
std::int64_t MemoryRule::gathered_bytes(const Action& task) const {
  std::int64_t bytes = 0;
  std::map<TensorId, int> readers;
  for (std::size_t e = 0; e < plan_.edges.size(); ++e) {
    const StageEdge& edge = plan_.edges[e];
    if (edge.from != task.stage || !facts_->edge_backward[e]) continue;
    const bool in_parts = owned_parts(plan_.stage(edge.to), task.samples, samples_).size() > 1;
    for (const TensorId tensor : edge.tensors) {
      if (!facts_->needs[tensor.index()]) continue;
      const std::int64_t whole = tensor_bytes(graph_.tensor(tensor), task.samples.size());
      if (in_parts) bytes += whole;
      if (++readers[tensor] == 2) bytes += whole;
    }
  }
  return bytes;
}

// What the stages of a rank hand to one another outlives the backward.
std::int64_t MemoryRule::after_backward_bytes(const Action& task) {
  const TaskMemory& beside = task_bytes(task).beside;
  return std::max(beside.input_gradient_bytes, given_bytes(task));
}

MemoryEffect MemoryRule::of_backward(const Action& task) {
  const TaskBytes& bytes = task_bytes(task);
  const bool whole = task.kind == ActionKind::kBackward;
  const auto found = within_.find({task.stage, task.micro_batch});
  const Within within = found == within_.end() ? Within() : found->second;
  const std::int64_t during =
      (whole ? during_backward_bytes(task, within) : bytes.beside.input_half_bytes) +
      gathered_bytes(task);
  std::int64_t after = after_backward_bytes(task);
  if (!whole) after += bytes.beside.seed_bytes;
  if (whole && !local_.any()) after -= held_bytes(task, arrived(task)) + bytes.saved - bytes.kept;
  after += within.held;
  return {after, std::max<std::int64_t>(0, during - after)};
}

MemoryEffect MemoryRule::of_free(const Action& free) {
  if (free.edge.valid()) {
    if (free.direction == Direction::kBackward) return {-free.bytes, 0};
    return {0, results_bytes(free)};
  }
  const TaskBytes& bytes = task_bytes(free);
  if (!facts_->backward[free.stage.index()])
    return {-held_bytes(free, arrived(free)) - taken_bytes(free), 0};
  const std::int64_t own = after_backward_bytes(free) - given_bytes(free);
  const bool halves = plan_.schedule == ScheduleKind::kZbH1;
  if (!halves && !local_.any()) return {-own, 0};  // the rest ended with the backward
  const std::int64_t saved = held_bytes(free, arrived(free)) + bytes.saved - bytes.kept;
  const std::int64_t seeds = halves ? bytes.beside.seed_bytes : 0;
  return {-saved - seeds - own - taken_bytes(free), 0};
}

// What a stage that recomputes gives away is not among what it keeps: all of it exists while
// any of its messages is packed.
MemoryEffect MemoryRule::of_send(const Action& send) {
  if (send.direction == Direction::kBackward) return {send.bytes, 0};
  return {send.bytes, results_bytes(send)};
}

// Of the task whose message it is.
std::int64_t MemoryRule::results_bytes(const Action& message) {
  const SampleRange task =
      replica_samples(plan_.stage(message.stage), message.replica, message.micro_batch, samples_);
  return task_bytes(message.stage, task.size()).results;
}

// What the task holds more (less) than alone since stages of the rank share values: it does not
// hold what they made and it reads, and where it recomputes, holds what it made and they read.
std::int64_t MemoryRule::shared_bytes(const Action& task) const {
  if (!local_.any()) return 0;
  const bool recompute = facts_->recompute[task.stage.index()];
  return (recompute ? local_.made_bytes(task.stage, task.samples) : 0) -
         local_.read_bytes(task.stage, task.samples);
}

std::int64_t MemoryRule::given_bytes(const Action& task) const {
  return local_.any() ? local_.gradients_given_bytes(task.stage, task.samples) : 0;
}

std::int64_t MemoryRule::taken_bytes(const Action& task) const {
  return local_.any() ? local_.gradients_taken_bytes(task.stage, task.samples) : 0;
}

}  // namespace graphpipe
