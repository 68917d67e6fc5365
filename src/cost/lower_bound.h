// What no plan within the options can beat. Each term is proved in lower_bound.cc.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/cost_model.h"

namespace graphpipe {

struct LowerBound {
  double seconds = 0;  // of an iteration
  std::string why;     // the term that is largest: "work over devices", ...
};

// `micro_batches` are the sizes a plan may use (at least one), each stage its own;
// `max_width` the largest number of devices a stage may have.
LowerBound iteration_lower_bound(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                 std::int64_t mini_batch,
                                 const std::vector<std::int64_t>& micro_batches, int max_width);

}  // namespace graphpipe
