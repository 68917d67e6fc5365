// What comes out of an operator, from what goes in. Shapes leave out the sample.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/op_rules.h"
#include "graph/shape_rule.h"

namespace graphpipe {
namespace {

std::vector<Tensor> linear(const ShapeRule& r) {
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

std::vector<Tensor> matmul(const ShapeRule& r) {
  for (const std::size_t i : {0U, 1U}) {
    r.expect_floating(i);
    r.expect_rank_at_least(i, 2);
  }
  r.expect_same_dtype(1);
  const Shape& a = r.shape(0);
  Shape b = r.shape(1);
  if (r.op().flag("transpose_b")) std::swap(b[b.size() - 1], b[b.size() - 2]);
  const Shape matrix = {a[a.size() - 2], b.back()};
  const auto leading = broadcast_shape({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!leading || b[b.size() - 2] != a.back()) {
    r.fail(fmt::format("{} has shape {}, expected the leading dimensions of {}, {}, and k = {}",
                       r.input_text(1), shape_text(r.shape(1)), r.input_text(0), shape_text(a),
                       a.back()));
  }
  Shape shape = *leading;
  shape.insert(shape.end(), matrix.begin(), matrix.end());
  return r.result(shape);
}

std::vector<Tensor> attention(const ShapeRule& r) {
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

std::vector<Tensor> layer_norm(const ShapeRule& r) {
  r.expect_floating(0);
  r.expect_rank_at_least(0, 1);
  r.expect_epsilon();
  r.expect_param(0, "weight (C)", {r.shape(0).back()}, r.in(0).dtype);
  r.expect_param(1, "bias (C)", {r.shape(0).back()}, r.in(0).dtype);
  return r.result(r.shape(0));
}

std::vector<Tensor> elementwise(const ShapeRule& r) {
  for (std::size_t i = 0; i < r.op().inputs.size(); ++i) {
    r.expect_floating(i);
    r.expect_same_dtype(i);
    r.expect_shape(i, r.shape(0));
  }
  return r.result(r.shape(0));
}

std::vector<Tensor> softmax(const ShapeRule& r) {
  r.expect_rank_at_least(0, 1);
  return elementwise(r);
}

std::vector<Tensor> add_parameter(const ShapeRule& r) {
  r.expect_floating(0);
  r.expect_param(0, "parameter", r.shape(0), r.in(0).dtype);
  return r.result(r.shape(0));
}

std::vector<Tensor> concat(const ShapeRule& r) {
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

void expect_table(const ShapeRule& r) {
  r.expect_int64(0);
  r.expect_param_rank(0, "table (entries, dim)", 2);
  if (!is_floating(r.param_dtype(0))) {
    r.fail(
        fmt::format("the table is {}, expected float32 or float64", dtype_name(r.param_dtype(0))));
  }
}

std::vector<Tensor> embedding(const ShapeRule& r) {
  expect_table(r);
  Shape shape = r.shape(0);
  shape.push_back(r.param_shape(0)[1]);
  return r.result(r.param_dtype(0), shape);
}

std::vector<Tensor> embedding_bag(const ShapeRule& r) {
  expect_table(r);
  r.expect_rank(0, 1);
  const std::string& mode = r.op().text("mode");
  if (mode != "sum" && mode != "mean") {
    r.fail(fmt::format("mode is \"{}\", expected \"sum\" or \"mean\"", mode));
  }
  return r.result(r.param_dtype(0), {r.param_shape(0)[1]});
}

std::vector<Tensor> dropout(const ShapeRule& r) {
  const double rate = r.op().number("rate");
  if (!(rate >= 0 && rate < 1)) {
    r.fail(fmt::format("rate is {}, expected at least 0 and less than 1", rate));
  }
  return elementwise(r);
}

std::vector<Tensor> reshape(const ShapeRule& r) {
  const Shape& shape = r.op().list("shape");
  const bool positive =
      std::all_of(shape.begin(), shape.end(), [](std::int64_t d) { return d > 0; });
  if (!positive || element_count(shape) != element_count(r.shape(0))) {
    r.fail(fmt::format("shape is {}, expected positive dimensions with the {} elements of {}",
                       shape_text(shape), element_count(r.shape(0)), r.input_text(0)));
  }
  return r.result(shape);
}

std::vector<Tensor> transpose(const ShapeRule& r) {
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

std::vector<Tensor> slice(const ShapeRule& r) {
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

std::vector<Tensor> mean(const ShapeRule& r) {
  r.expect_floating(0);
  Shape shape = r.shape(0);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(r.axis()));
  return r.result(shape);
}

// Prediction and target of one shape and type.
std::vector<Tensor> paired_loss(const ShapeRule& r) {
  elementwise(r);
  return r.result(Shape{});
}

// Logits (..., classes) and whole-number targets (...).
std::vector<Tensor> class_loss(const ShapeRule& r) {
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
  const ShapeRule r(graph, op, where);
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
    case OpKind::kSigmoid:
    case OpKind::kTanh:
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
    case OpKind::kSplit:
      return split_outputs(r);
    case OpKind::kPad:
      return pad_outputs(r);
    case OpKind::kMean:
      return mean(r);
    case OpKind::kConv1d:
      return conv_outputs(r, 1);
    case OpKind::kConv2d:
      return conv_outputs(r, 2);
    case OpKind::kConvTranspose2d:
      return conv_transpose2d_outputs(r);
    case OpKind::kMaxPool2d:
    case OpKind::kAvgPool2d:
      return pool2d_outputs(r);
    case OpKind::kGlobalAvgPool:
      return global_avg_pool_outputs(r);
    case OpKind::kResize:
      return resize_outputs(r);
    case OpKind::kBatchNorm:
      return batch_norm_outputs(r);
    case OpKind::kLstm:
      return recurrent_outputs(r, 4);
    case OpKind::kGru:
      return recurrent_outputs(r, 3);
    case OpKind::kElementwise:
      return elementwise_outputs(r);
    case OpKind::kReduce:
      return reduce_outputs(r);
    case OpKind::kAlongAxis:
      return along_axis_outputs(r);
    case OpKind::kGather:
      return gather_outputs(r);
    case OpKind::kExpand:
      return expand_outputs(r);
    case OpKind::kMseLoss:
    case OpKind::kBinaryCrossEntropy:
      return paired_loss(r);
    case OpKind::kCrossEntropy:
    case OpKind::kCorrect:
      return class_loss(r);
    case OpKind::kOpaque:
      return opaque_outputs(r);
    case OpKind::kCustom:
      return custom_outputs(graph, r, where);
  }
  GP_CHECK(false, "operator kind {}", static_cast<int>(op.kind));
}

}  // namespace graphpipe
