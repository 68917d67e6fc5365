// GPipe: contiguous stages of equal cost, all forwards before all backwards.

#pragma once

#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_gpipe(const Problem& problem, const Budget& budget);

}  // namespace graphpipe
