// Which parameters a training step changes, and who holds them.

#pragma once

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

}  // namespace graphpipe
