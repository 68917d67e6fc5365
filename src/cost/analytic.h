// The frozen analytic cost model: a roofline with tile and wave quantisation.
//
// Operator time: max(FLOPs / (e_c * peak * r), bytes / (e_m * memory bandwidth)) +
// launch overhead per kernel (1 forward, 2 backward). For matrix products r is the best
// over output tiles 128x128, 128x64, 64x64 of
//     e * (rows * columns) / (T * tile area) * T / (P * ceil(T / P)),
//     T = ceil(rows / tile rows) * ceil(columns / tile columns), P multiprocessors,
//     e = 1, 0.85, 0.7
// (relative tile efficiencies after NVIDIA's "Matrix Multiplication Background User's
// Guide"); for all else r = 1. Backward FLOPs are twice the forward's. Saved for the
// backward: each operator's inputs, and attention's probabilities.

#pragma once

#include <memory>
#include <string>

#include "cost/cost_model.h"

namespace graphpipe {

struct AnalyticOptions {
  bool flat_efficiency = false;    // r = 1 everywhere (a sensitivity study)
  double launch_overhead_scale = 1;
};

class AnalyticCosts : public CostModel {
 public:
  explicit AnalyticCosts(AnalyticOptions options = {}) : options_(options) {}
  OpCost op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                 const DeviceType& device, Phase phase) const override;
  std::string name() const override;

 private:
  AnalyticOptions options_;
};

}  // namespace graphpipe
