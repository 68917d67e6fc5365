// The inter-operator pass of Alpa (Zheng et al., OSDI 2022): a chain of stages on sub-meshes that
// fill the cluster, with the shortest iteration.

#pragma once

#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_alpa(const Problem& problem, const Budget& budget);

}  // namespace graphpipe
