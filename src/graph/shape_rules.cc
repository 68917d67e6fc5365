// What comes out of an operator, from what goes in. Shapes leave out the sample.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/op_rules.h"

namespace graphpipe {
namespace {

using Shape = std::vector<std::int64_t>;

std::string shape_text(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

// One operator with what goes into it, and the ways to complain.
class Rule {
 public:
  Rule(const Graph& graph, const Operator& op, const std::string& where)
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

std::vector<Tensor> linear(const Rule& r) {
  r.expect_floating(0);
  r.expect_rank_at_least(0, 1);
  r.expect_param_rank(0, "weight (out, in)", 2);
  const std::int64_t out = r.param_shape(0)[0];
  r.expect_param(0, "weight (out, in)", {out, r.shape(0).back()}, r.in(0).dtype);
  if (r.params() == 2) r.expect_param(1, "bias (out)", {out}, r.in(0).dtype);
  Shape shape = r.shape(0);
  shape.back() = out;
  return r.result(shape);
}

std::vector<Tensor> matmul(const Rule& r) {
  for (const std::size_t i : {0U, 1U}) {
    r.expect_floating(i);
    r.expect_rank_at_least(i, 2);
  }
  r.expect_same_dtype(1);
  const std::size_t rank = r.shape(0).size();
  r.expect_rank(1, rank);
  Shape b = r.shape(1);
  if (r.op().flag("transpose_b")) std::swap(b[rank - 1], b[rank - 2]);
  Shape expected = r.shape(0);
  expected[rank - 2] = r.shape(0)[rank - 1];
  expected[rank - 1] = b[rank - 1];
  if (b != expected) {
    r.fail(fmt::format("{} has shape {}, expected the leading dimensions of {}, {}, and k = {}",
                       r.input_text(1), shape_text(r.shape(1)), r.input_text(0),
                       shape_text(r.shape(0)), r.shape(0)[rank - 1]));
  }
  Shape shape = r.shape(0);
  shape[rank - 1] = b[rank - 1];
  return r.result(shape);
}

std::vector<Tensor> attention(const Rule& r) {
  r.expect_floating(0);
  r.expect_rank(0, 2);
  const std::int64_t channels = r.shape(0)[1];
  const std::int64_t heads = r.op().integer("heads");
  if (heads < 1 || channels % heads != 0) {
    r.fail(fmt::format("heads is {}, expected a divisor of the {} channels of {}", heads, channels,
                       r.input_text(0)));
  }
  const DType dtype = r.in(0).dtype;
  r.expect_param(0, "in_weight (3C, C)", {3 * channels, channels}, dtype);
  r.expect_param(1, "in_bias (3C)", {3 * channels}, dtype);
  r.expect_param(2, "out_weight (C, C)", {channels, channels}, dtype);
  r.expect_param(3, "out_bias (C)", {channels}, dtype);
  return r.result(r.shape(0));
}

std::vector<Tensor> layer_norm(const Rule& r) {
  r.expect_floating(0);
  r.expect_rank_at_least(0, 1);
  const double epsilon = r.op().number("epsilon");
  if (!(epsilon > 0 && epsilon < 1)) {
    r.fail(fmt::format("epsilon is {}, expected more than 0 and less than 1", epsilon));
  }
  r.expect_param(0, "weight (C)", {r.shape(0).back()}, r.in(0).dtype);
  r.expect_param(1, "bias (C)", {r.shape(0).back()}, r.in(0).dtype);
  return r.result(r.shape(0));
}

std::vector<Tensor> elementwise(const Rule& r) {
  for (std::size_t i = 0; i < r.op().inputs.size(); ++i) {
    r.expect_floating(i);
    r.expect_same_dtype(i);
    r.expect_shape(i, r.shape(0));
  }
  return r.result(r.shape(0));
}

std::vector<Tensor> softmax(const Rule& r) {
  r.expect_rank_at_least(0, 1);
  return elementwise(r);
}

std::vector<Tensor> add_parameter(const Rule& r) {
  r.expect_floating(0);
  r.expect_param(0, "parameter", r.shape(0), r.in(0).dtype);
  return r.result(r.shape(0));
}

std::vector<Tensor> concat(const Rule& r) {
  const std::size_t axis = r.axis();
  Shape shape = r.shape(0);
  for (std::size_t i = 1; i < r.op().inputs.size(); ++i) {
    r.expect_same_dtype(i);
    r.expect_rank(i, shape.size());
    Shape expected = r.shape(0);
    expected[axis] = r.shape(i)[axis];
    r.expect_shape(i, expected);
    shape[axis] += r.shape(i)[axis];
  }
  return r.result(shape);
}

void expect_table(const Rule& r) {
  r.expect_int64(0);
  r.expect_param_rank(0, "table (entries, dim)", 2);
  if (!is_floating(r.param_dtype(0))) {
    r.fail(
        fmt::format("the table is {}, expected float32 or float64", dtype_name(r.param_dtype(0))));
  }
}

std::vector<Tensor> embedding(const Rule& r) {
  expect_table(r);
  Shape shape = r.shape(0);
  shape.push_back(r.param_shape(0)[1]);
  return r.result(r.param_dtype(0), shape);
}

std::vector<Tensor> embedding_bag(const Rule& r) {
  expect_table(r);
  r.expect_rank(0, 1);
  const std::string& mode = r.op().text("mode");
  if (mode != "sum" && mode != "mean") {
    r.fail(fmt::format("mode is \"{}\", expected \"sum\" or \"mean\"", mode));
  }
  return r.result(r.param_dtype(0), {r.param_shape(0)[1]});
}

std::vector<Tensor> dropout(const Rule& r) {
  const double rate = r.op().number("rate");
  if (!(rate >= 0 && rate < 1)) {
    r.fail(fmt::format("rate is {}, expected at least 0 and less than 1", rate));
  }
  return elementwise(r);
}

std::vector<Tensor> reshape(const Rule& r) {
  const Shape& shape = r.op().list("shape");
  const bool positive =
      std::all_of(shape.begin(), shape.end(), [](std::int64_t d) { return d > 0; });
  if (!positive || element_count(shape) != element_count(r.shape(0))) {
    r.fail(fmt::format("shape is {}, expected positive dimensions with the {} elements of {}",
                       shape_text(shape), element_count(r.shape(0)), r.input_text(0)));
  }
  return r.result(shape);
}

std::vector<Tensor> transpose(const Rule& r) {
  const Shape& permutation = r.op().list("permutation");
  Shape sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool fits = sorted.size() == r.shape(0).size();
  for (std::size_t i = 0; fits && i < sorted.size(); ++i) {
    fits = sorted[i] == static_cast<std::int64_t>(i);
  }
  if (!fits) {
    r.fail(fmt::format("permutation is {}, expected each of the {} dimensions of {} once",
                       shape_text(permutation), r.shape(0).size(), r.input_text(0)));
  }
  Shape shape;
  for (const std::int64_t dimension : permutation) {
    shape.push_back(r.shape(0)[static_cast<std::size_t>(dimension)]);
  }
  return r.result(shape);
}

std::vector<Tensor> slice(const Rule& r) {
  const std::size_t axis = r.axis();
  const std::int64_t start = r.op().integer("start");
  const std::int64_t length = r.op().integer("length");
  const std::int64_t extent = r.shape(0)[axis];
  if (start < 0 || start >= extent || length < 1 || length > extent - start) {
    r.fail(fmt::format("start {} and length {} do not fit in the {} elements of axis {} of {}",
                       start, length, extent, axis, r.input_text(0)));
  }
  Shape shape = r.shape(0);
  shape[axis] = length;
  return r.result(shape);
}

std::vector<Tensor> mean(const Rule& r) {
  r.expect_floating(0);
  Shape shape = r.shape(0);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(r.axis()));
  return r.result(shape);
}

// Prediction and target of one shape and type.
std::vector<Tensor> paired_loss(const Rule& r) {
  elementwise(r);
  return r.result(Shape{});
}

// Logits (..., classes) and whole-number targets (...).
std::vector<Tensor> class_loss(const Rule& r) {
  r.expect_floating(0);
  r.expect_rank_at_least(0, 1);
  r.expect_int64(1);
  r.expect_shape(1, Shape(r.shape(0).begin(), r.shape(0).end() - 1));
  return r.result(Shape{});
}

}  // namespace

std::vector<Tensor> infer_outputs(const Graph& graph, const Operator& op,
                                  const std::string& where) {
  check_arity(op, where);
  const Rule r(graph, op, where);
  switch (op.kind) {
    case OpKind::kLinear:
      return linear(r);
    case OpKind::kMatmul:
      return matmul(r);
    case OpKind::kAttention:
      return attention(r);
    case OpKind::kLayerNorm:
      return layer_norm(r);
    case OpKind::kSoftmax:
      return softmax(r);
    case OpKind::kGelu:
    case OpKind::kRelu:
    case OpKind::kAdd:
    case OpKind::kMul:
      return elementwise(r);
    case OpKind::kAddParameter:
      return add_parameter(r);
    case OpKind::kConcat:
      return concat(r);
    case OpKind::kEmbedding:
      return embedding(r);
    case OpKind::kEmbeddingBag:
      return embedding_bag(r);
    case OpKind::kDropout:
      return dropout(r);
    case OpKind::kReshape:
      return reshape(r);
    case OpKind::kTranspose:
      return transpose(r);
    case OpKind::kSlice:
      return slice(r);
    case OpKind::kMean:
      return mean(r);
    case OpKind::kMseLoss:
    case OpKind::kBinaryCrossEntropy:
      return paired_loss(r);
    case OpKind::kCrossEntropy:
    case OpKind::kCorrect:
      return class_loss(r);
  }
  GP_CHECK(false, "operator kind {}", static_cast<int>(op.kind));
}

}  // namespace graphpipe
