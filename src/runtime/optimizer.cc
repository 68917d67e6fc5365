#include "runtime/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "base/error.h"

namespace graphpipe {

struct Optimizer::State {
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  double weight_decay = 0;
};

namespace {

std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<at::Tensor> parameters,
                                                        const TrainOptions& options) {
  switch (options.optimizer) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kSgdMomentum:
      return std::make_unique<torch::optim::SGD>(
          std::move(parameters),
          torch::optim::SGDOptions(options.learning_rate).momentum(options.momentum));
    case OptimizerKind::kAdam:
      return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                                  torch::optim::AdamOptions(options.learning_rate));
  }
  GP_CHECK(false, "optimizer {}", static_cast<int>(options.optimizer));
}

// As the library's optimisers do, but that they copy the gradients.
void add_decay(const std::vector<at::Tensor>& parameters, double decay) {
  const at::NoGradGuard no_gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.mutable_grad().add_(parameter, decay);
  }
}

}  // namespace

Optimizer::Optimizer(std::vector<at::Tensor> parameters, const TrainOptions& options)
    : state_(std::make_unique<State>()) {
  // The library's optimisers refuse an empty list; a stage may have no parameters.
  state_->weight_decay = options.weight_decay;
  if (!parameters.empty()) state_->optimizer = make_optimizer(std::move(parameters), options);
}

Optimizer::~Optimizer() = default;

void Optimizer::step(double learning_rate) {
  if (!state_->optimizer) return;
  for (torch::optim::OptimizerParamGroup& group : state_->optimizer->param_groups()) {
    group.options().set_lr(learning_rate);
    if (state_->weight_decay != 0) add_decay(group.params(), state_->weight_decay);
  }
  state_->optimizer->step();
}

}  // namespace graphpipe
