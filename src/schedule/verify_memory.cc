// V5: what each rank holds at its worst time, by its own program alone: a buffer exists
// from the rank's own post or start, whatever the peer does. See verify.h for what counts.

#include <fmt/ranges.h>

#include "base/text.h"
#include "schedule/memory_rule.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

class RankMemoryCount {
 public:
  RankMemoryCount(const VerifyContext& context, RankId rank, const Cluster& cluster,
                  const CostModel& costs, const std::shared_ptr<MemoryFacts>& facts)
      : context_(context),
        rank_(rank),
        device_(cluster.type_of(context.schedule.ranks[rank.index()].device)),
        rule_(context.schedule, context.plan, context.graph, cluster, costs, rank, facts) {}

  RankMemory run(FaultList& faults) {
    memory_.static_bytes = rule_.static_bytes();
    memory_.peak_bytes = memory_.static_bytes;
    memory_.peak_at = "the start";
    std::int64_t now = memory_.static_bytes;
    for (ActionCursor at(context_.schedule, context_.plan, rank_); !at.done(); at.next()) {
      const MemoryEffect effect = rule_.of(at.action());
      now += effect.held_bytes;
      if (now + effect.task_bytes <= memory_.peak_bytes) continue;
      memory_.peak_bytes = now + effect.task_bytes;
      memory_.peak_at = to_text(at.action(), context_.plan);
      peak_position_ = at.position();
    }
    if (memory_.peak_bytes > device_.memory_bytes) report(faults);
    return memory_;
  }

 private:
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
  MemoryRule rule_;
  RankMemory memory_;
  std::int64_t peak_position_ = 0;
};

}  // namespace

std::vector<RankMemory> verify_memory(const VerifyContext& context, const Cluster& cluster,
                                      const CostModel& costs, FaultList& faults) {
  const auto facts =
      std::make_shared<MemoryFacts>(context.schedule, context.plan, context.graph, costs);
  std::vector<RankMemory> memory;
  for (std::size_t r = 0; r < context.schedule.ranks.size(); ++r) {
    memory.push_back(RankMemoryCount(context, RankId(r), cluster, costs, facts).run(faults));
  }
  return memory;
}

}  // namespace graphpipe
