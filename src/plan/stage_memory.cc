// Symbols: B  mini-batch;  b  micro-batch;  d  devices of a stage;  I  samples in flight;
//          u  what a stage takes at once: b, or b d where its devices take turns

#include "plan/stage_memory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/divide_up.h"
#include "base/error.h"
#include "plan/weight_versions.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kTensorPaddingBytes = 64;
constexpr std::int64_t kSampleIdBytes = 8;
constexpr std::int64_t kLargestElementBytes = 8;
constexpr std::int64_t kStepNumbersBytes = 64;  // that the library makes tensors of

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

bool has_backward(const Graph& graph, const std::vector<bool>& needs, const Stage& stage) {
  return std::ranges::any_of(stage.ops, [&](OpId op) { return has_backward(graph.op(op), needs); });
}

// From a stage's forward to its last pass, at most.
std::int64_t samples_in_flight(const Plan& plan, const Stage& stage, bool has_backward) {
  if (!has_backward) return samples_at_once(stage);
  const bool all_first = plan.schedule == ScheduleKind::kGpipe;
  return all_first ? schedule_samples(plan)
                   : std::min(stage.in_flight_samples, schedule_samples(plan));
}

bool share_a_device(const Stage& a, const Stage& b) {
  return std::ranges::any_of(a.devices, [&](DeviceId device) {
    return std::ranges::find(b.devices, device) != b.devices.end();
  });
}

// Most samples that stages hold at once along a path from one stage to another, both ends
// included. Edges lead to later stages (P3) and are sorted by the stage they leave.
std::int64_t samples_along_paths(const Plan& plan, StageId from, StageId to) {
  std::vector<std::int64_t> along(to.index() - from.index() + 1, 0);  // [stage - from]
  along[0] = samples_at_once(plan.stage(from));
  auto edge = std::ranges::lower_bound(plan.edges, from, {}, &StageEdge::from);
  for (; edge != plan.edges.end() && edge->from < to; ++edge) {
    const std::int64_t here = along[edge->from.index() - from.index()];
    if (here == 0 || edge->to > to) continue;
    std::int64_t& there = along[edge->to.index() - from.index()];
    there = std::max(there, here + samples_at_once(plan.stage(edge->to)));
  }
  return along.back();
}

// How far the producer may be ahead of the consumer by what it has in flight.
std::int64_t samples_ahead(const Plan& plan, const StageEdge& edge, bool shares) {
  if (shares) return plan.stage(edge.from).in_flight_samples;
  if (plan.schedule != ScheduleKind::kZbH1) {  // as warm_up_samples() has it
    return plan.stage(edge.from).in_flight_samples - plan.stage(edge.to).in_flight_samples;
  }
  const std::vector<std::int64_t> warm_up = warm_up_samples(plan);
  return warm_up[edge.from.index()] - warm_up[edge.to.index()];
}

// `shares`: shares_devices(plan).
std::int64_t window_samples(const Plan& plan, const StageEdge& edge, bool shares) {
  const Stage& from = plan.stage(edge.from);
  const Stage& to = plan.stage(edge.to);
  const std::int64_t unit = samples_at_once(to);
  const std::int64_t ahead = samples_ahead(plan, edge, shares) + samples_at_once(from);
  const std::int64_t between = samples_along_paths(plan, edge.from, edge.to);
  const std::int64_t window = round_up(std::max({2 * unit, ahead, between}), unit);
  return std::min(window, round_up(schedule_samples(plan), unit));
}

// Whether a task's samples here go to several tasks there, in several messages.
bool is_cut(const Stage& own, const Stage& other) {
  const bool one_there = device_count(other) == 1 && other.micro_batch % own.micro_batch == 0;
  const bool alike = own.micro_batch == other.micro_batch &&
                     own.devices.size() == other.devices.size() && !takes_turns(own) &&
                     !takes_turns(other);
  return !one_there && !alike;
}

// One end of an edge, and what it holds of the edge's messages. The verifier's count, from
// above: a channel (edge, direction, pair of ranks) holds messages that end at most a window
// beyond the last that arrived or left, and in any case two.
class EdgeBuffers {
 public:
  EdgeBuffers(const Plan& plan, const Graph& graph, const std::vector<bool>& needs,
              const StageEdge& edge, const Stage& own, const Stage& other, bool shares)
      : graph_(graph),
        needs_(needs),
        edge_(edge),
        own_(own),
        other_(other),
        mini_batch_(schedule_samples(plan)),
        window_(window_samples(plan, edge, shares)) {}

  // Messages of one task of this end.
  std::int64_t task_bytes(bool backward) const { return tasks_bytes(1, 0, backward); }

  // Receives that are posted ahead, at the end of a task.
  std::int64_t posted_bytes(bool backward) const {
    return tasks_bytes(divide_up(window_, samples_at_once(own_)), two_in_any_case(), backward);
  }

