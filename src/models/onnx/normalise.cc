// Normalisations, and the losses that ONNX has as operators.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/onnx/families.h"

namespace graphpipe::onnx_import {
namespace {

Value number_of(const Value& like, double number) {
  return constant_value(like.dtype, {}, {number});
}

struct Moments {
  Value mean, difference, variance;
};

Moments moments(Importer& m, const Value& x, const Shape& axes) {
  Moments result;
  result.mean = reduced(m, "mean", x, axes, true);
  result.difference = m.elementwise("sub", {x, result.mean});
  result.variance =
      reduced(m, "mean", m.elementwise("mul", {result.difference, result.difference}), axes, true);
  return result;
}

Value inverse_deviation(Importer& m, const Value& variance, double epsilon) {
  const Value shifted = m.elementwise("add", {variance, number_of(variance, epsilon)});
  return m.elementwise("reciprocal", {m.elementwise("sqrt", {shifted})});
}

Shape range_of(std::int64_t from, std::int64_t to) {
  Shape axes;
  for (std::int64_t i = from; i < to; ++i) axes.push_back(i);
  return axes;
}

}  // namespace

void batch_normalization(Importer& m) {
  const Value& x = m.in(0);
  if (x.dims.size() < 2 || x.dims[0] != Dim{1, true}) {
    m.fail(fmt::format("input has shape {}, expected (samples, channels, ...)", dims_text(x.dims)));
  }
  for (std::size_t i = 1; i < 5; ++i) {
    if (m.wants_output(i)) m.fail("its outputs of statistics are not supported");
  }
  const Shape channels = {x.dims[1].size};
  std::vector<ParamId> params;
  for (std::size_t i = 1; i < 5; ++i) {
    Value value = m.constant(i);
    if (value.shape() != channels) m.fail(fmt::format("input {} has not a number a channel", i));
    if (i > 2) value.weight += value.weight.empty() ? "" : m.fresh_copy(value.weight);
    params.push_back(m.param(value, channels, i <= 2));
  }
  const TensorId y = m.op(OpKind::kBatchNorm, {m.materialize(x, true, true)}, params,
                          {{"epsilon", m.number("epsilon", 1e-5)},
                           {"momentum", std::max(1e-6, 1 - m.number("momentum", 0.9))}});
  m.out(m.value_of(y, x.dims));
}

void instance_normalization(Importer& m) {
  const Value& x = m.in(0);
  const auto n = static_cast<std::int64_t>(x.dims.size());
  if (n < 3) m.fail("has no dimensions behind the channels");
  const Moments one = moments(m, x, range_of(2, n));
  Value y = m.elementwise(
      "mul", {one.difference, inverse_deviation(m, one.variance, m.number("epsilon", 1e-5))});
  Dims dims(static_cast<std::size_t>(n - 1));
  dims[0] = x.dims[1];
  y = m.elementwise("mul", {y, m.reshaped(m.in(1), dims)});
  m.out(m.elementwise("add", {y, m.reshaped(m.in(2), dims)}));
}

void layer_normalization(Importer& m) {
  const Value& x = m.in(0);
  const auto n = static_cast<std::int64_t>(x.dims.size());
  const auto axis = static_cast<std::int64_t>(m.axis_of(m.integer("axis", -1), x.dims));
  const double epsilon = m.number("epsilon", 1e-5);
  const bool plain = axis == n - 1 && !x.dims.back().batch && m.in(1).is_constant() &&
                     m.in(1).dims.size() == 1 && m.has_input(2) && m.in(2).is_constant() &&
                     !m.wants_output(1) && !m.wants_output(2);
  if (plain) {
    const Shape channels = {x.dims.back().size};
    const std::vector<ParamId> params = {m.param(m.in(1), channels, true),
                                         m.param(m.in(2), channels, true)};
    const TensorId y =
        m.op(OpKind::kLayerNorm, {m.materialize(x, true, true)}, params, {{"epsilon", epsilon}});
    return m.out(m.value_of(y, x.dims));
  }
  const Moments one = moments(m, x, range_of(axis, n));
  const Value inverse = inverse_deviation(m, one.variance, epsilon);
  Value y = m.elementwise("mul", {m.elementwise("mul", {one.difference, inverse}), m.in(1)});
  if (m.has_input(2)) y = m.elementwise("add", {y, m.in(2)});
  m.out(0, y);
  m.out(1, one.mean);
  m.out(2, inverse);
}

// From opset 21 on scale and bias have a number a channel, before that one a group.
void group_normalization(Importer& m) {
  const Value& x = m.in(0);
  if (x.dims.size() < 2) m.fail("has no channels");
  std::int64_t elements = 1;
  for (std::size_t i = 1; i < x.dims.size(); ++i) {
    if (x.dims[i].batch) m.fail("works along the axis that holds the samples");
    elements *= x.dims[i].size;
  }
  const std::int64_t channels = x.dims[1].size;
  const std::int64_t groups = m.integer("num_groups", 0);
  if (groups < 1 || channels % groups != 0) {
    m.fail(fmt::format("num_groups is {}, expected a divisor of {} channels", groups, channels));
  }
  const Value grouped = m.reshaped(x, {x.dims[0], {groups}, {elements / groups}});
  const Moments one = moments(m, grouped, {2});
  Value y = m.elementwise(
      "mul", {one.difference, inverse_deviation(m, one.variance, m.number("epsilon", 1e-5))});
  const bool a_channel = m.opset() >= 21;
  if (a_channel) y = m.reshaped(y, x.dims);
  Dims dims(a_channel ? x.dims.size() - 1 : 2);
  dims[0].size = a_channel ? channels : groups;
  for (const std::size_t i : {1, 2}) {
    if (m.in(i).shape() != Shape{dims[0].size}) {
      m.fail(fmt::format("input {} has shape {}, expected ({})", i, dims_text(m.in(i).dims),
                         dims[0].size));
    }
  }
  y = m.elementwise("mul", {y, m.reshaped(m.in(1), dims)});
  y = m.elementwise("add", {y, m.reshaped(m.in(2), dims)});
  m.out(a_channel ? y : m.reshaped(y, x.dims));
}

void lp_normalization(Importer& m) {
  const Value& x = m.in(0);
  const std::int64_t p = m.integer("p", 2);
  if (p != 1 && p != 2) m.fail(fmt::format("p is {}, expected 1 or 2", p));
  const Value norm = reduced(m, p == 1 ? "l1" : "l2", x, {m.integer("axis", -1)}, true);
  m.out(m.elementwise("div", {x, norm}));
}

void mean_variance(Importer& m) {
  const Value& x = m.in(0);
  const Moments one = moments(m, x, m.list("axes").value_or(Shape{0, 2, 3}));
  const Value shifted =
      m.elementwise("add", {m.elementwise("sqrt", {one.variance}), number_of(x, 1e-9)});
  m.out(m.elementwise("div", {one.difference, shifted}));
}

// The window over channels, as a sum of shifted copies.
void local_response_normalization(Importer& m) {
  const Value& x = m.in(0);
  const std::int64_t size = m.integer("size", 0);
  constexpr std::int64_t kMostSize = 1024;
  if (size < 1 || size > kMostSize) m.fail(fmt::format("size is {}", size));
  if (x.dims.size() < 2) m.fail("has no channels");
  const std::int64_t axis = m.sample_axis(1, x.dims);
  const TensorId tensor = m.materialize(x);
  const TensorId squares = m.binary("mul", tensor, tensor);
  const Shape shape = m.tensor(tensor).shape;
  Shape before(shape.size(), 0), after(shape.size(), 0);
  before[static_cast<std::size_t>(axis)] = (size - 1) / 2;
  after[static_cast<std::size_t>(axis)] = size / 2;
  const TensorId padded =
      m.op(OpKind::kPad, {squares}, {}, {{"after", after}, {"before", before}, {"value", 0.0}});
  TensorId sum;
  for (std::int64_t i = 0; i < size; ++i) {
    const TensorId part = m.slice(padded, axis, i, shape[static_cast<std::size_t>(axis)]);
    sum = i == 0 ? part : m.binary("add", sum, part);
  }
  const double alpha = m.number("alpha", 1e-4) / static_cast<double>(size);
  TensorId y = m.with_number("add", m.with_number("mul", sum, alpha), m.number("bias", 1));
  y = m.binary("div", tensor, m.with_number("pow", y, m.number("beta", 0.75)));
  m.out(m.value_of(y, x.dims));
}

// Scores or log-probabilities with the classes on axis 1, targets without it.
void likelihood_loss(Importer& m) {
  const bool cross_entropy = m.node().type == "SoftmaxCrossEntropyLoss";
  const Value& scores = m.in(0);
  const Value& target = m.in(1);
  const std::string reduction = m.text("reduction", "mean");
  Value log_probability = scores;
  const std::int64_t axis = m.sample_axis(1, scores.dims);
  if (cross_entropy) {
    log_probability = m.value_of(m.op(OpKind::kAlongAxis, {m.materialize(scores)}, {},
                                      {{"axis", axis}, {"function", std::string("log_softmax")}}),
                                 scores.dims);
  }
  Dims dims = target.dims;
  if (dims.empty()) m.fail("its target has no dimensions");
  dims.insert(dims.begin() + 1, Dim{});
  Dims expected = scores.dims;
  expected[1] = {};
  if (dims != expected) {
    m.fail(fmt::format("has scores {} and targets {}", dims_text(scores.dims),
                       dims_text(target.dims)));
  }
  const std::int64_t classes = scores.dims[1].size;
  // An ignored target names no class; its weight is 0 whatever stands there.
  const bool ignores = m.attribute("ignore_index") != nullptr;
  const Value ignored =
      constant_value(DType::kInt64, {}, {static_cast<double>(m.integer("ignore_index", 0))});
  Value safe = target;
  std::optional<Value> kept;
  if (ignores) {
    const Value out = m.elementwise("equal", {target, ignored});
    safe = m.elementwise("where", {out, constant_value(DType::kInt64, {}, {0}), target});
    kept = m.elementwise("cast_float32", {m.elementwise("not", {out})});
  }
  const TensorId indices = m.materialize(m.reshaped(safe, dims));
  const TensorId picked =
      m.op(OpKind::kGather, {m.materialize(log_probability), indices}, {},
           {{"axis", axis}, {"mode", std::string("elements")}, {"operands", Shape{0, 1}}});
  Value loss = m.reshaped(m.value_of(m.unary("neg", picked), dims), target.dims);
  std::optional<Value> weights = kept;
  if (m.has_input(2)) {
    const Value& given = m.in(2);
    if (given.shape() != Shape{classes}) m.fail("has not a weight for each class");
    const TensorId each = m.op(
        OpKind::kGather, {m.materialize(given), m.materialize(safe)}, {},
        {{"axis", std::int64_t{0}}, {"mode", std::string("index")}, {"operands", Shape{0, 1}}});
    const Value own = m.value_of(each, target.dims);
    weights = kept ? m.elementwise("mul", {own, *kept}) : own;
  }
  if (weights) loss = m.elementwise("mul", {loss, *weights});
  if (reduction != "none") {
    const Shape all = range_of(0, static_cast<std::int64_t>(target.dims.size()));
    Value sum = reduced(m, "sum", loss, all, false);
    if (reduction == "mean") {
      const auto count = static_cast<double>(element_count(target.shape()));
      sum = m.elementwise(
          "div", {sum, weights ? reduced(m, "sum", *weights, all, false) : number_of(loss, count)});
    }
    loss = sum;
  }
  m.out(0, loss);
  m.out(1, log_probability);
}

}  // namespace graphpipe::onnx_import
