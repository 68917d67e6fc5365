// PipeDream (Harlap et al. 2018; Narayanan et al., SOSP 2019) on any graph: its partition, of both
// variants, at every micro-batch size, proposed as synchronous plans.

#pragma once

#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_pipedream(const Problem& problem, const Budget& budget);

}  // namespace graphpipe
