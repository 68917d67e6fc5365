// DAPPLE (Fan et al., PPoPP 2021): a synchronous chain of replicated stages with the shortest
// iteration.

#pragma once

#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_dapple(const Problem& problem, const Budget& budget);

}  // namespace graphpipe
