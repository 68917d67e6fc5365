// Shapes of elementwise functions with broadcasting, of reductions, and of what gathers and
// expands.

#include <fmt/format.h>

#include "graph/functions.h"
#include "graph/shape_rule.h"

namespace graphpipe {
namespace {

DType result_type(const ShapeRule& r, const ElementwiseFunction& function,
                  const std::vector<ShapeRule::Operand>& operands) {
  const auto expect = [&](std::size_t i, bool fits, std::string_view expected) {
    if (fits) return;
    r.fail(fmt::format("{}: {} is {}, expected {}", function.name, operands[i].text,
                       dtype_name(operands[i].dtype), expected));
  };
  const auto expect_each = [&](std::size_t from, auto fits, std::string_view expected) {
    for (std::size_t i = from; i < operands.size(); ++i) {
      expect(i, fits(operands[i].dtype), expected);
      expect(i, operands[i].dtype == operands[from].dtype, dtype_name(operands[from].dtype));
    }
  };
  const auto is_number = [](DType dtype) { return dtype != DType::kBool; };
  const auto is_any = [](DType) { return true; };
  switch (function.types) {
    case FunctionTypes::kFloating:
      expect_each(0, is_floating, "float32 or float64");
      return operands[0].dtype;
    case FunctionTypes::kFloatingTest:
      expect_each(0, is_floating, "float32 or float64");
      return DType::kBool;
    case FunctionTypes::kNumbers:
      expect_each(0, is_number, "float32, float64 or int64");
      return operands[0].dtype;
    case FunctionTypes::kPower:
      expect(0, is_number(operands[0].dtype), "float32, float64 or int64");
      expect(1, is_number(operands[1].dtype), "float32, float64 or int64");
      return operands[0].dtype;
    case FunctionTypes::kBool:
      expect_each(
          0, [](DType dtype) { return dtype == DType::kBool; }, "bool");
      return DType::kBool;
    case FunctionTypes::kAny:
      return operands[0].dtype;
    case FunctionTypes::kCompare:
      expect_each(0, is_any, "");
      return DType::kBool;
    case FunctionTypes::kSelect:
      expect(0, operands[0].dtype == DType::kBool, "bool");
      expect_each(1, is_any, "");
      return operands[1].dtype;
    case FunctionTypes::kToFloat32:
      return DType::kFloat32;
    case FunctionTypes::kToFloat64:
      return DType::kFloat64;
    case FunctionTypes::kToInt64:
      return DType::kInt64;
    case FunctionTypes::kToBool:
      return DType::kBool;
  }
  r.fail("no such function");
}

template <typename List>
void expect_function(const ShapeRule& r, const List& known) {
  const std::string& name = r.op().text("function");
  if (std::ranges::find(known, name) != known.end()) return;
  r.fail(
      fmt::format("there is no function \"{}\"; expected one of {}", name, fmt::join(known, ", ")));
}

const Shape& gather_mode_shape(const ShapeRule& r, const ShapeRule::Operand& data,
                               const ShapeRule::Operand& indices, std::size_t axis) {
  if (indices.shape.size() != data.shape.size()) {
    r.fail(fmt::format("{} has shape {}, expected as many dimensions as {}, {}", indices.text,
                       shape_text(indices.shape), data.text, shape_text(data.shape)));
  }
  for (std::size_t d = 0; d < data.shape.size(); ++d) {
    if (d == axis || indices.shape[d] <= data.shape[d]) continue;
    r.fail(fmt::format("{} has shape {}, which does not fit in {} of shape {}", indices.text,
                       shape_text(indices.shape), data.text, shape_text(data.shape)));
  }
  return indices.shape;
}

}  // namespace

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  Shape shape = a.size() >= b.size() ? a : b;
  const Shape& other = a.size() >= b.size() ? b : a;
  const std::size_t lead = shape.size() - other.size();
  for (std::size_t d = 0; d < other.size(); ++d) {
    std::int64_t& extent = shape[lead + d];
    if (extent == other[d] || other[d] == 1) continue;
    if (extent != 1) return std::nullopt;
    extent = other[d];
  }
  return shape;
}

