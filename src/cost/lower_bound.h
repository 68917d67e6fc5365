// What no plan within the options can beat. Each term is proved in docs/lower_bound.md.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/cost_model.h"

namespace graphpipe {

// What plans may do. Recomputation, several stages a device and round robin may always be.
struct BoundRules {
  std::int64_t mini_batch = 1;
  std::vector<std::int64_t> micro_batches;  // to choose from, at least one, each stage its own
  int max_width = 1;                        // the largest number of devices a stage may have
  bool halves = false;                      // backwards may be cut in halves (zb-h1)
  // [param]: what a device that holds it keeps: value, gradient, optimiser's state. Empty:
  // memory is not considered.
  std::vector<std::int64_t> param_bytes;
};

struct LowerBound {
  double seconds = 0;  // of an iteration
  std::string why;     // the term that is largest: "work over devices", "forwards and reductions
                       // over devices", "slowest operator", "critical path", "work and path"
};

// Requires: reduce_s() grows with its bytes in proportion, but for latencies. Costs of
// operators are asked once for those that are equal by op_signature() and at two sizes.
LowerBound iteration_lower_bound(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                 const BoundRules& rules);

}  // namespace graphpipe
