// Questions about the order that dependencies impose on operators.

#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

// Operators that must run before (after) each operator: direct ones, ascending,
// without repeats. Indexed by OpId.
std::vector<std::vector<OpId>> op_predecessors(const Graph& graph);
std::vector<std::vector<OpId>> op_successors(const Graph& graph);

// For each operator, the set of operators that it reaches through one dependency or
// more, as bits. O(ops * dependencies / 64) time, ops^2 / 8 bytes.
class Reachability {
 public:
  explicit Reachability(const Graph& graph);
  bool reaches(OpId from, OpId to) const {
    return (bits_[from.index() * words_ + to.index() / 64] >> (to.index() % 64)) & 1U;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

// Whether no path leaves the set and comes back. `ops` may be in any order.
// O(operators + dependencies).
bool is_convex(const Graph& graph, const std::vector<OpId>& ops);

}  // namespace graphpipe
