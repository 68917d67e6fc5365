// Piper (Tarnawski et al., NeurIPS 2021) on any graph: its partition at every micro-batch size,
// proposed as plans. Tensor-parallel degrees are for its own inputs: plans have none yet.

#pragma once

#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_piper(const Problem& problem, const Budget& budget);

}  // namespace graphpipe
