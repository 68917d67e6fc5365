#include "runtime/gradient_watch.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <exception>
#include <map>
#include <utility>

namespace graphpipe {

struct GradientWatch::State {
  std::vector<Point> points;
  std::vector<std::size_t> left;                     // [point]: parameters without a gradient
  std::map<const c10::TensorImpl*, std::size_t> of;  // a parameter's point
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators;
  std::size_t next = 0;
  std::exception_ptr error;

  // A point throws past the library's engine only here.
  void reach_next() {
    const std::size_t point = next++;
    if (error) return;
    try {
      points[point].reached();
    } catch (const std::exception&) {
      error = std::current_exception();
    }
  }
  void complete(const c10::TensorImpl* param) {
    const auto at = of.find(param);
    if (at == of.end()) return;  // a second backward
    --left[at->second];
    of.erase(at);
    while (next < points.size() && left[next] == 0) reach_next();
  }
};

namespace {

using torch::autograd::variable_list;

// Behind a parameter's accumulation of its gradient. It may outlive the watch.
template <typename State>
class Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(std::weak_ptr<State> state, const c10::TensorImpl* param)
      : state_(std::move(state)), param_(param) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    if (const auto state = state_.lock()) state->complete(param_);
    return outputs;
  }

 private:
  std::weak_ptr<State> state_;
  const c10::TensorImpl* param_;
};

}  // namespace

GradientWatch::GradientWatch(std::vector<Point> points) : state_(std::make_shared<State>()) {
  State& state = *state_;
  state.points = std::move(points);
  state.left.resize(state.points.size(), 0);
  for (std::size_t i = 0; i < state.points.size(); ++i) {
    for (const at::Tensor& param : state.points[i].params) {
      const c10::TensorImpl* key = param.unsafeGetTensorImpl();
      if (!state.of.emplace(key, i).second) continue;
      ++state.left[i];
      auto accumulator = torch::autograd::impl::grad_accumulator(param);
      accumulator->add_post_hook(std::make_unique<Hook<State>>(state_, key));
      state.accumulators.push_back(std::move(accumulator));
    }
  }
}

GradientWatch::~GradientWatch() = default;

void GradientWatch::finish() {
  while (state_->next < state_->points.size()) state_->reach_next();
  if (state_->error) std::rethrow_exception(state_->error);
}

}  // namespace graphpipe
