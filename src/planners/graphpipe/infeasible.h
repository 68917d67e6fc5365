// Why nothing fits, and what would.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/series_parallel.h"
#include "planners/cost_table.h"
#include "planners/graphpipe/stage_costs.h"

namespace graphpipe {

// Whether the planner has a plan for a problem.
using HasPlan = std::function<bool(const Problem&)>;

// Requires: no strategy fits within the rules, at any of the micro-batch sizes.
std::string why_infeasible(CostTable& table, const SpTree& tree, const SearchRules& rules,
                           const std::vector<std::int64_t>& micro_batches, const HasPlan& has_plan);

}  // namespace graphpipe
