// Which gradients are summed together: parameters with the same holders, up to a size.

#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Sums of a rank's buckets that are on the way at a time.
inline constexpr std::size_t kReductionsOnTheWay = 2;

// One bucket for parameters of one type that the same ranks hold, more where they are
// large. In the order in which a backward finishes their gradients: those of the last
// operators first, within a bucket too. Parameters with one holder are in none.
std::vector<Bucket> reduction_buckets(const Plan& plan, const Graph& graph);

}  // namespace graphpipe
