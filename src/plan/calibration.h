// What a run measured, fed back into the profile that it was planned with.

#pragma once

#include <vector>

#include "cluster/cluster.h"
#include "cost/profile.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace graphpipe {

// Seconds that the costs give a replica of the stage inside operators in an iteration, with a
// core to itself.
double operators_s(const Plan& plan, StageId stage, const Graph& graph, const Cluster& cluster,
                   const CostModel& costs);

// The profile with the calibration of each entry that the plan's operators have multiplied by
// measured over predicted (operators_s) of the stages that they are in; where there are several,
// by the mean of these weighed by what the operators take in each. Where no signature stands in
// several stages, the stages' sums then are what was measured. `measured_s`: [stage of the plan],
// inside operators; what is 0 was not measured, and changes nothing.
Profile calibrated_profile(const Profile& profile, const Plan& plan, const Graph& graph,
                           const Cluster& cluster, const std::vector<double>& measured_s);

}  // namespace graphpipe
