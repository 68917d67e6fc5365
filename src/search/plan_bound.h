// The lower bound that a plan is held against.

#pragma once

#include "cost/lower_bound.h"
#include "planners/planner.h"

namespace graphpipe {

// Over all plans within the problem's options, with several stages a device too; with
// backwards in halves where the plan has them, or else without.
LowerBound plan_lower_bound(const Problem& problem, ScheduleKind schedule);

}  // namespace graphpipe
