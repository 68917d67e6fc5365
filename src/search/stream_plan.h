// Plans of asynchronous pipelines, by planners that know synchronous ones: over a long stream
// without a flush the shortest iteration is the highest steady throughput.

#pragma once

#include "planners/planner.h"
#include "search/search.h"

namespace graphpipe {

// A plan of this policy: the planner's fastest over a stream of kStreamMiniBatches of the problem's
// mini-batches, with the policy's steps, the versions of weights in memory and replicas that take
// turns. Samples in flight are chosen again: no more than make it faster, so that weights are
// young. Its iteration_s is what a mini-batch takes in the steady state, and there is no lower
// bound. Micro-batches are mini-batches; of 2BW they have options.micro_batches[0] samples.
// Requires: an asynchronous policy; of 2BW one size that divides the mini-batch.
SearchResult search_stream_plan(const Planner& planner, const Problem& problem, WeightPolicy policy,
                                const SearchControl& control = {});

inline constexpr std::int64_t kStreamMiniBatches = 64;

}  // namespace graphpipe
