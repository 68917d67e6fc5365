// What actions do to the bytes that their rank holds: the rule that verify.h states, for
// the verifier and for the simulator.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "cost/task_memory.h"
#include "plan/stage_memory.h"
#include "schedule/local_values.h"
#include "schedule/schedule.h"

namespace graphpipe {

struct MemoryEffect {
  std::int64_t held_bytes = 0;  // more, or less, when the action has ended
  std::int64_t task_bytes = 0;  // beside what is then held, while it runs
};

// What the rules of all ranks ask of a schedule; what costs time to know is asked once for all
// ranks that are alike.
class MemoryFacts {
 public:
  // What the references name must outlive it.
  MemoryFacts(const Schedule& schedule, const Plan& plan, const Graph& graph,
              const CostModel& costs);
  std::vector<bool> needs;          // [tensor]: needs_gradient()
  std::vector<bool> backward;       // [stage]: in this schedule
  std::vector<bool> edge_backward;  // [edge]
  std::vector<bool> recompute;      // [stage]: in this schedule

  struct TaskBytes {
    std::int64_t saved = 0;  // by a whole forward
    std::int64_t kept = 0;   // of these, from the forward on: all, or the inputs alone
    // Tensors that leave the stage, losses and metrics, where they are not kept.
    std::int64_t results = 0;
    TaskMemory beside;
  };
  const TaskBytes& task_bytes(StageId stage, std::int64_t samples, const DeviceType& device);
  // Of the stage's inputs those that are kept, ascending.
  const std::vector<TensorId>& kept_inputs(StageId stage, const DeviceType& device);
  // Of one stage alone.
  const StageMemory& static_memory(StageId stage);

 private:
  std::int64_t outputs_bytes(StageId stage, std::int64_t samples) const;
  std::int64_t watched_bytes(StageId stage, std::int64_t samples) const;

  const Plan& plan_;
  const Graph& graph_;
  const CostModel& costs_;
  std::map<std::tuple<StageId, std::int64_t, const DeviceType*>, TaskBytes> task_bytes_;
  std::map<std::pair<StageId, const DeviceType*>, std::vector<TensorId>> kept_inputs_;
  std::map<StageId, StageMemory> static_memory_;
};

class MemoryRule {
 public:
  // What the references name must outlive the rule. `facts`: of the schedule, for callers that
  // ask for many ranks.
  MemoryRule(const Schedule& schedule, const Plan& plan, const Graph& graph, const Cluster& cluster,
             const CostModel& costs, RankId rank, std::shared_ptr<MemoryFacts> facts = nullptr);

  // Weights, gradients and optimiser state; weights alone where nothing is trained.
  std::int64_t static_bytes() const { return static_bytes_; }

  MemoryEffect of(const Action& action);

 private:
  using TaskBytes = MemoryFacts::TaskBytes;
  const TaskBytes& task_bytes(StageId stage, std::int64_t samples) const {
    return facts_->task_bytes(stage, samples, device_);
  }
  const TaskBytes& task_bytes(const Action& action) const {
    return task_bytes(action.stage, action.samples.size());
  }
  // The forward messages of a task. One that brings all its samples is itself what is kept of
  // its tensors; of others they are copied.
  struct Arrived {
    std::int64_t kept = 0;     // messages
    std::int64_t tensors = 0;  // in these
    std::int64_t copied = 0;   // messages
  };
  Arrived arrived(const Action& task) const;
  bool is_kept_input(StageId stage, TensorId tensor) const;
  // From the forward's end on.
  std::int64_t held_bytes(const Action& task, const Arrived& in);
  std::int64_t gathered_bytes(const Action& task) const;
  std::int64_t after_backward_bytes(const Action& task);
  MemoryEffect of_backward(const Action& task);
  std::int64_t results_bytes(const Action& message);
  std::int64_t shared_bytes(const Action& task) const;
  std::int64_t given_bytes(const Action& task) const;
  std::int64_t taken_bytes(const Action& task) const;
  MemoryEffect of_send(const Action& send);
  MemoryEffect of_free(const Action& free);
  ReductionMemory reduction(const Action& action) const;
  // What the reductions within the rank's last backward add to it.
  struct Within {
    struct Step {
      OpId after;
      std::int64_t bytes = 0;  // at most, from there to the next
    };
    std::vector<Step> steps = {};
    std::int64_t held = 0;  // when it has ended
  };
  StageMemory memory_of_all(const std::vector<StageId>& stages) const;
  void add_within(const Action& reduction);
  std::int64_t during_backward_bytes(const Action& task, const Within& within);

  const Plan& plan_;
  const Graph& graph_;
  const DeviceType& device_;
  const std::vector<Bucket>& buckets_;
  LocalValues local_;
  std::int64_t samples_;  // of the schedule
  DeviceId rank_device_;
  std::map<std::pair<StageId, std::int64_t>, Within> within_;  // by (stage, micro-batch)
  std::shared_ptr<MemoryFacts> facts_;
  std::int64_t static_bytes_ = 0;
};

}  // namespace graphpipe
