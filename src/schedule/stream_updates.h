// The steps of an asynchronous pipeline, the reductions before them, and the versions of its
// weights.
//
//   chain of two, I = 2, 1, stash:
//     0: .. 0B3 {drop 2, make 3, step} 0F5 ..    version 3 is what 0F4 has seen, and 0B4 needs
//     1: .. 1B3 {step} 1F4 ..
//
//   two replicas in turn, one of each micro-batch in flight:
//     0: 0F0  0B0 {sum, step to v2}  0F2  0B2 {sum, step to v4} ..
//     1: 0F1  0B1 {sum, step to v2}  0F3  0B3 {sum, step to v4} ..

#pragma once

#include "graph/graph.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Behind a replica's last backward of a step, once its gradients are sent: the sums of gradients
// over the stage's replicas and a step of its parameters, before that, where the version that
// it replaces is used again, a make_version of that; and behind the last backward that uses a
// version a drop_version of it. Their micro_batch is the version's name
// (plan/weight_versions.h; a sum's and a step's, what it makes), their samples are those of the
// last micro-batch that it contains. A replica that a short stream leaves without work takes part
// in the steps. Requires: a lowered schedule that trains, of an asynchronous plan.
void add_stream_updates(Schedule& schedule, const Plan& plan, const Graph& graph);

}  // namespace graphpipe
