// An iteration at the level of stages, not ranks: what a plan takes, nearly, at a small part of
// a simulation's price.
//
// Each stage runs its tasks in its schedule's static order on one clock; a message leaves when
// the task has ended and the stage's way out is free, holds it for the bytes of the fullest
// replica (of all replicas of a node that share its port), and arrives a latency later; a way in
// takes the messages of one task after those of the one before. Gradients are reduced at the
// end. Many micro-batches are extrapolated from two shorter runs, which is exact where the
// pipeline is in its period by the end of the first. What is left out - messages of different
// stages that meet at a port, cores that ranks share, unequal replicas - is the simulator's.

#pragma once

#include <cstdint>
#include <vector>

#include "planners/cost_table.h"

namespace graphpipe {

class StageEstimator {
 public:
  // The table lives longer.
  explicit StageEstimator(CostTable& table);

  // Seconds; 0 where the plan is not of the kind described (round robin, halves, GPipe's order,
  // stages that share devices). Requires: edges sorted, stages in an order in which they can run.
  double iteration_s(const Plan& plan) const;

  // Gradients of the operators, each parameter once.
  std::int64_t gradient_bytes(const std::vector<OpId>& ops) const;
  const std::vector<bool>& needs_gradient() const { return needs_; }
  CostTable& table() const { return table_; }

 private:
  CostTable& table_;
  std::vector<bool> needs_;
  std::vector<std::int64_t> gradient_bytes_;  // by operator
  bool shared_params_ = false;                // operators have some in common
};

}  // namespace graphpipe
