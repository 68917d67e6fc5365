#include "runtime/parameters.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/counter_random.h"
#include "base/error.h"
#include "runtime/operators.h"

namespace graphpipe {
namespace {

double initial_value(const Init& init, const CounterRandom& random, std::uint64_t element) {
  switch (init.kind) {
    case InitKind::kZeros:
      return 0;
    case InitKind::kOnes:
      return 1;
    case InitKind::kConstant:
      return init.scale;
    case InitKind::kUniform:
      return init.scale * (2.0 * random.uniform(element) - 1.0);
    case InitKind::kNormal:
      return init.scale * random.normal(element);
    case InitKind::kGiven:
      break;  // not drawn
  }
  GP_CHECK(false, "init kind {}", static_cast<int>(init.kind));
}

template <typename T>
void fill(at::Tensor& values, const Init& init, const CounterRandom& random) {
  T* out = values.data_ptr<T>();
  const auto count = static_cast<std::uint64_t>(values.numel());
  for (std::uint64_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(initial_value(init, random, i));
  }
}

void copy_given(const Parameter& parameter, at::Tensor& out) {
  if (!parameter.values) {
    throw InputError(fmt::format("parameter \"{}\"", parameter.name),
                     "is said to be given, and there are no values: the graph came without its "
                     "weights file");
  }
  GP_CHECK(parameter.values->size() == out.nbytes(), "parameter {} has {} bytes, expected {}",
           parameter.name, parameter.values->size(), out.nbytes());
  std::memcpy(out.data_ptr(), parameter.values->data(), out.nbytes());
}

template <typename T>
double squares(const T* values, std::int64_t count) {
  std::array<double, 8> sums{};  // independent, so that the additions overlap
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const auto v = static_cast<double>(values[i + static_cast<std::int64_t>(lane)]);
      sums[lane] += v * v;
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

}  // namespace

at::Tensor make_parameter(const Parameter& parameter, std::uint64_t seed) {
  const CounterRandom random(combine_hash(seed, hash_bytes(parameter.name)));
  at::Tensor values = at::empty(parameter.shape, scalar_type(parameter.dtype));
  if (parameter.init.kind == InitKind::kGiven) {
    copy_given(parameter, values);
    return values.set_requires_grad(parameter.trainable);
  }
  GP_CHECK(is_floating(parameter.dtype), "parameter {} is {}", parameter.name,
           dtype_name(parameter.dtype));
  if (parameter.dtype == DType::kFloat64) {
    fill<double>(values, parameter.init, random);
  } else {
    fill<float>(values, parameter.init, random);
  }
  return values.set_requires_grad(parameter.trainable);
}

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1; }

void scale(const at::Tensor& values, double factor) {
  if (values.defined() && factor != 1) values.mul_(factor);
}

Weights held_weights(const Graph& graph, const std::map<std::string, at::Tensor>& held) {
  Weights weights;
  for (const Parameter& param : graph.params) {
    const auto found = held.find(param.name);
    if (found == held.end()) continue;
    const at::Tensor values = found->second.contiguous();
    const auto* bytes = static_cast<const char*>(values.data_ptr());
    weights[param.name] = {param.dtype, param.shape,
                           std::make_shared<const std::string>(bytes, values.nbytes())};
  }
  return weights;
}

double sum_of_squares(const at::Tensor& values) {
  if (!values.defined()) return 0;
  const at::Tensor flat = values.contiguous();
  return flat.scalar_type() == at::kDouble ? squares(flat.data_ptr<double>(), flat.numel())
                                           : squares(flat.data_ptr<float>(), flat.numel());
}

double add_elements(double sum, const at::Tensor& values) {
  const at::Tensor flat = values.contiguous();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    sum += flat.scalar_type() == at::kDouble ? flat.data_ptr<double>()[i]
                                             : static_cast<double>(flat.data_ptr<float>()[i]);
  }
  return sum;
}

}  // namespace graphpipe
