// Which parameters a training step changes, and who holds them.

#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace graphpipe {

// A parameter that training changes: trainable, and of an operator through which a
// gradient flows.
struct ParamHolders {
  ParamId param;
  std::vector<StageId> stages;    // ascending: those with an operator that reads it
  std::vector<DeviceId> devices;  // ascending: of those stages
};

std::vector<ParamHolders> trained_params(const Plan& plan, const Graph& graph);

// [stage]: whether it holds one, and so has a step.
std::vector<bool> stages_with_trained_params(const Plan& plan, const Graph& graph);

// [stage]: bytes of those that no other stage reads. `needs`: needs_gradient(graph).
std::vector<std::int64_t> trained_bytes_of_one_stage(const Plan& plan, const Graph& graph,
                                                     const std::vector<bool>& needs);

}  // namespace graphpipe