  // Sends that are on the way. A channel is looked at again when its next message starts, so
  // those that are served in turn hold older ones too.
  std::int64_t sent_bytes(bool backward) const {
    const std::int64_t span = window_ + (device_count(other_) > 1 ? period() : 0);
    const std::int64_t tasks =
        divide_up(span, samples_at_once(own_)) + (is_cut(own_, other_) ? 1 : 0);
    return tasks_bytes(tasks, two_in_any_case(), backward);
  }

 private:
  std::int64_t messages_per_task() const {
    if (!is_cut(own_, other_)) return 1;
    const std::int64_t samples = samples_per_task(own_);
    return std::min(samples, divide_up(samples, samples_per_task(other_)) +
                                 divide_up(samples, other_.micro_batch) + 1);
  }

  // Every so many samples a channel that has messages at all has one.
  std::int64_t period() const {
    const std::int64_t own = samples_at_once(own_);
    return device_count(other_) == 1 ? own : std::lcm(own, samples_at_once(other_));
  }

  // Samples in messages that stand outside the window since each channel may hold two: of
  // channels with rare messages, and of those that only a short last micro-batch needs.
  std::int64_t two_in_any_case() const {
    const std::int64_t channels = device_count(other_);
    const std::int64_t message = std::min(samples_per_task(own_), samples_per_task(other_));
    std::int64_t samples = 2 * period() > window_ ? 2 * channels * message : 0;
    const bool short_last =
        mini_batch_ % own_.micro_batch != 0 || mini_batch_ % other_.micro_batch != 0;
    if (channels > 1 && short_last) {
      const std::int64_t last = std::max(own_.micro_batch, other_.micro_batch);
      samples += (divide_up(last, own_.micro_batch) + 1) * samples_per_task(own_);
    }
    return samples;
  }

  // Messages of so many tasks of this end, and of more samples in messages as small as can be.
  std::int64_t tasks_bytes(std::int64_t tasks, std::int64_t more_samples, bool backward) const {
    const std::int64_t whole =
        message_bytes(graph_, needs_, edge_, samples_per_task(own_), backward);
    if (!is_cut(own_, other_) && more_samples == 0) return tasks * whole;
    const std::int64_t samples = tasks * samples_per_task(own_) + more_samples;
    const std::int64_t messages = tasks * messages_per_task() + more_samples;
    const std::int64_t empty = message_bytes(graph_, needs_, edge_, 0, backward);
    const std::int64_t padding =
        kTensorPaddingBytes * static_cast<std::int64_t>(edge_.tensors.size());
    return message_bytes(graph_, needs_, edge_, samples, backward) + messages * (empty + padding);
  }

  const Graph& graph_;
  const std::vector<bool>& needs_;
  const StageEdge& edge_;
  const Stage& own_;
  const Stage& other_;
  std::int64_t mini_batch_;
  std::int64_t window_;
};

// What a task has received counts beside what is posted: before a forward the messages that
// become its saved inputs, before a backward the gradients. Never both at once, but where
// backwards are in halves: gradients then stay to the weight half, of as many tasks as are in
// flight.
std::int64_t buffers_bytes(const Plan& plan, const Graph& graph, const std::vector<bool>& needs,
                           StageId id, bool shares) {
  const Stage& own = plan.stage(id);
  std::int64_t bytes = 0;
  std::int64_t before_forward = 0;
  std::int64_t before_backward = 0;
  for (const StageEdge& edge : plan.edges) {
    if (edge.to == id) {
      const EdgeBuffers in(plan, graph, needs, edge, own, plan.stage(edge.from), shares);
      bytes += in.posted_bytes(false) + (edge.gradient ? in.sent_bytes(true) : 0);
      before_forward += in.task_bytes(false);
    } else if (edge.from == id) {
      const EdgeBuffers out(plan, graph, needs, edge, own, plan.stage(edge.to), shares);
      bytes += out.sent_bytes(false) + (edge.gradient ? out.posted_bytes(true) : 0);
      before_backward += edge.gradient ? out.task_bytes(true) : 0;
    }
  }
  if (plan.schedule == ScheduleKind::kZbH1) {
    const std::int64_t in_flight = samples_in_flight(plan, own, has_backward(graph, needs, own));
    const std::int64_t tasks = divide_up(in_flight, samples_at_once(own));
    return bytes + before_forward + tasks * before_backward;
  }
  return bytes + std::max(before_forward, before_backward);
}

