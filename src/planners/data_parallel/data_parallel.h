// Data parallelism: one stage with every operator, on every device. One micro-batch is in
// flight, so running forwards again would save nothing, and is never proposed.

#pragma once

#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_data_parallel(const Problem& problem, const Budget& budget);

}  // namespace graphpipe
