// What operators compute: one function from inputs and parameters to outputs, recorded by
// autograd where gradients are wanted. No modules, no state but a batch norm's running mean
// and variance, which are parameters that its forward changes.
//
// A batched tensor has dimension 0 for the sample; shapes in comments leave it out.
// Outputs are contiguous, and so are the gradients that operators hand to their inputs:
// a tensor then has the same layout whether it came from an operator or in a message, and
// the products that read it give the same bits.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct OpContext {
  bool training = true;  // where false: no dropout, batch norms by their running statistics
  std::uint64_t seed = 1;
  std::int64_t iteration = 0;
  std::span<const std::int64_t> sample_ids;  // of the batch, in the data set
  // False in a forward that is run again (recomputation): running statistics move once.
  bool update_statistics = true;
};

// The outputs of the operator. Requires: tensors with the dtypes and shapes that the graph
// says, all batched tensors with context.sample_ids.size() samples. Throws c10::Error where
// data are out of range (an id beyond its table), and where a batch norm in training has one
// value a channel, of which there is no variance.
std::vector<at::Tensor> forward_op(const Graph& graph, const Operator& op,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& params, const OpContext& context);

at::ScalarType scalar_type(DType dtype);

}  // namespace graphpipe
