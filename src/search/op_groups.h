// Operators of a stage that may leave it together.

#pragma once

#include <vector>

#include "graph/graph.h"

namespace graphpipe {

using Ops = std::vector<OpId>;  // ascending

// Of each part of the stage that hangs together: each operator with all before it and with all
// after it, and the part itself; of large parts heads and tails of 1, 2, 4, ... operators. Each
// once, none of them the whole stage. Requires: `ops` ascending.
std::vector<Ops> groups_that_may_leave(const Graph& graph, const Ops& ops);

Ops without(const Ops& ops, const Ops& part);
Ops joined(const Ops& a, const Ops& b);

}  // namespace graphpipe
