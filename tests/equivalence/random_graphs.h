// Graphs that no model of the zoo looks like, by seed, in which at most two operators give a
// tensor its gradient (a sum of two does not depend on their order): several losses with weights,
// some in the middle; metrics in the middle; frozen parameters and whole frozen branches; integers
// that operators hand on; outputs that nothing reads; tied weights.

#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace graphpipe {

struct RandomGraphOptions {
  std::uint64_t seed = 1;
  bool tied = false;  // some linear layers share their weight
};

Graph random_graph(const RandomGraphOptions& options);

}  // namespace graphpipe
