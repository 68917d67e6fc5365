// From a compute-only schedule to one program a rank: every message, reduction, free
// and step in its place.
//
// Around a forward of stage s over samples X on a rank, in this order:
//   wait_receive  each forward message that carries a part of X (edges ascending, then
//                 samples ascending); after each, post_receive those of its edge that the
//                 window now reaches
//   F
//   free          the forward messages received: their tensors are among what F saved
//   start_send    each forward message that X gives rise to (same order); before a start
//                 that would exceed the edge's window, wait_send the oldest over it
//   free          what the forward saved, at once where nothing goes back
// Around a backward likewise, with backward messages, and afterwards
//   free          what the forward saved; the backward messages received
// Of a backward in halves, what goes before and the sends are the input half's, and the frees
// are the weight half's.
// A recompute reads what its forward kept, so nothing is around it; it stands before the backward's
// wait_receives, and may run while they are on the way. Post_receives of every edge's first window
// stand at the program's start. A channel is (edge, direction, pair of ranks); its messages are in
// the order of their samples on both sides. Between stages on the same rank there is no message:
// the value is the stage's that makes it, and what that saved is freed only after the last pass of
// every task on the rank that reads it. After a rank's last compute: start_reduce and wait_reduce
// of its buckets (parameters with more than one holder), wait_send of what is on the way, step.

#pragma once

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Requires: a valid compute-only schedule of the plan.
Schedule lower(const Schedule& schedule, const Plan& plan, const Graph& graph);

}  // namespace graphpipe
