// What actions do to the bytes that their rank holds: the rule that verify.h states, for
// the verifier and for the simulator.

#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cost/cost_model.h"
#include "plan/stage_memory.h"
#include "schedule/local_values.h"
#include "schedule/schedule.h"

namespace graphpipe {

struct MemoryEffect {
  std::int64_t held_bytes = 0;  // from the action's start on
  std::int64_t task_bytes = 0;  // beside them, while the action runs
};

class MemoryRule {
 public:
  // What the references name must outlive the rule.
  MemoryRule(const Schedule& schedule, const Plan& plan, const Graph& graph, const Cluster& cluster,
             const CostModel& costs, RankId rank);

  // Weights, gradients and optimiser state; weights alone where nothing is trained.
  std::int64_t static_bytes() const { return static_bytes_; }

  // Asked for the rank's actions in their order. Of a period that repeats, once will do if
  // a forward has its messages from its own section.
  MemoryEffect of(const Action& action);

 private:
  struct TaskBytes {
    std::int64_t saved = 0;    // by a whole forward
    std::int64_t kept = 0;     // of these, from the forward on: all, or the inputs alone
    std::int64_t outputs = 0;  // tensors that leave the stage, where they are not kept
    std::int64_t workspace = 0;
  };
  const TaskBytes& task_bytes(StageId stage, std::int64_t samples);
  const TaskBytes& task_bytes(const Action& action) {
    return task_bytes(action.stage, action.samples.size());
  }
  std::int64_t outputs_bytes(StageId stage, std::int64_t samples) const;
  std::int64_t shared_bytes(const Action& task) const;
  std::int64_t given_bytes(const Action& task) const;
  std::int64_t taken_bytes(const Action& task) const;
  MemoryEffect of_send(const Action& send);
  ReductionMemory reduction(const Action& action) const;
  // Forward messages of the task: from its end on among what it saved.
  std::int64_t take_arrived(const Action& task);

  const Plan& plan_;
  const Graph& graph_;
  const CostModel& costs_;
  const DeviceType& device_;
  const std::vector<Bucket>& buckets_;
  LocalValues local_;
  std::int64_t samples_;         // of the schedule
  std::vector<bool> recompute_;  // [stage]: in this schedule
  std::int64_t static_bytes_ = 0;
  std::map<StageId, std::int64_t> step_bytes_;
  std::map<std::pair<StageId, std::int64_t>, std::int64_t> arrived_;  // by stage, micro-batch
  std::map<std::pair<StageId, std::int64_t>, TaskBytes> task_bytes_;  // by stage, samples
};

}  // namespace graphpipe
