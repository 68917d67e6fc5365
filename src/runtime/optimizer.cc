#include "runtime/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <type_traits>

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

// Under which the library keeps a parameter's state: by its address, newer ones as a pointer.
template <typename States>
auto state_key(const States&, const at::Tensor& parameter) {
  using Key = typename States::key_type;
  if constexpr (std::is_same_v<Key, std::string>) {
    return fmt::format("{}", fmt::ptr(parameter.unsafeGetTensorImpl()));
  } else {
    return Key(parameter.unsafeGetTensorImpl());
  }
}

const at::Tensor& item(const std::map<std::string, at::Tensor>& state, const char* name) {
  const auto found = state.find(name);
  GP_CHECK(found != state.end(), "an optimiser's state without {}", name);
  return found->second;
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

std::map<std::string, at::Tensor> Optimizer::state(const at::Tensor& parameter) const {
  if (!state_->optimizer) return {};
  const auto& kept = state_->optimizer->state();
  const auto found = kept.find(state_key(kept, parameter));
  if (found == kept.end()) return {};
  if (const auto* adam = dynamic_cast<const torch::optim::AdamParamState*>(found->second.get())) {
    return {{"step", at::scalar_tensor(adam->step(), at::kLong)},
            {"exp_avg", adam->exp_avg()},
            {"exp_avg_sq", adam->exp_avg_sq()}};
  }
  const auto* sgd = dynamic_cast<const torch::optim::SGDParamState*>(found->second.get());
  GP_CHECK(sgd != nullptr, "the state of an unknown optimiser");
  if (!sgd->momentum_buffer().defined()) return {};
  return {{"momentum_buffer", sgd->momentum_buffer()}};
}

void Optimizer::restore(const at::Tensor& parameter,
                        const std::map<std::string, at::Tensor>& state) {
  if (state.empty()) return;
  GP_CHECK(state_->optimizer != nullptr, "state of a parameter that no optimiser has");
  auto& kept = state_->optimizer->state();
  if (dynamic_cast<const torch::optim::Adam*>(state_->optimizer.get()) != nullptr) {
    auto adam = std::make_unique<torch::optim::AdamParamState>();
    adam->step(item(state, "step").item<std::int64_t>());
    adam->exp_avg(item(state, "exp_avg").clone());
    adam->exp_avg_sq(item(state, "exp_avg_sq").clone());
    kept[state_key(kept, parameter)] = std::move(adam);
    return;
  }
  auto sgd = std::make_unique<torch::optim::SGDParamState>();
  sgd->momentum_buffer(item(state, "momentum_buffer").clone());
  kept[state_key(kept, parameter)] = std::move(sgd);
}

}  // namespace graphpipe
