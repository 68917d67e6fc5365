// The optimiser's step over the parameters that a rank holds. Synchronous training has
// one version of the weights: every backward of an iteration has run before its step, so
// no saved activation refers to weights that a step has changed.

#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
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

  // What it has kept of one of its parameters, by the library's names ("momentum_buffer";
  // "exp_avg", "exp_avg_sq", and "step", a whole number without dimensions): not copies. Empty
  // before the first step, and for an optimiser that keeps nothing.
  std::map<std::string, at::Tensor> state(const at::Tensor& parameter) const;
  // Goes on from what was kept (copied). GP_CHECKs that it is this optimiser's.
  void restore(const at::Tensor& parameter, const std::map<std::string, at::Tensor>& state);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graphpipe
