// The frozen analytic cost model: a roofline with tile and wave quantisation.
//
// Operator time: max(FLOPs / (e_c * peak * r), bytes / (e_m * memory bandwidth)) +
// launch overhead per kernel (1 forward, 2 backward). For matrix products r is the best
// over output tiles 128x128, 128x64, 64x64 of
//     e * (rows * columns) / (T * tile area) * T / (P * ceil(T / P)),
//     T = ceil(rows / tile rows) * ceil(columns / tile columns), P multiprocessors,
//     e = 1, 0.85, 0.7
// (relative tile efficiencies after NVIDIA's "Matrix Multiplication Background User's
// Guide"); for all else r = 1, as on a device with one multiprocessor (a CPU core, whose
// tiles are registers). Attention is four products, each with its own r: projections in
// and out, and scores and context, whose tiles are counted over samples * heads problems.
// A convolution is the product of its windows with its weight; see docs/papers.md.
// Bytes are inputs, outputs and parameters, each moved once; a reshape is a view and moves
// none; an embedding moves the rows that it looks up, and its backward writes the whole
// table's gradient too. Backward FLOPs and bytes are twice the forward's.
//
// Saved for the backward: each operator's inputs, and attention's probabilities. Beside
// these frozen ones stand what this project's runtime keeps: a dropout mask, layer norm's
// two statistics a row, batch norm's two a channel, where a pool's largest stood, the gates
// of an LSTM or GRU, a bag's ids and lengths, the difference or the log-probabilities
// inside a loss; and, on CPU cores alone (where plans are trained and memory is compared),
// attention's queries, keys, values and context.
// There too an operator keeps the inputs and outputs that its backward needs, and no others.
// Workspace: tensors inside the operator, and in a backward the gradients of its inputs and
// of its parameters, before they are added up.

#pragma once

#include <memory>
#include <string>

#include "cost/cost_model.h"

namespace graphpipe {

struct AnalyticOptions {
  bool flat_efficiency = false;  // r = 1 everywhere (a sensitivity study)
  double launch_overhead_scale = 1;
};

class AnalyticCosts : public CostModel {
 public:
  explicit AnalyticCosts(AnalyticOptions options = {}) : options_(options) {}
  OpCost op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                 const DeviceType& device, Phase phase) const override;
  bool keeps_input(const Operator& op, std::size_t i, const DeviceType& device) const override;
  bool keeps_output(const Operator& op, const DeviceType& device) const override;
  std::string name() const override;

 private:
  AnalyticOptions options_;
};

}  // namespace graphpipe
