#include "runtime/checkpoint/training_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "runtime/operators.h"

namespace graphpipe {
namespace {

constexpr std::array kStateNames = {"momentum_buffer", "exp_avg", "exp_avg_sq", "step"};

DType dtype_of(at::ScalarType type) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kBool}) {
    if (scalar_type(dtype) == type) return dtype;
  }
  GP_CHECK(false, "a tensor of type {}", c10::toString(type));
}

}  // namespace

WeightValues to_values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const auto* bytes = static_cast<const char*>(flat.data_ptr());
  return {dtype_of(flat.scalar_type()), flat.sizes().vec(),
          std::make_shared<const std::string>(bytes, flat.nbytes())};
}

at::Tensor to_tensor(const WeightValues& values) {
  at::Tensor tensor = at::empty(values.shape, scalar_type(values.dtype));
  GP_CHECK(tensor.nbytes() == values.values->size(), "{} bytes of values, expected {}",
           values.values->size(), tensor.nbytes());
  std::memcpy(tensor.data_ptr(), values.values->data(), tensor.nbytes());
  return tensor;
}

void copy_values(const WeightValues& values, const at::Tensor& to) {
  const at::NoGradGuard no_gradients;
  const at::Tensor from = to_tensor(values);
  GP_CHECK(from.sizes() == to.sizes() && from.scalar_type() == to.scalar_type(),
           "values of another shape or type");
  to.copy_(from);
}

void add_optimizer_state(const Optimizer& optimizer, const at::Tensor& parameter,
                         const std::string& name, Weights& weights) {
  for (const auto& [kind, tensor] : optimizer.state(parameter)) {
    weights[name + "." + kind] = to_values(tensor);
  }
}

void restore_optimizer_state(Optimizer& optimizer, const at::Tensor& parameter,
                             const std::string& name, const Weights& weights) {
  std::map<std::string, at::Tensor> state;
  for (const char* kind : kStateNames) {
    const auto found = weights.find(name + "." + kind);
    if (found != weights.end()) state[kind] = to_tensor(found->second);
  }
  optimizer.restore(parameter, state);
}

}  // namespace graphpipe
