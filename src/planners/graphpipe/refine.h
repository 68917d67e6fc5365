// Single operators moved between the stages of a strategy, where that makes the slowest
// stage faster.
//
// The search's stages are runs of lines, whole branches and what rides with them. Where a
// device holds only few operators that is coarse, and where the tree imposes an order
// that the graph does not have, too. From such a strategy hill climbing goes on over all
// convex partitions: it moves an operator of the slowest stage to another stage or a new
// one, swaps it for another, or gives the stage other devices, as long as the stages that
// change become faster than it was.

#pragma once

#include <vector>

#include "planners/graphpipe/target_search.h"

namespace graphpipe {

// Stages stay convex and their graph acyclic, memory fits, and no more devices are used
// than there are. Spans are runs of positions; levels are those of the stage graph.
std::vector<StageDraft> refine_stages(SearchContext& context, const StageCosts& costs,
                                      const std::vector<StageDraft>& stages);

}  // namespace graphpipe
