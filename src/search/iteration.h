// What a search judges plans by: an iteration, or, where plans are asynchronous, a stream of
// problem.mini_batch samples, which is many of their mini-batches.

#pragma once

#include "planners/planner.h"
#include "schedule/trace.h"

namespace graphpipe {

// A plan of the search as it is to run: that of a stream has its own mini-batch again.
Plan as_run(Plan plan, const Problem& problem);

// Of problem.mini_batch samples, the filling and the draining of the pipeline included.
Trace simulate_iteration(const Plan& plan, const Problem& problem);

}  // namespace graphpipe
