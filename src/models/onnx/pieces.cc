// The pieces from which operators are put together.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "models/onnx/importer.h"

namespace graphpipe::onnx_import {
namespace {

std::vector<std::pair<std::string, Attribute>> function_attributes(std::string_view function,
                                                                   Shape operands, double alpha,
                                                                   double beta) {
  return {{"alpha", alpha},
          {"beta", beta},
          {"function", std::string(function)},
          {"operands", std::move(operands)}};
}

}  // namespace

TensorId Importer::reshape(TensorId x, const Shape& shape) {
  if (tensor(x).shape == shape) return x;
  return op(OpKind::kReshape, {x}, {}, {{"shape", shape}});
}

TensorId Importer::transpose(TensorId x, const Shape& permutation) {
  if (std::ranges::is_sorted(permutation)) return x;
  return op(OpKind::kTranspose, {x}, {}, {{"permutation", permutation}});
}

TensorId Importer::slice(TensorId x, std::int64_t axis, std::int64_t start, std::int64_t length) {
  if (start == 0 && length == tensor(x).shape[static_cast<std::size_t>(axis)]) return x;
  return op(OpKind::kSlice, {x}, {}, {{"axis", axis}, {"length", length}, {"start", start}});
}

TensorId Importer::pick(TensorId x, std::int64_t axis, const Shape& indices) {
  std::vector<double> numbers(indices.begin(), indices.end());
  const Shape shape = {static_cast<std::int64_t>(indices.size())};
  const ParamId held =
      param(constant_value(DType::kInt64, shape, std::move(numbers)), shape, false);
  return op(OpKind::kGather, {x}, {held},
            {{"axis", axis}, {"mode", std::string("index")}, {"operands", Shape{0, -1}}});
}

TensorId Importer::unary(std::string_view function, TensorId x, double alpha, double beta) {
  return op(OpKind::kElementwise, {x}, {}, function_attributes(function, {0}, alpha, beta));
}

TensorId Importer::binary(std::string_view function, TensorId a, TensorId b) {
  return op(OpKind::kElementwise, {a, b}, {}, function_attributes(function, {0, 1}, 0, 0));
}

TensorId Importer::with_constant(std::string_view function, TensorId x, const Value& constant,
                                 bool constant_first) {
  const ParamId held = param(constant, constant.shape(), false);
  const Shape operands = constant_first ? Shape{-1, 0} : Shape{0, -1};
  return op(OpKind::kElementwise, {x}, {held}, function_attributes(function, operands, 0, 0));
}

TensorId Importer::with_number(std::string_view function, TensorId x, double number,
                               bool number_first) {
  return with_constant(function, x, constant_value(tensor(x).dtype, {}, {number}), number_first);
}

TensorId Importer::reduce(std::string_view function, TensorId x, Shape axes, bool keep) {
  return op(OpKind::kReduce, {x}, {},
            {{"axes", std::move(axes)}, {"function", std::string(function)}, {"keep", keep}});
}

Dims Importer::broadcast(const std::vector<Value>& operands) const {
  Dims result;
  for (const Value& operand : operands) {
    Dims dims = operand.dims;
    if (dims.size() > result.size()) std::swap(dims, result);
    const std::size_t lead = result.size() - dims.size();
    for (std::size_t i = 0; i < dims.size(); ++i) {
      Dim& dim = result[lead + i];
      if (dim == dims[i] || dims[i] == Dim{}) continue;
      if (dim != Dim{}) {
        fail(fmt::format("its operands have shapes {} and {}, which do not broadcast",
                         dims_text(operands.front().dims), dims_text(operand.dims)));
      }
      dim = dims[i];
    }
  }
  if (std::ranges::count(result, true, &Dim::batch) > 1) {
    fail(fmt::format("its operands would have the samples on two axes: {}", dims_text(result)));
  }
  return result;
}

Shape Importer::aligned_shape(const Dims& dims, const Dims& out) const {
  Shape shape;
  const std::size_t lead = out.size() - dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dim& wanted = out[lead + i];
    if (!wanted.batch) {
      shape.push_back(dims[i].size);
      continue;
    }
    // One element where the operand has no samples.
    if (wanted.outer > 1) shape.push_back(dims[i].outer);
    if (wanted.size > 1) shape.push_back(dims[i].size);
  }
  return shape;
}

Value Importer::elementwise(std::string_view function, const std::vector<Value>& operands,
                            double alpha, double beta) {
  const Dims dims = broadcast(operands);
  const bool weighs = function == "add" || function == "mul" || function == "prelu";
  std::vector<TensorId> inputs;
  std::vector<ParamId> params;
  Shape places;
  for (const Value& operand : operands) {
    const Shape shape = aligned_shape(operand.dims, dims);
    if (operand.is_constant()) {
      const bool train = weighs && !operand.dims.empty();
      places.push_back(-1 - static_cast<std::int64_t>(params.size()));
      params.push_back(param(operand, shape, train));
    } else {
      places.push_back(static_cast<std::int64_t>(inputs.size()));
      inputs.push_back(reshape(operand.tensor, shape));
    }
  }
  if (inputs.empty()) inputs.push_back(carrier());
  const bool alike = params.empty() && inputs.size() == 2 && inputs[0] != inputs[1] &&
                     tensor(inputs[0]).batched == tensor(inputs[1]).batched &&
                     tensor(inputs[0]).shape == tensor(inputs[1]).shape &&
                     tensor(inputs[0]).dtype == tensor(inputs[1]).dtype &&
                     is_floating(tensor(inputs[0]).dtype);
  if (alike && function == "add") return value_of(op(OpKind::kAdd, inputs, {}, {}), dims);
  if (alike && function == "mul") return value_of(op(OpKind::kMul, inputs, {}, {}), dims);
  const TensorId y =
      op(OpKind::kElementwise, inputs, params, function_attributes(function, places, alpha, beta));
  return value_of(reshape(y, sample_shape(dims)), dims);
}

Value Importer::reshaped(const Value& value, Dims dims) {
  Value result = value;
  result.dims = std::move(dims);
  if (!value.is_constant()) {
    result.tensor = reshape(value.tensor, result.shape());
  } else if (value.transposed) {  // the order of its elements is not the file's
    result.bytes = bytes_of(value);
    result.weight.clear();
    result.transposed = false;
  }
  return result;
}

Value Importer::transposed(const Value& value, const std::vector<std::size_t>& permutation) {
  Value result = value;
  result.dims.clear();
  for (const std::size_t axis : permutation) result.dims.push_back(value.dims[axis]);
  if (value.is_constant()) {
    const bool swaps = permutation == std::vector<std::size_t>{1, 0};
    if (swaps && value.bytes) {
      result.transposed = !value.transposed;
      result.items.reset();
      return result;
    }
    if (result.shape() == value.shape() && std::ranges::is_sorted(permutation)) return result;
    result = value_of(materialize(value), value.dims);
    return transposed(result, permutation);
  }
  Shape sample;
  for (const std::size_t axis : permutation) {
    const std::int64_t first = axes_before(value.dims, axis);
    for (std::int64_t k = 0; k < axes_of_dim(value.dims[axis]); ++k) sample.push_back(first + k);
  }
  result.tensor = transpose(value.tensor, sample);
  return result;
}

TensorId Importer::image(const Value& value, std::size_t spatial) {
  const Dims& dims = value.dims;
  if (dims.size() != spatial + 2 || dims[0] != Dim{1, true}) {
    fail(fmt::format("input has shape {}, expected (samples, channels and {} more)",
                     dims_text(dims), spatial));
  }
  return materialize(value, false, true);
}

}  // namespace graphpipe::onnx_import