// Tasks of one replica whose values exist, at most. Where a stage on the same device reads them
// and sends no gradient back that would come before the end, they wait for its last pass.
std::int64_t tasks_held(const Plan& plan, const Graph& graph, const std::vector<bool>& needs,
                        StageId id, bool shares) {
  const Stage& stage = plan.stage(id);
  const bool backward = has_backward(graph, needs, stage);
  const std::int64_t own = samples_in_flight(plan, stage, backward);
  std::int64_t held = own;
  for (const StageEdge& edge : plan.edges) {
    if (!shares || edge.from != id || edge.kind != EdgeKind::kData) continue;
    const Stage& reader = plan.stage(edge.to);
    if (!share_a_device(stage, reader) || (edge.gradient && backward)) continue;
    const std::int64_t there = samples_in_flight(plan, reader, has_backward(graph, needs, reader));
    held = std::max(held, own + window_samples(plan, edge, shares) + there);
  }
  return divide_up(std::min(held, round_up(schedule_samples(plan), samples_at_once(stage))),
                   samples_at_once(stage));
}

// Gradients that come in parts are put together, and those of several readers are added up.
std::int64_t gathered_bytes(const Plan& plan, const Graph& graph, const std::vector<bool>& needs,
                            StageId id, std::int64_t samples) {
  std::int64_t bytes = 0;
  std::map<TensorId, int> readers;
  for (const StageEdge& edge : plan.edges) {
    if (edge.from != id || !edge.gradient) continue;
    const bool in_parts = is_cut(plan.stage(id), plan.stage(edge.to));
    for (const TensorId tensor : edge.tensors) {
      if (!needs[tensor.index()]) continue;
      const std::int64_t whole = tensor_bytes(graph.tensor(tensor), samples);
      if (in_parts) bytes += whole;
      if (++readers[tensor] == 2) bytes += whole;
    }
  }
  return bytes;
}

// What messages that are kept as a task's inputs take beside their tensors.
std::int64_t kept_messages_bytes(const Plan& plan, StageId id, std::int64_t samples) {
  std::int64_t bytes = 0;
  for (const StageEdge& edge : plan.edges) {
    if (edge.to != id || edge.kind != EdgeKind::kData) continue;
    bytes += kMessageHeaderBytes + kSampleIdBytes * samples +
             kTensorPaddingBytes * static_cast<std::int64_t>(edge.tensors.size());
  }
  return bytes;
}

// Tensors that stages on the same devices read.
std::int64_t made_for_neighbours(const Plan& plan, const Graph& graph, StageId id,
                                 std::int64_t samples) {
  std::int64_t bytes = 0;
  for (const StageEdge& edge : plan.edges) {
    if (edge.from != id || !share_a_device(plan.stage(id), plan.stage(edge.to))) continue;
    for (const TensorId tensor : edge.tensors) bytes += tensor_bytes(graph.tensor(tensor), samples);
  }
  return bytes;
}

// Whether another stage holds one of the stage's trained parameters.
bool shares_params(const Plan& plan, const Graph& graph, const TrainingFacts& facts, StageId id,
                   std::vector<ParamId> own) {
  std::erase_if(own, [&](ParamId param) { return !facts.tied[param.index()]; });
  if (own.empty()) return false;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (StageId(s) == id) continue;
    for (const OpId op : plan.stages[s].ops) {
      for (const ParamId param : graph.op(op).params) {
        if (std::ranges::binary_search(own, param)) return true;
      }
    }
  }
  return false;
}

std::int64_t largest_gradient_bytes(const Graph& graph, const std::vector<ParamId>& params) {
  std::int64_t largest = 0;
  for (const ParamId param : params) {
    if (!graph.param(param).trainable) continue;
    largest = std::max(largest, param_bytes(graph.param(param)));
  }
  return largest;
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

int optimizer_moments(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kSgdMomentum:
      return 1;
    case OptimizerKind::kAdam:
      return 2;
  }
  GP_CHECK(false, "optimizer {}", static_cast<int>(optimizer));
}

ParamMemory param_memory(const Parameter& param, OptimizerKind optimizer) {
  ParamMemory memory;
  memory.weight_bytes = param_bytes(param);
  if (!param.trainable) return memory;
  memory.gradient_bytes = memory.weight_bytes;
  memory.optimizer_bytes = optimizer_moments(optimizer) * memory.weight_bytes;
  if (optimizer == OptimizerKind::kAdam) {
    memory.step_bytes = 2 * memory.weight_bytes + kStepNumbersBytes;
  }
  return memory;
}

StageMemory stage_static_memory(const Graph& graph, const std::vector<OpId>& ops,
                                OptimizerKind optimizer) {
  StageMemory memory;
  for (const ParamId id : stage_params(graph, ops)) {
    const ParamMemory one = param_memory(graph.param(id), optimizer);
    memory.weights_bytes += one.weight_bytes;
    memory.gradients_bytes += one.gradient_bytes;
    memory.optimizer_bytes += one.optimizer_bytes;
    memory.step_bytes = std::max(memory.step_bytes, one.step_bytes);
  }
  return memory;
}

