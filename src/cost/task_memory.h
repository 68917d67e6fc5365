// What a task of a stage holds: what is kept from its forward to its backward, and what it takes
// beside that while it runs: an operator's workspace, tensors that no backward needs until
// their last reader has run, and the gradients that wait between operators while the backward
// goes through them. Tensors end as they are used, so a backward near its end holds less of
// what was kept; both are counted.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cost/cost_model.h"

namespace graphpipe {

// At the worst operator. The operators run in their order, backwards in the reverse of it.
struct TaskMemory {
  // From the forward's end to the backward: of what the stage reads, what has a gradient or a
  // backward needs; of what it makes, what a backward needs, what leaves the stage, losses and
  // metrics; and what operators keep beside.
  std::int64_t saved_bytes = 0;
  std::int64_t forward_bytes = 0;        // beyond all that
  std::int64_t backward_bytes = 0;       // likewise; the gradients that enter the stage left out
  std::vector<std::int64_t> rest_bytes;  // [operator]: of the backward, once it has been through it
  // From the backward's end on, in place of all that was saved: the gradients of what the
  // stage reads.
  std::int64_t input_gradient_bytes = 0;
  // Of a backward in halves, nothing of what was saved ends before the second.
  std::int64_t input_half_bytes = 0;
  // What its first half leaves to its second: the gradients of the outputs of operators that
  // have parameters.
  std::int64_t seed_bytes = 0;
  std::int64_t weight_half_bytes = 0;
};

// `needs`: needs_gradient(graph); `leaving`: tensors that others read too. The gradient of a
// parameter waits too, from the last of its operators in the stage to the first. `in_halves`: each
// operator's halves run by themselves, and all that has a gradient is kept for them.
// Requires: `ops` and `leaving` ascending.
TaskMemory task_memory(const CostModel& costs, const Graph& graph, const std::vector<bool>& needs,
                       const std::vector<OpId>& ops, const std::vector<TensorId>& leaving,
                       std::int64_t samples, const DeviceType& device, bool in_halves = false);

// The same for callers that ask often about sets of operators that come again: what was worked out
// is kept, up to a fixed amount. Without rest_bytes.
class TaskMemories {
 public:
  // All must outlive it; the devices that it is asked for too.
  TaskMemories(const CostModel& costs, const Graph& graph, const std::vector<bool>& needs)
      : costs_(costs), graph_(graph), needs_(needs) {}
  // Valid until the next call.
  const TaskMemory& of(const std::vector<OpId>& ops, const std::vector<TensorId>& leaving,
                       std::int64_t samples, const DeviceType& device, bool in_halves);

 private:
  struct Task {
    std::vector<OpId> ops;
    std::vector<TensorId> leaving;
    std::int64_t samples = 0;
    const DeviceType* device = nullptr;
    bool in_halves = false;
    friend bool operator==(const Task&, const Task&) = default;
  };
  struct Hash {
    std::size_t operator()(const Task& task) const;
  };

  const CostModel& costs_;
  const Graph& graph_;
  const std::vector<bool>& needs_;
  std::unordered_map<Task, TaskMemory, Hash> known_;
  std::size_t kept_ops_ = 0;  // of all that is known
};

// Of what the stage reads and does not make, what is kept, ascending.
std::vector<TensorId> kept_inputs(const CostModel& costs, const Graph& graph,
                                  const std::vector<bool>& needs, const std::vector<OpId>& ops,
                                  const DeviceType& device);

// Upper bounds for planners, which sum over stages that they do not look into. Of what a task
// takes beside what is saved: of a stage the largest worst_bytes, and of all its operators
// beside_bytes, and the tensors that leave it. Proof: a gradient that waits was made by a later
// operator, whose outputs have ended with it, unless they leave the stage or were not kept; the
// sum over operators of what the first is larger than the second bounds what all the waiting
// gradients add. Tensors that are not kept count as if none ended.
struct OpTaskMemory {
  std::int64_t worst_bytes = 0;
  std::int64_t beside_bytes = 0;
};

// What bounds and sums ask of the graph as a whole.
struct TrainingFacts {
  std::vector<bool> needs;    // [tensor]: needs_gradient()
  std::vector<bool> kept;     // [tensor]: any backward needs it
  std::vector<bool> watched;  // [tensor]: a loss or a metric
  std::vector<bool> tied;     // [parameter]: trainable, and held by several operators
};
TrainingFacts training_facts(const CostModel& costs, const Graph& graph, const DeviceType& device);

OpTaskMemory op_task_memory(const Graph& graph, const TrainingFacts& facts, OpId op,
                            std::int64_t samples, const OpCost& forward, const OpCost& backward);

}  // namespace graphpipe