std::vector<Tensor> elementwise_outputs(const ShapeRule& r) {
  const ElementwiseFunction* function = find_elementwise_function(r.op().text("function"));
  if (function == nullptr) {
    std::vector<std::string_view> known;
    for (const ElementwiseFunction& one : elementwise_functions()) known.push_back(one.name);
    expect_function(r, known);
  }
  const std::vector<ShapeRule::Operand> operands = r.operands();
  if (operands.size() != static_cast<std::size_t>(function->operands)) {
    r.fail(fmt::format("{} takes {} operand{}, found {}", function->name, function->operands,
                       function->operands == 1 ? "" : "s", operands.size()));
  }
  Shape shape = operands[0].shape;
  for (std::size_t i = 1; i < operands.size(); ++i) {
    const auto common = broadcast_shape(shape, operands[i].shape);
    if (!common) {
      r.fail(fmt::format("{} has shape {}, which does not broadcast with {}", operands[i].text,
                         shape_text(operands[i].shape), shape_text(shape)));
    }
    shape = *common;
  }
  return r.result(result_type(r, *function, operands), shape);
}

std::vector<Tensor> reduce_outputs(const ShapeRule& r) {
  expect_function(r, reduce_functions());
  const std::string& function = r.op().text("function");
  const bool whole_numbers = function == "sum" || function == "max" || function == "min" ||
                             function == "prod" || is_arg_function(function);
  if (!(whole_numbers && r.in(0).dtype == DType::kInt64)) r.expect_floating(0);
  const Shape& axes = r.op().list("axes");
  Shape shape = r.shape(0);
  const auto rank = static_cast<std::int64_t>(shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] >= (i == 0 ? 0 : axes[i - 1] + 1) && axes[i] < rank) continue;
    r.fail(fmt::format("axes is {}, expected ascending ones of the {} dimensions of {}",
                       shape_text(axes), rank, r.input_text(0)));
  }
  if (is_arg_function(function) && axes.size() != 1) {
    r.fail(fmt::format("{} has axes {}, expected one", function, shape_text(axes)));
  }
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axes[i]);
    if (r.op().flag("keep")) {
      *at = 1;
    } else {
      shape.erase(at);
    }
  }
  return r.result(is_arg_function(function) ? DType::kInt64 : r.in(0).dtype, shape);
}

std::vector<Tensor> along_axis_outputs(const ShapeRule& r) {
  expect_function(r, along_axis_functions());
  const bool whole_numbers = r.op().text("function") == "cumulative_sum";
  if (!(whole_numbers && r.in(0).dtype == DType::kInt64)) r.expect_floating(0);
  r.axis();
  return r.result(r.shape(0));
}

std::vector<Tensor> gather_outputs(const ShapeRule& r) {
  const std::vector<ShapeRule::Operand> operands = r.operands();
  if (operands.size() != 2) r.fail(fmt::format("expected 2 operands, found {}", operands.size()));
  const ShapeRule::Operand& data = operands[0];
  const ShapeRule::Operand& indices = operands[1];
  if (indices.dtype != DType::kInt64) {
    r.fail(fmt::format("{} is {}, expected int64", indices.text, dtype_name(indices.dtype)));
  }
  const std::int64_t axis = r.op().integer("axis");
  if (axis < 0 || axis >= static_cast<std::int64_t>(data.shape.size())) {
    r.fail(fmt::format("axis is {}, expected one of the dimensions of {}, which has shape {}", axis,
                       data.text, shape_text(data.shape)));
  }
  const auto at = static_cast<std::size_t>(axis);
  const std::string& mode = r.op().text("mode");
  if (mode == "elements") {
    return r.result(data.dtype, gather_mode_shape(r, data, indices, at));
  }
  if (mode != "index") {
    r.fail(fmt::format("mode is \"{}\", expected \"index\" or \"elements\"", mode));
  }
  Shape shape(data.shape.begin(), data.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  return r.result(data.dtype, shape);
}

std::vector<Tensor> expand_outputs(const ShapeRule& r) {
  const Shape& shape = r.op().list("shape");
  if (broadcast_shape(r.shape(0), shape) != shape) {
    r.fail(fmt::format("shape is {}, to which {} of shape {} does not broadcast", shape_text(shape),
                       r.input_text(0), shape_text(r.shape(0))));
  }
  return r.result(shape);
}

}  // namespace graphpipe
