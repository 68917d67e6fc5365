// Samples in flight beyond the least: they hide transfers (docs/papers.md).

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/plan.h"

namespace graphpipe {

// [stage]: as least_in_flight() has it, with so many micro-batches a hop in place of one (1: the
// least itself). Requires: stages in an order in which they can run, edges sorted.
std::vector<std::int64_t> in_flight_by_hops(const Plan& plan, std::int64_t hops);

// Gives the plan's stages these samples in flight, at most the mini-batch; in a stream whole
// rounds of the replicas.
void set_in_flight(Plan& plan, const std::vector<std::int64_t>& samples);

// Lowers in-flight samples by whole micro-batches, as little as needed and down to `least` at
// most, until each stage fits; and then where a stage would have more than one that feeds it
// allows: it would wait for forwards that never come.
void lower_in_flight(Plan& plan, const std::vector<std::int64_t>& least,
                     const std::function<bool(const Plan&, StageId)>& fits);

}  // namespace graphpipe
