// Compute-only schedules from plans. The order is static: on every stage W = min(I / b,
// number of micro-batches) warm-up forwards, then k backwards and k forwards in turn,
// then the remaining backwards. Kind zb-h1 splits backwards: the input half in the backward's
// place, the weight half as much later as samples in flight allow. Plans in which a rank holds
// several stages have one order a rank over the tasks of all of its stages (list_order.h), and no
// period.

#pragma once

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace graphpipe {

// One training iteration over `samples` samples (the plan's mini-batch, or fewer: a
// short last batch). Total in the plan and the number of samples: any M >= 1, M below
// the depth included. Takes plan.schedule. Has a period where there are enough
// micro-batches for one.
//   S7  what is written out, without repetitions of the period, has at most 2^21 forwards
// Throws InputError("the schedule", "S7: ...").
Schedule build_schedule(const Plan& plan, const Graph& graph, std::int64_t samples);

// Forwards only, for evaluation. Throws likewise.
Schedule build_forward_schedule(const Plan& plan, const Graph& graph, std::int64_t samples);

}  // namespace graphpipe
