// The graph in blocks of operators: what planners of sequential pipelines cut between.

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct BlockTensor {
  TensorId tensor;
  int producer = 0;
  std::vector<int> consumers;  // other blocks, ascending
  bool gradient = false;       // one comes back from each
};

struct Blocks {
  std::vector<std::vector<OpId>> ops;        // [block], ascending; blocks stand in an order in
                                             // which they can run
  std::vector<std::vector<int>> successors;  // ascending
  std::vector<BlockTensor> tensors;          // those that cross between blocks
};

// Runs of neighbours in the graph's order, joined while a run weighs at most `most_weight`.
// `weight` is by operator.
Blocks run_blocks(const Graph& graph, const std::vector<double>& weight, double most_weight);

// Operators joined along dependencies that no other path goes round, the lightest first, none to
// more than `most_weight`, while there are more than `most_downsets` downsets.
Blocks coarse_blocks(const Graph& graph, const std::vector<double>& weight, double most_weight,
                     std::size_t most_downsets, const std::function<bool()>& should_stop = {});

// Why a planner over downsets of the blocks gives up.
std::string too_many_downsets_text(std::size_t most_downsets, const Blocks& blocks);

}  // namespace graphpipe
