// Which whole numbers an input of a graph may hold: entries of a table, classes.

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct InputRange {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();  // the largest, not one beyond
  std::string op;  // the operator that sets the upper limit; "": none does
};

// What all consumers allow, those behind reshapes, transposes, slices and concatenations
// among them.
InputRange input_range(const Graph& graph, TensorId input);

// Whether a binary cross-entropy has the input for its target: numbers from 0 to 1.
bool is_probability(const Graph& graph, TensorId input);

}  // namespace graphpipe
