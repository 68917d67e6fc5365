// Predicted against measured, per stage and for the whole iteration. Without libtorch.

#pragma once

#include <vector>

#include "cluster/cluster.h"
#include "cost/cost_model.h"
#include "job/train_lines.h"
#include "plan/plan.h"
#include "runtime/iteration_totals.h"

namespace graphpipe {

// Seconds that the busiest rank of each stage computes in an iteration over a full
// mini-batch, by these costs. Indexed by stage.
std::vector<double> predicted_compute_s(const Plan& plan, const Graph& graph,
                                        const Cluster& cluster, const CostModel& costs);

// Peak memory of the fullest rank of each stage, as the verifier counts it. Indexed by
// stage.
std::vector<std::int64_t> predicted_peak_bytes(const Plan& plan, const Graph& graph,
                                               const Cluster& cluster, const CostModel& costs);

// Fills the fields of `line` that tell of times and memory. `ranks` is indexed by rank of
// the plan's schedule.
void report_measurements(const Plan& plan, const Graph& graph, const Cluster& cluster,
                         const CostModel& costs, const std::vector<IterationTotals>& ranks,
                         DoneLine& line);

}  // namespace graphpipe
