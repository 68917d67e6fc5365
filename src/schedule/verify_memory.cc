// V5: what each rank holds at its worst time, by its own program alone: a buffer exists
// from the rank's own post or start, whatever the peer does. See verify.h for what counts.

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "plan/stage_memory.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

class RankMemoryCount {
 public:
  RankMemoryCount(const VerifyContext& context, RankId rank, const Cluster& cluster,
                  const CostModel& costs)
      : context_(context),
        rank_(rank),
        device_(cluster.type_of(context.schedule.ranks[rank.index()].device)),
        costs_(costs) {}

  RankMemory run(FaultList& faults) {
    count_static();
    now_ = memory_.static_bytes;
    memory_.peak_bytes = now_;
    memory_.peak_at = "the start";
    for (ActionCursor at(context_.schedule, context_.plan, rank_); !at.done(); at.next()) {
      visit(at.action());
      if (peak_moved_) {
        memory_.peak_at = to_text(at.action(), context_.plan);
        peak_position_ = at.position();
        peak_moved_ = false;
      }
    }
    if (memory_.peak_bytes > device_.memory_bytes) report(faults);
    return memory_;
  }

 private:
  void count_static() {
    for (const Placement& own : context_.placed[rank_.index()]) {
      const StageMemory part = stage_static_memory(
          context_.graph, context_.plan.stage(own.stage).ops, context_.plan.optimizer);
      memory_.static_bytes += context_.schedule.training ? part.total() : part.weights_bytes;
    }
  }

  void note(std::int64_t extra_bytes) {
    if (now_ + extra_bytes <= memory_.peak_bytes) return;
    memory_.peak_bytes = now_ + extra_bytes;
    peak_moved_ = true;
  }
  void visit(const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward:
        now_ += saved_bytes(action);
        note(workspace_bytes(action));
        now_ -= bytes_of_messages_read(action);
        break;
      case ActionKind::kBackward:
        note(workspace_bytes(action));
        break;
      case ActionKind::kPostReceive:
      case ActionKind::kStartSend:
        now_ += action.bytes;
        note(0);
        break;
      case ActionKind::kWaitSend:
        now_ -= action.bytes;
        break;
      case ActionKind::kFree:
        if (!action.edge.valid()) now_ -= saved_bytes(action);
        if (action.edge.valid() && action.direction == Direction::kBackward) now_ -= action.bytes;
        break;
      case ActionKind::kWaitReceive:
        if (action.direction == Direction::kForward) {
          arrived_[{action.stage, action.micro_batch}] += action.bytes;
        }
        break;
      case ActionKind::kStartReduce:
      case ActionKind::kWaitReduce:
      case ActionKind::kStep:
      case ActionKind::kBackwardInput:
      case ActionKind::kBackwardWeight:
      case ActionKind::kRecompute:
      case ActionKind::kMakeVersion:
      case ActionKind::kDropVersion:
        break;
    }
  }

  // Forward messages of the task: from now on among what it saved.
  std::int64_t bytes_of_messages_read(const Action& task) {
    const auto at = arrived_.find({task.stage, task.micro_batch});
    if (at == arrived_.end()) return 0;
    const std::int64_t bytes = at->second;
    arrived_.erase(at);
    return bytes;
  }

  struct TaskBytes {
    std::int64_t saved = 0;
    std::int64_t workspace = 0;
  };
  const TaskBytes& task_bytes(const Action& action) {
    const auto [at, is_new] = sizes_.try_emplace({action.stage, action.samples.size()});
    if (is_new) {
      const std::vector<OpId>& ops = context_.plan.stage(action.stage).ops;
      const std::int64_t samples = action.samples.size();
      at->second.saved = stage_saved_bytes(costs_, context_.graph, ops, samples, device_);
      at->second.workspace =
          stage_cost(costs_, context_.graph, ops, samples, device_).workspace_bytes;
    }
    return at->second;
  }
  std::int64_t saved_bytes(const Action& action) { return task_bytes(action).saved; }
  std::int64_t workspace_bytes(const Action& action) { return task_bytes(action).workspace; }

  void report(FaultList& faults) const {
    std::vector<int> stages;
    for (const Placement& own : context_.placed[rank_.index()]) stages.push_back(own.stage.value);
    const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
    faults.add(
        "V5", fmt::format("rank {}, action {}: {}", rank_.value, peak_position_, memory_.peak_at),
        fmt::format("stage {} needs {} on device {}, a {} with {}: {} are missing ({} of it are "
                    "weights, gradients and optimiser state); use more devices, a smaller "
                    "micro-batch or fewer samples in flight",
                    fmt::join(stages, ", "), text(memory_.peak_bytes),
                    context_.schedule.ranks[rank_.index()].device.value, device_.name,
                    text(device_.memory_bytes), text(memory_.peak_bytes - device_.memory_bytes),
                    text(memory_.static_bytes)));
  }

  const VerifyContext& context_;
  RankId rank_;
  const DeviceType& device_;
  const CostModel& costs_;
  RankMemory memory_;
  std::int64_t now_ = 0;
  std::int64_t peak_position_ = 0;
  bool peak_moved_ = false;
  // Forward messages that have arrived, by the task that reads them.
  std::map<std::pair<StageId, std::int64_t>, std::int64_t> arrived_;
  std::map<std::pair<StageId, std::int64_t>, TaskBytes> sizes_;  // by stage and samples
};

}  // namespace

std::vector<RankMemory> verify_memory(const VerifyContext& context, const Cluster& cluster,
                                      const CostModel& costs, FaultList& faults) {
  std::vector<RankMemory> memory;
  for (std::size_t r = 0; r < context.schedule.ranks.size(); ++r) {
    memory.push_back(RankMemoryCount(context, RankId(r), cluster, costs).run(faults));
  }
  return memory;
}

}  // namespace graphpipe
