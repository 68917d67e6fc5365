// The states over which PipeDream's partition runs: growing downsets of a graph.

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "planners/pipedream/partition.h"

namespace graphpipe {

struct PipedreamOp {
  double compute_s = 0;  // forward and backward
  double activation_bytes = 0;
  double parameter_bytes = 0;
};

struct PipedreamStateSpace {
  PipedreamStates states;
  std::vector<std::vector<int>> ops;  // [state]: its operators, ascending
  bool complete = true;               // false: there are more than were asked for
};

// As the public optimiser makes them: antichains from the operator `source` on; what replaces a
// member is one of its successors, with all that it depends on. With one source these are all
// non-empty downsets. Sorted by the number of operators; ties as they were met. `successors` of an
// acyclic graph; a cut's bytes are the outputs that are still read.
PipedreamStateSpace antichain_states(const std::vector<PipedreamOp>& ops,
                                     const std::vector<std::vector<int>>& successors, int source,
                                     std::size_t most,
                                     const std::function<bool()>& should_stop = {});

// The prefixes of a running order, given as operators.
PipedreamStateSpace prefix_states(const std::vector<PipedreamOp>& ops,
                                  const std::vector<std::vector<int>>& successors,
                                  const std::vector<int>& order);

}  // namespace graphpipe
