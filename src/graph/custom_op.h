// Operators of users' own. A program registers one by name before it builds, reads or runs a
// graph with operators of kind custom, whose attribute "function" is that name:
//
//   CustomOp swish;
//   swish.name = "swish";
//   swish.outputs = [](const CustomTypes& types) { return std::vector{types.inputs[0]}; };
//   swish.forward = [](const CustomForward& run) { ... };
//   swish.backward = [](const CustomBackward& run) { ... };
//   register_custom_op(swish);
//   ...
//   TensorId y = builder.custom("head.swish", "swish", {x});
//
// Numbers are plain arrays in row-major order, those of batched tensors with the sample first,
// so nothing here needs the tensor library. An operator computes each sample by itself: its
// result must not depend on how a mini-batch is cut. Functions are called by several ranks at
// a time, and keep nothing between calls.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

// A tensor's or parameter's type; the shape is that of one sample where it is batched.
struct TensorType {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  bool batched = true;
};

struct CustomTypes {
  const Operator& op;  // for its attributes: op.integer("window")
  std::vector<TensorType> inputs;
  std::vector<TensorType> params;
};

// A tensor's numbers. `sizes` begin with the samples where it is batched.
template <typename Pointer>
struct BasicArray {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  Pointer data = nullptr;  // null: not there, and not wanted

  std::int64_t elements() const { return element_count(sizes); }
  explicit operator bool() const { return data != nullptr; }
};
struct ConstArray : BasicArray<const void*> {
  // Requires: T is the dtype's (float, double, std::int64_t, bool).
  template <typename T>
  std::span<const T> values() const {
    return {static_cast<const T*>(data), static_cast<std::size_t>(elements())};
  }
};
struct Array : BasicArray<void*> {
  template <typename T>
  std::span<T> values() const {
    return {static_cast<T*>(data), static_cast<std::size_t>(elements())};
  }
};

struct CustomForward {
  const Operator& op;
  std::int64_t samples = 0;
  std::span<const std::int64_t> sample_ids;  // in the data set
  bool training = true;
  std::uint64_t seed = 1;  // random numbers are drawn by (seed, op.name, iteration, sample id)
  std::int64_t iteration = 0;
  std::vector<ConstArray> inputs;
  std::vector<ConstArray> params;
  std::vector<Array> outputs;  // to be written whole
};

struct CustomBackward {
  const Operator& op;
  std::int64_t samples = 0;
  std::vector<ConstArray> inputs;   // not there unless keeps_inputs
  std::vector<ConstArray> outputs;  // not there unless keeps_outputs
  std::vector<ConstArray> params;
  std::vector<ConstArray> output_gradients;  // of integers and bools: not there
  // To be added to: they come as zeros. Those that nobody wants are not there.
  std::vector<Array> input_gradients;
  std::vector<Array> param_gradients;
};

struct CustomOp {
  std::string name;
  // The types of the outputs; `batched` is set by the caller, where any input is. Complains of
  // inputs that do not fit by std::invalid_argument.
  std::function<std::vector<TensorType>(const CustomTypes&)> outputs;
  // Floating-point operations of a forward over one sample, for planning without a profile; a
  // backward counts twice that. Empty: one for each element of the outputs.
  std::function<double(const CustomTypes&)> flops_per_sample;
  std::function<void(const CustomForward&)> forward;
  // Empty: no gradient flows through it.
  std::function<void(const CustomBackward&)> backward;
  // What the backward reads, and so what a stage keeps for it.
  bool keeps_inputs = true;
  bool keeps_outputs = false;
};

// Throws InputError(name, ...) where the name is taken, or empty, or `outputs` or `forward` is.
void register_custom_op(CustomOp op);

// The operator's own. Throws InputError(where, "G3: ...") where this program has none of that
// name; they live as long as the program.
const CustomOp& custom_op(const Operator& op, const std::string& where);
const CustomOp& custom_op(const Operator& op);  // Requires: it is registered

// Whether a gradient can flow from the operator's outputs to its inputs and parameters.
bool passes_gradient(const Operator& op);

CustomTypes custom_types(const Graph& graph, const Operator& op);

}  // namespace graphpipe
