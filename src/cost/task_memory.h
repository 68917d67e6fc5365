// What a task takes beside what its stage saves: an operator's workspace, and the gradients
// that wait between operators while the backward goes through them. Tensors end as they are
// used, so a backward near its end holds less of what was saved; both are counted.

#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost_model.h"

namespace graphpipe {

// At the worst operator, beyond stage_saved_bytes() of the same samples. The operators run in
// their order, backwards in the reverse of it.
struct TaskMemory {
  std::int64_t forward_bytes = 0;
  std::int64_t backward_bytes = 0;  // the gradients that enter the stage by itself left out
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
// parameter waits too, from the last of its operators in the stage to the first. Requires: `ops`
// and `leaving` ascending.
TaskMemory task_memory(const CostModel& costs, const Graph& graph, const std::vector<bool>& needs,
                       const std::vector<OpId>& ops, const std::vector<TensorId>& leaving,
                       std::int64_t samples, const DeviceType& device);

// An upper bound of the first two for planners, which sum over stages that they do not look
// into: of a stage the largest worst_bytes, and of all its operators kept_bytes, and the
// tensors that leave it. Proof: a gradient that waits was made by a later operator, whose
// outputs have ended with it, unless they leave the stage; the sum over operators of what the
// first is larger than the second bounds what all the waiting gradients add. `tied`:
// tied_params(graph).
struct OpTaskMemory {
  std::int64_t worst_bytes = 0;
  std::int64_t kept_bytes = 0;
};
OpTaskMemory op_task_memory(const Graph& graph, const std::vector<bool>& needs,
                            const std::vector<bool>& tied, OpId op, std::int64_t samples,
                            const OpCost& forward, const OpCost& backward);

// [parameter]: trainable, and held by several operators.
std::vector<bool> tied_params(const Graph& graph);

}  // namespace graphpipe
