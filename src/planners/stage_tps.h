// What planners hold plans against before anything is simulated.

#pragma once

#include <cstdint>
#include <vector>

#include "planners/cost_table.h"

namespace graphpipe {

// Time per sample of a stage that splits micro-batches of b samples over `width`
// devices: the larger of the compute of its share, forward and backward, slowed by cores
// that ranks share; and the time of its messages: the larger of the bytes that come in
// and that go out per micro-batch, of its share, over the cluster's worst link, and one
// latency. Each tensor that crosses the stage's border counts once forward and, where a
// gradient flows into it, once backward. Gradient reduction is once an iteration and
// outside. With `recompute` the forward counts again (Requires: the problem's options have it).
double stage_tps_s(CostTable& table, const std::vector<OpId>& ops, std::int64_t micro_batch,
                   int width, bool recompute = false);

// What the iteration can't be faster than: for each stage, the first micro-batch's way to
// it, its own work, and the last micro-batch's way back or its reduction; and the work of
// each node's ranks over the cores that they share. Transfers that overlap with work do not
// count. Costs a small part of a simulation, and is often nearly exact. Requires: no stage
// recomputes that the problem's options do not allow to.
double iteration_floor_s(CostTable& table, const Plan& plan);

// The same by stage, without what cores of a node share: what the iteration can't be faster
// than because of each.
std::vector<double> stage_floors_s(CostTable& table, const Plan& plan);

}  // namespace graphpipe
