// The end of training programs: gradients are summed over their holders, then stepped.
//
// A bucket's sum starts as soon as the last backward has made its gradients, while that
// backward goes on through the stage's earlier operators (lessons of data-parallel training: Li
// et al., "PyTorch Distributed", VLDB 2020); what is left when it has ended goes on beside
// the last messages. Two buckets are on the way at a time. All ranks take buckets in one order,
// so each ends.

#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Adds buckets, reductions and steps to lowered programs without them. last_sends[r]: how many
// wait_sends end rank r's program; reductions stand before them, so that both are on the way
// together. Where a rank's last backward stands in the period, its last repetition moves to
// the epilogues.
//
// Reductions within a backward are those of ranks that run one stage whose backwards are whole;
// within it they are waited for where the stage's replicas alone hold the parameters and
// split each micro-batch. Elsewhere a rank could wait there for one that waits for what this
// one is yet to send.
void add_updates(Schedule& schedule, const std::vector<std::ptrdiff_t>& last_sends,
                 const Plan& plan, const Graph& graph);

}  // namespace graphpipe
