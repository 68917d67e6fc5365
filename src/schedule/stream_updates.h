// The steps of an asynchronous pipeline, and the versions of its weights.
//
//   chain of two, I = 2, 1, stash:
//     0: .. 0B3 {drop 2, make 3, step} 0F5 ..    version 3 is what 0F4 has seen, and 0B4 needs
//     1: .. 1B3 {step} 1F4 ..

#pragma once

#include "graph/graph.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Behind the backward that ends a mini-batch, once its gradients are sent: a step of the stage's
// parameters, before it, where the version that it replaces is used again, a make_version of
// that; and behind the last backward that uses a version a drop_version of it. Their micro_batch is
// the version's name (plan/weight_versions.h; a step's, what it makes), their samples are the
// backward's. Requires: a lowered schedule that trains, of an asynchronous plan.
void add_stream_updates(Schedule& schedule, const Plan& plan, const Graph& graph);

}  // namespace graphpipe
