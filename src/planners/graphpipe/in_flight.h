// Samples in flight beyond the least: they hide transfers (docs/papers.md).

#pragma once

#include <vector>

#include "planners/graphpipe/plan_memory.h"

namespace graphpipe {

// The plan itself, with its least in-flight samples, and where messages take long beside
// tasks, copies with more, capped by memory: two and three micro-batches a hop, and twice
// the least. None where the plan itself does not fit. Requires: all stages have one
// micro-batch size.
std::vector<Plan> with_in_flight(const Plan& plan, CostTable& table, const PlanMemory& memory);

}  // namespace graphpipe
