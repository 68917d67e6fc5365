// The series-parallel tree of a graph: what the graph planner works on.
//
// Every operator is taken as an edge from its entry to its exit, every dependency as
// an edge that carries nothing, with a virtual source before the operators without
// predecessors and a virtual sink after those without successors (they cost nothing
// and impose nothing). Valdes, Tarjan and Lawler's reductions then give a tree in
// which each operator is one leaf: pieces are cut on edges between operators, never
// through one.
//
//     x -> fc -> relu -> add        Series( x, Parallel( Series( fc, relu ), Empty ), add )
//      \_________________/

#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct SpTree {
  enum class Kind { kOp, kEmpty, kSeries, kParallel };
  struct Node {
    Kind kind = Kind::kEmpty;
    OpId op;                    // kOp
    std::vector<int> children;  // kSeries: in order, source side first; kParallel: by
                                // their smallest operator, an empty branch last.
                                // A series has no series child, a parallel no parallel.
    std::vector<OpId> ops;      // all operators below, ascending
  };
  std::vector<Node> nodes;
  int root = -1;
  bool exact = true;  // false: the graph is not series-parallel, and an order that
                      // contains its dependencies stands in for it
  // What that order costs: pairs of operators that it orders and the graph does not.
  std::int64_t added_order = 0;
  // By which part of itself the longest path grows, in forward FLOPs.
  double stretch = 0;

  const Node& node(int i) const { return nodes[static_cast<std::size_t>(i)]; }
};

// Never fails. Dependencies that others imply do not spoil a reduction (the transitive
// reduction is taken first where the plain graph does not reduce), nor do operators that
// all have the same several successors. Where the graph is still not series-parallel,
// loose ends inside a piece (a loss in the middle of a branch) end where the piece ends,
// and the smallest pieces that do not reduce are cut in two, again and again: each by a
// moment that some operators come before and the others after, chosen to lengthen the
// longest path least. Near linear, but for the transitive reduction and such pieces, which
// take the square of their size. Deterministic.
SpTree decompose_series_parallel(const Graph& graph);

// "S(op0 P(S(op1 op2) -) op3)": operators by name, an empty branch as "-".
std::string to_text(const SpTree& tree, const Graph& graph);

// How many branches with operators the widest parallel piece has (1: a chain, residuals
// included).
int branch_count(const SpTree& tree);

}  // namespace graphpipe
