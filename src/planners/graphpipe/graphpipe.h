// The graph planner: Jeon et al., "GraphPipe", ASPLOS 2025, as docs/papers.md has it.
//
// The series-parallel tree of the graph is searched for the least time per sample of the
// slowest stage, for every micro-batch size; plans at that target and at larger ones with
// fewer levels are proposed, each with several in-flight counts where messages take long.

#pragma once

#include <optional>

#include "planners/graphpipe/stage_costs.h"
#include "planners/planner.h"

namespace graphpipe {

PlanResult plan_graphpipe(const Problem& problem, const Budget& budget);

// The least target at one micro-batch size, exactly, within the rules; none: no strategy
// fits. For tests that hold the search against plain enumeration.
std::optional<double> least_target_s(const Problem& problem, std::int64_t micro_batch,
                                     const SearchRules& rules);

// The least target among the strategies that the planner makes plans of: after refinement.
std::optional<double> least_refined_target_s(const Problem& problem, std::int64_t micro_batch,
                                             const SearchRules& rules);

}  // namespace graphpipe
