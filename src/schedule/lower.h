// From a compute-only schedule to one program a rank: every message, reduction, free
// and step in its place.
//
// Around a forward of stage s over samples X on a rank, in this order:
//   wait_receive  each forward message that carries a part of X (edges ascending, then
//                 samples ascending); after each, post_receive the next of its channel
//   F
//   start_send    each forward message that X gives rise to (same order); before a start
//                 that would exceed the channel's window, wait_send its oldest
//   free          what the forward saved and received, at once where nothing goes back
// Around a backward likewise, with backward messages, and afterwards
//   free          what the forward saved; the forward and backward messages received
// Post_receives of a channel's first window stand at the program's start. A channel is
// (edge, direction, pair of ranks); its messages are in the order of their samples on
// both sides. Between stages on the same rank there is no message. After a rank's last
// backward of the stage: start_reduce and wait_reduce of its buckets (where a parameter
// has more than one holder), wait_send of what is on the way, step.

#pragma once

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Requires: a valid compute-only schedule of the plan.
Schedule lower(const Schedule& schedule, const Plan& plan, const Graph& graph);

}  // namespace graphpipe
