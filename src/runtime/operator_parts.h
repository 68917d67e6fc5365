// Parts of forward_op(): the operators with windows over images, those that cut and pad,
// and those over sequences. B, the samples of the batch, leads every shape.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "runtime/operators.h"

namespace graphpipe {

// For operators whose gradient would be a view with other strides: makes it contiguous.
// Pure layout; see operators.h.
const at::Tensor& contiguous_gradient(const at::Tensor& x);

// x: (B, C, L) or (B, C, H, W); params: weight and, if wanted, bias. Transposed ones too.
at::Tensor convolution(const at::Tensor& x, const std::vector<at::Tensor>& params,
                       const Operator& op);
// Largest or mean, by the operator's kind. x: (B, C, H, W)
at::Tensor pool2d(const at::Tensor& x, const Operator& op);
at::Tensor global_avg_pool(const at::Tensor& x);  // (B, C, ...) -> (B, C)
at::Tensor resize(const at::Tensor& x, const Operator& op);
// params: weight, bias, running mean, running variance; the last two change in training.
at::Tensor batch_norm(const at::Tensor& x, const std::vector<at::Tensor>& params,
                      const Operator& op, const OpContext& context);

std::vector<at::Tensor> split(const at::Tensor& x, std::int64_t axis,
                              const std::vector<std::int64_t>& sizes);
at::Tensor pad(const at::Tensor& x, const Operator& op);

// custom_op_run.cc: a user's own (graph/custom_op.h).
std::vector<at::Tensor> run_custom_op(const Graph& graph, const Operator& op,
                                      const std::vector<at::Tensor>& inputs,
                                      const std::vector<at::Tensor>& params,
                                      const OpContext& context);

// LSTM or GRU from a state of zeros. x: (B, T, I); params: w_ih, w_hh, b_ih, b_hh -> (B, T, H)
at::Tensor recurrent(const at::Tensor& x, const std::vector<at::Tensor>& params, OpKind kind);

}  // namespace graphpipe
