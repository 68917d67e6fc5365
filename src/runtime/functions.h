// Parts of forward_op(): functions of elements with broadcasting, reductions, and what
// gathers and expands. Shapes of graphs leave out the sample; a batched tensor has it as
// dimension 0 here. Outputs and gradients are contiguous; see operators.h.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "runtime/operators.h"

namespace graphpipe {

// A view that broadcasts as the sample's shape does: dimensions of one stand between the samples
// and a shape of fewer than `rank` dimensions.
at::Tensor aligned(const at::Tensor& x, bool batched, std::size_t rank);

at::Tensor elementwise(const Graph& graph, const Operator& op,
                       const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& params,
                       const OpContext& context);
at::Tensor reduce(const at::Tensor& x, const Operator& op, bool batched);
at::Tensor along_axis(const at::Tensor& x, const Operator& op, bool batched);
// Throws c10::IndexError where an index is beyond its axis.
at::Tensor gather(const Graph& graph, const Operator& op, const std::vector<at::Tensor>& inputs,
                  const std::vector<at::Tensor>& params, const OpContext& context);
// sizes: those of the result.
at::Tensor expand(const at::Tensor& x, const std::vector<std::int64_t>& sizes, bool batched);

}  // namespace graphpipe
