// Data parallelism: one stage with every operator, on every device.

#pragma once

#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_data_parallel(const Problem& problem, const Budget& budget);

}  // namespace graphpipe
