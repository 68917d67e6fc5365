// Tensors as the bytes of a checkpoint, and back.

#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "graph/weights.h"
#include "runtime/optimizer.h"

namespace graphpipe {

// Copies.
WeightValues to_values(const at::Tensor& tensor);
at::Tensor to_tensor(const WeightValues& values);

// In place. GP_CHECKs that type and shape are the same.
void copy_values(const WeightValues& values, const at::Tensor& to);

// What the optimiser has kept of the parameter goes to "NAME.exp_avg" and so on in `weights`, or
// comes from there.
void add_optimizer_state(const Optimizer& optimizer, const at::Tensor& parameter,
                         const std::string& name, Weights& weights);
void restore_optimizer_state(Optimizer& optimizer, const at::Tensor& parameter,
                             const std::string& name, const Weights& weights);

}  // namespace graphpipe
