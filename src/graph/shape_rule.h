// What the rules for shapes are written with: an operator, what goes into it, and the ways
// to complain. Only shape_rules*.cc include it.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace graphpipe {

using Shape = std::vector<std::int64_t>;

inline std::string shape_text(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

// Sizes of windows and paddings beyond it are mistakes, and could overflow sums.
inline constexpr std::int64_t kMostInAList = 1 << 30;

// The shape that both broadcast to, dimensions aligned from the last; none where they do not.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);

// One operator with what goes into it, and the ways to complain.
class ShapeRule {
 public:
  ShapeRule(const Graph& graph, const Operator& op, const std::string& where)
      : graph_(graph), op_(op), where_(where) {}

  const Tensor& in(std::size_t i) const { return graph_.tensor(op_.inputs[i]); }
  const Shape& shape(std::size_t i) const { return in(i).shape; }
  const Operator& op() const { return op_; }
  std::size_t params() const { return op_.params.size(); }
  const Shape& param_shape(std::size_t i) const { return graph_.param(op_.params[i]).shape; }
  DType param_dtype(std::size_t i) const { return graph_.param(op_.params[i]).dtype; }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(where_, fmt::format("G3: {}: {}", op_kind_name(op_.kind), what));
  }

  // "input 0 \"x\""
  std::string input_text(std::size_t i) const {
    return fmt::format("input {} \"{}\"", i, in(i).name);
  }

  void expect_floating(std::size_t i) const {
    if (!is_floating(in(i).dtype)) expected_dtype(i, "float32 or float64");
  }
  void expect_int64(std::size_t i) const {
    if (in(i).dtype != DType::kInt64) expected_dtype(i, "int64");
  }
  void expect_same_dtype(std::size_t i) const {
    if (in(i).dtype != in(0).dtype) {
      expected_dtype(i, fmt::format("{} as input 0", dtype_name(in(0).dtype)));
    }
  }
  void expect_shape(std::size_t i, const Shape& shape) const {
    if (in(i).shape == shape) return;
    fail(fmt::format("{} has shape {}, expected {}", input_text(i), shape_text(in(i).shape),
                     shape_text(shape)));
  }
  void expect_rank_at_least(std::size_t i, std::size_t rank) const {
    if (in(i).shape.size() >= rank) return;
    fail(fmt::format("{} has shape {}, expected at least {} dimension{}", input_text(i),
                     shape_text(in(i).shape), rank, rank == 1 ? "" : "s"));
  }
  void expect_rank(std::size_t i, std::size_t rank) const {
    if (in(i).shape.size() == rank) return;
    fail(fmt::format("{} has shape {}, expected {} dimension{}", input_text(i),
                     shape_text(in(i).shape), rank, rank == 1 ? "" : "s"));
  }
  // `what` names the parameter: "weight (out, in)".
  void expect_param(std::size_t i, std::string_view what, const Shape& shape, DType dtype) const {
    const Parameter& param = graph_.param(op_.params[i]);
    if (param.shape != shape) {
      fail(fmt::format("{} \"{}\" has shape {}, expected {}", what, param.name,
                       shape_text(param.shape), shape_text(shape)));
    }
    if (param.dtype != dtype) {
      fail(fmt::format("{} \"{}\" is {}, expected {}", what, param.name, dtype_name(param.dtype),
                       dtype_name(dtype)));
    }
  }
  void expect_param_rank(std::size_t i, std::string_view what, std::size_t rank) const {
    const Parameter& param = graph_.param(op_.params[i]);
    if (param.shape.size() == rank) return;
    fail(fmt::format("{} \"{}\" has shape {}, expected {} dimensions", what, param.name,
                     shape_text(param.shape), rank));
  }
  void expect_batched(std::size_t i) const {
    if (!in(i).batched)
      fail(fmt::format("{} has no samples, expected a batched tensor", input_text(i)));
  }
  void expect_epsilon() const {
    const double epsilon = op_.number("epsilon");
    if (epsilon > 0 && epsilon < 1) return;
    fail(fmt::format("epsilon is {}, expected more than 0 and less than 1", epsilon));
  }
  // Not changed by a gradient: the operator itself keeps it.
  void expect_untrained(std::size_t i, std::string_view what) const {
    const Parameter& param = graph_.param(op_.params[i]);
    if (!param.trainable) return;
    fail(fmt::format("{} \"{}\" is trainable, expected \"trainable\": false", what, param.name));
  }
  // What attribute operands names: dtype and shape of inputs and parameters.
  struct Operand {
    DType dtype;
    const Shape& shape;
    std::string text;
  };
  std::vector<Operand> operands() const {
    std::vector<Operand> result;
    for (const std::int64_t k : op_.list("operands")) {
      const bool is_input = k >= 0;
      const auto i = static_cast<std::size_t>(is_input ? k : -(k + 1));
      if (i >= (is_input ? op_.inputs.size() : op_.params.size())) {
        fail(fmt::format("operands is {}, and there are {} inputs and {} parameters",
                         shape_text(op_.list("operands")), op_.inputs.size(), op_.params.size()));
      }
      if (is_input) {
        result.push_back({in(i).dtype, in(i).shape, input_text(i)});
      } else {
        const Parameter& param = graph_.param(op_.params[i]);
        result.push_back({param.dtype, param.shape, fmt::format("parameter \"{}\"", param.name)});
      }
    }
    return result;
  }
  // A list attribute with `count` numbers of at least `low`.
  const Shape& numbers(std::string_view name, std::size_t count, std::int64_t low) const {
    const Shape& list = op_.list(name);
    const bool fits = list.size() == count &&
                      std::all_of(list.begin(), list.end(),
                                  [&](std::int64_t x) { return x >= low && x <= kMostInAList; });
    if (!fits) {
      fail(fmt::format("{} is {}, expected {} number{} from {} to {}", name, shape_text(list),
                       count, count == 1 ? "" : "s", low, kMostInAList));
    }
    return list;
  }
  // An axis of input 0, counted from the front.
  std::size_t axis() const {
    const auto rank = static_cast<std::int64_t>(shape(0).size());
    const std::int64_t axis = op_.integer("axis");
    if (axis < -rank || axis >= rank) {
      fail(fmt::format("axis is {}, expected one of the dimensions of {}, which has shape {}", axis,
                       input_text(0), shape_text(shape(0))));
    }
    return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  }

  std::vector<Tensor> result(DType dtype, Shape shape) const {
    Tensor out;
    out.dtype = dtype;
    out.shape = std::move(shape);
    out.batched = std::any_of(op_.inputs.begin(), op_.inputs.end(),
                              [&](TensorId input) { return graph_.tensor(input).batched; });
    return {std::move(out)};
  }
  std::vector<Tensor> result(Shape shape) const { return result(in(0).dtype, std::move(shape)); }

 private:
  [[noreturn]] void expected_dtype(std::size_t i, const std::string& expected) const {
    fail(fmt::format("{} is {}, expected {}", input_text(i), dtype_name(in(i).dtype), expected));
  }

  const Graph& graph_;
  const Operator& op_;
  const std::string& where_;
};

