// The optimal contiguous throughput partition (Tarnawski et al., NeurIPS 2020) on any graph: one
// device a stage, at every micro-batch size.

#pragma once

#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_max_load(const Problem& problem, const Budget& budget);

}  // namespace graphpipe
