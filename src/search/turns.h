// Replicas that take whole micro-batches in turn (1F1B-RR) in place of parts of each.

#pragma once

#include <vector>

#include "plan/plan.h"
#include "search/workbench.h"

namespace graphpipe {

// Whether replicas of some stage take turns.
bool takes_turns(const Plan& plan);

// The plan with the replicas of its wide stages taking turns: of micro-batches of about the share
// that each had, with the least, more, and all samples in flight. Those that fit and run; none
// where no stage is wide or replicas already take turns.
//
// What it is good for: a width that does not divide a micro-batch leaves no device waiting for a
// larger part, and other stages' tasks are shorter. The planner proposes such plans as well
// (SearchRules::turns), but the estimate of local steps knows of none (stage_estimate.h), so what
// those steps found is given turns at the end.
std::vector<Plan> plans_in_turns(Workbench& bench, const Plan& plan);

}  // namespace graphpipe
