// The graph's inputs for given samples, gathered from a data set.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "graph/graph.h"

namespace graphpipe {

class BatchReader {
 public:
  // Throws InputError where an input has no field, is not batched, or the field has another
  // shape or type. A floating field serves a floating input of either size.
  BatchReader(const Graph& graph, const Dataset& dataset);

  // (ids.size(), shape...). Requires: `input` is an input of the graph, and ids are below
  // the data set's samples() (check_ids).
  at::Tensor read(TensorId input, std::span<const std::int64_t> ids) const;

  // Throws InputError naming the first id that the data set does not have.
  void check_ids(std::span<const std::int64_t> ids) const;

 private:
  const Graph& graph_;
  const Dataset& dataset_;
  std::vector<const Field*> fields_;  // [tensor]; null: not an input
};

}  // namespace graphpipe
