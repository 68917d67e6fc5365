// Plans of the chain with the shortest iteration, for planners that differ in the widths.

#pragma once

#include <string>
#include <vector>

#include "planners/planner.h"

namespace graphpipe {

struct LatencyPlanner {
  std::string name;
  std::vector<int> widths;   // of a stage, ascending
  bool all_devices = false;  // every device is used
};

// At every micro-batch size that the widths can split; replicas split micro-batches.
PlanResult plan_latency_chain(const Problem& problem, const Budget& budget,
                              const LatencyPlanner& planner);

}  // namespace graphpipe
