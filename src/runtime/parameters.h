// Parameters as tensors, initialised by (seed, name): the same on whatever rank, in
// whatever order.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"
#include "graph/weights.h"

namespace graphpipe {

// A leaf that asks for a gradient where the parameter is trainable. Values are drawn in
// double and rounded, so float32 and float64 models start from the same numbers.
at::Tensor make_parameter(const Parameter& parameter, std::uint64_t seed);

// The values of those of the graph's parameters that are `held`, by name.
Weights held_weights(const Graph& graph, const std::map<std::string, at::Tensor>& held);

// The sum of squares in double, in a fixed order; 0 where the tensor is undefined.
double sum_of_squares(const at::Tensor& values);

// What gradients of this norm are multiplied by so that their norm is at most `clip`; 1 where
// it is, and where `clip` is 0.
double clip_factor(double norm, double clip);

// In place, where the tensor is defined; a factor of 1 touches nothing.
void scale(const at::Tensor& values, double factor);

// `sum` and then the elements, one after another, in double: over batches in turn the same
// number as over one. (n) floating.
double add_elements(double sum, const at::Tensor& values);

}  // namespace graphpipe