// shape_rules_functions.cc
std::vector<Tensor> elementwise_outputs(const ShapeRule& r);
std::vector<Tensor> reduce_outputs(const ShapeRule& r);
std::vector<Tensor> along_axis_outputs(const ShapeRule& r);
std::vector<Tensor> gather_outputs(const ShapeRule& r);
std::vector<Tensor> expand_outputs(const ShapeRule& r);

// shape_rules_spatial.cc
std::vector<Tensor> conv_outputs(const ShapeRule& r, std::size_t dimensions);
std::vector<Tensor> conv_transpose2d_outputs(const ShapeRule& r);
std::vector<Tensor> pool2d_outputs(const ShapeRule& r);
std::vector<Tensor> global_avg_pool_outputs(const ShapeRule& r);
std::vector<Tensor> resize_outputs(const ShapeRule& r);
std::vector<Tensor> batch_norm_outputs(const ShapeRule& r);
std::vector<Tensor> split_outputs(const ShapeRule& r);
std::vector<Tensor> pad_outputs(const ShapeRule& r);
std::vector<Tensor> opaque_outputs(const ShapeRule& r);
// custom_op.cc
std::vector<Tensor> custom_outputs(const Graph& graph, const ShapeRule& r,
                                   const std::string& where);
// `gates` matrices of the state's width stand in each parameter.
std::vector<Tensor> recurrent_outputs(const ShapeRule& r, std::int64_t gates);

}  // namespace graphpipe