// The bucket's gradients are put together, and end as they are copied. Everybody's share of the
// own part comes in, and one's own shares of the others' parts go out. When these are gone, the sum
// of the own part goes out and the others' come in, as many bytes; the sum itself is there all the
// while.
ReductionMemory reduction_memory(std::int64_t bucket_bytes, std::int64_t holders) {
  const std::int64_t part = divide_up(bucket_bytes, holders) + kLargestElementBytes;
  const std::int64_t one_way = (holders - 1) * (part + kMessageHeaderBytes);
  return {.started_bytes = 2 * one_way,
          .start_bytes = std::max<std::int64_t>(0, bucket_bytes - 2 * one_way),
          .wait_bytes = part + kMessageHeaderBytes};
}

std::int64_t reduction_bound_bytes(std::int64_t gradient_bytes, std::int64_t largest_bytes,
                                   std::int64_t holders) {
  if (holders < 2 || gradient_bytes == 0) return 0;
  const std::int64_t bucket = std::min(gradient_bytes, std::max(kBucketBytes, largest_bytes));
  const ReductionMemory one = reduction_memory(bucket, holders);
  const std::int64_t under_way = gradient_bytes > bucket ? 2 : 1;
  return under_way * one.started_bytes + std::max(one.start_bytes, one.wait_bytes);
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
  return window_samples(plan, edge, shares_devices(plan));
}

StageMemory stage_memory(const Plan& plan, const Graph& graph, const CostModel& costs,
                         const DeviceType& device, StageId id) {
  const TrainingFacts facts = training_facts(costs, graph, device);
  TaskMemories tasks(costs, graph, facts.needs);
  return stage_memory(plan, graph, facts, tasks, device, id);
}

StageMemory stage_memory(const Plan& plan, const Graph& graph, const TrainingFacts& facts,
                         TaskMemories& task_memories, const DeviceType& device, StageId id) {
  const Stage& stage = plan.stage(id);
  const std::vector<bool>& needs = facts.needs;
  const bool shares = shares_devices(plan);
  const std::int64_t samples = samples_per_task(stage);
  const bool backward = has_backward(graph, needs, stage);
  const std::int64_t tasks = tasks_held(plan, graph, needs, id, shares);
  StageMemory memory = stage_static_memory(graph, stage.ops, plan.optimizer);
  const TaskMemory& task = task_memories.of(stage.ops, leaving_tensors(plan, id), samples, device,
                                            plan.schedule == ScheduleKind::kZbH1);
  const std::int64_t saved = task.saved_bytes;
  const std::int64_t beside = kept_messages_bytes(plan, id, samples);
  memory.saved_bytes = tasks * (saved + beside);
  memory.last_saved_bytes = saved + beside;
  if (stage.recompute && backward) {
    const std::int64_t inputs = stage_input_bytes(graph, stage.ops, samples);
    const std::int64_t kept = inputs + made_for_neighbours(plan, graph, id, samples);
    // Where backwards are in halves, the whole stays to the weight half.
    const std::int64_t whole = plan.schedule == ScheduleKind::kZbH1 ? tasks : 1;
    const std::int64_t rest = std::max<std::int64_t>(0, saved - inputs);
    memory.saved_bytes = tasks * (kept + beside) + whole * rest;
    memory.last_saved_bytes = kept + beside + rest;
  }
  if (is_asynchronous(plan.weights)) {
    const std::int64_t kept = VersionRule(plan).most_held(id) - 1;
    memory.versions_bytes = kept * memory.gradients_bytes;  // of what training changes, as they
    memory.step_saved_bytes = memory.saved_bytes;
  }
  const std::vector<ParamId> params = stage_params(graph, stage.ops);
  memory.reduction_bytes = reduction_bound_bytes(
      memory.gradients_bytes, largest_gradient_bytes(graph, params),
      shares_params(plan, graph, facts, id, params) ? devices_used(plan) : device_count(stage));
  memory.buffers_bytes = buffers_bytes(plan, graph, needs, id, shares);
  memory.workspace_bytes = task.forward_bytes;
  if (backward) {
    const bool halves = plan.schedule == ScheduleKind::kZbH1;
    memory.workspace_bytes =
        std::max(memory.workspace_bytes, (halves ? task.input_half_bytes : task.backward_bytes) +
                                             gathered_bytes(plan, graph, needs, id, samples));
    // Of tasks whose backward has run, until they end: those of a rank's other stages, and
    // those that wait for their weight half.
    if (halves || shares) {
      memory.saved_bytes += tasks * (task.input_gradient_bytes + (halves ? task.seed_bytes : 0));
    }
    if (halves) memory.workspace_bytes = std::max(memory.workspace_bytes, task.weight_half_bytes);
  }
  return memory;
}

}  // namespace graphpipe
