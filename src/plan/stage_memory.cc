// Symbols: B  mini-batch;  b  micro-batch;  d  devices of a stage;  I  samples in flight;
//          u  what a stage takes at once: b, or b d where its devices take turns

#include "plan/stage_memory.h"

#include <algorithm>

#include "base/error.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kTensorPaddingBytes = 64;
constexpr std::int64_t kSampleIdBytes = 8;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

std::int64_t device_count(const Stage& stage) {
  return static_cast<std::int64_t>(stage.devices.size());
}

bool takes_turns(const Stage& stage) { return stage.replication == Replication::kRoundRobin; }

std::int64_t samples_at_once(const Stage& stage) {
  return stage.micro_batch * (takes_turns(stage) ? device_count(stage) : 1);
}

// Samples of one micro-batch on its fullest replica.
std::int64_t samples_per_task(const Stage& stage) {
  return takes_turns(stage) ? stage.micro_batch : divide_up(stage.micro_batch, device_count(stage));
}

// Tasks in flight on one replica, at most.
std::int64_t tasks_in_flight(const Stage& stage, std::int64_t mini_batch) {
  return divide_up(std::min(stage.in_flight_samples, mini_batch), samples_at_once(stage));
}

// [stage]: most samples that stages hold at once along a path from `from` to it, both ends
// included; 0 where there is no path. Edges lead to later stages (P3).
std::vector<std::int64_t> samples_along_paths(const Plan& plan, StageId from) {
  std::vector<std::int64_t> along(plan.stages.size(), 0);
  along[from.index()] = samples_at_once(plan.stage(from));
  for (const StageEdge& edge : plan.edges) {  // sorted by the stage they leave
    const std::int64_t here = along[edge.from.index()];
    if (here == 0) continue;
    std::int64_t& there = along[edge.to.index()];
    there = std::max(there, here + samples_at_once(plan.stage(edge.to)));
  }
  return along;
}

// Bytes, at most, of messages over the edge that carry what one replica of `stage` (an end
// of the edge) computes of `span` samples in a row, cut by the tasks of both ends.
std::int64_t span_bytes(const Plan& plan, const Graph& graph, const std::vector<bool>& needs,
                        const StageEdge& edge, const Stage& stage, std::int64_t span,
                        bool backward) {
  const Stage& other = plan.stage(&plan.stage(edge.from) == &stage ? edge.to : edge.from);
  const std::int64_t tasks = divide_up(span, samples_at_once(stage)) + 1;  // the span may
                                                                           // start within one
  const std::int64_t samples = tasks * samples_per_task(stage);
  const std::int64_t messages =
      tasks * (divide_up(samples_per_task(stage), samples_per_task(other)) + 1);
  const std::int64_t empty = message_bytes(graph, needs, edge, 0, backward);
  const std::int64_t padding = kTensorPaddingBytes * static_cast<std::int64_t>(edge.tensors.size());
  return message_bytes(graph, needs, edge, samples, backward) + messages * (empty + padding);
}

std::int64_t buffers_bytes(const Plan& plan, const Graph& graph, StageId id) {
  const Stage& stage = plan.stage(id);
  const std::vector<bool> needs = needs_gradient(graph);
  std::int64_t bytes = 0;
  for (const StageEdge& edge : plan.edges) {
    if (edge.from != id && edge.to != id) continue;
    const std::int64_t window = channel_window_samples(plan, edge);
    bytes += span_bytes(plan, graph, needs, edge, stage, window, false);
    if (edge.gradient) bytes += span_bytes(plan, graph, needs, edge, stage, window, true);
  }
  return bytes;
}

}  // namespace

std::vector<ParamId> stage_params(const Graph& graph, const std::vector<OpId>& ops) {
  std::vector<ParamId> params;
  for (const OpId op : ops) {
    params.insert(params.end(), graph.op(op).params.begin(), graph.op(op).params.end());
  }
  std::ranges::sort(params);
  const auto repeats = std::ranges::unique(params);
  params.erase(repeats.begin(), repeats.end());
  return params;
}

StageMemory stage_static_memory(const Graph& graph, const std::vector<OpId>& ops,
                                OptimizerKind optimizer) {
  StageMemory memory;
  for (const ParamId id : stage_params(graph, ops)) {
    const std::int64_t bytes = param_bytes(graph.param(id));
    memory.weights_bytes += bytes;
    if (graph.param(id).trainable) memory.gradients_bytes += bytes;
  }
  switch (optimizer) {
    case OptimizerKind::kSgd:
      break;
    case OptimizerKind::kSgdMomentum:
      memory.optimizer_bytes = memory.gradients_bytes;
      break;
    case OptimizerKind::kAdam:
      memory.optimizer_bytes = 2 * memory.gradients_bytes;
      break;
  }
  return memory;
}

std::int64_t message_bytes(const Graph& graph, const std::vector<bool>& needs,
                           const StageEdge& edge, std::int64_t samples, bool backward) {
  std::int64_t bytes = kMessageHeaderBytes + kSampleIdBytes * samples;
  for (const TensorId tensor : edge.tensors) {
    if (backward && !needs[tensor.index()]) continue;
    bytes += round_up(tensor_bytes(graph.tensor(tensor), samples), kTensorPaddingBytes);
  }
  return bytes;
}

std::int64_t message_bytes(const Graph& graph, const StageEdge& edge, std::int64_t samples,
                           bool backward) {
  if (!backward || edge.tensors.empty()) {
    return message_bytes(graph, std::vector<bool>(), edge, samples, false);
  }
  return message_bytes(graph, needs_gradient(graph), edge, samples, backward);
}

std::int64_t channel_window_samples(const Plan& plan, const StageEdge& edge) {
  const Stage& from = plan.stage(edge.from);
  const Stage& to = plan.stage(edge.to);
  const std::int64_t unit = samples_at_once(to);
  const std::int64_t ahead = from.in_flight_samples - to.in_flight_samples + samples_at_once(from);
  const std::int64_t between = samples_along_paths(plan, edge.from)[edge.to.index()];
  const std::int64_t window = round_up(std::max({2 * unit, ahead, between}), unit);
  return std::min(window, round_up(plan.mini_batch, unit));
}

StageMemory stage_memory(const Plan& plan, const Graph& graph, const CostModel& costs,
                         const DeviceType& device, StageId id) {
  const Stage& stage = plan.stage(id);
  const std::int64_t samples = samples_per_task(stage);
  StageMemory memory = stage_static_memory(graph, stage.ops, plan.optimizer);
  memory.saved_bytes = tasks_in_flight(stage, plan.mini_batch) *
                       stage_saved_bytes(costs, graph, stage.ops, samples, device);
  memory.buffers_bytes = buffers_bytes(plan, graph, id);
  memory.workspace_bytes = stage_cost(costs, graph, stage.ops, samples, device).workspace_bytes;
  return memory;
}

}  // namespace graphpipe
