// What the runtime does not do (yet) is refused here, before anything starts: by the
// launching program, and again by each rank.

#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

namespace graphpipe {

// Throws InputError("plan: /stages/3", ...) for stages on several devices, recomputation,
// and parameters that several stages hold. Requires: a valid plan of the graph.
void check_supported(const Plan& plan, const Graph& graph);

}  // namespace graphpipe
