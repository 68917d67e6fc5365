// The optimiser's step over the parameters that a rank holds. Synchronous training has
// one version of the weights: every backward of an iteration has run before its step, so
// no saved activation refers to weights that a step has changed.

#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "job/job.h"

namespace graphpipe {

class Optimizer {
 public:
  // SGD of either kind takes the momentum that the options give.
  Optimizer(std::vector<at::Tensor> parameters, const TrainOptions& options);
  ~Optimizer();
  // Steps in place; parameters without a gradient are left alone.
  void step(double learning_rate);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graphpipe
