// The operators that are supported: the table behind docs/onnx.md's list. Functions of
// elements and reductions are rows here; others have a function of their own.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "models/onnx/families.h"
#include "models/onnx/importer.h"
#include "models/onnx/structure.h"

namespace graphpipe::onnx_import {
namespace {

struct Name {
  std::string_view onnx;
  std::string_view ours;
};

// ONNX's alpha and beta, by the attributes' names and their defaults.
struct Parameterised {
  std::string_view onnx;
  std::string_view ours;
  std::string_view alpha;
  double alpha_default;
  std::string_view beta = {};
  double beta_default = 0;
};

constexpr Name kUnary[] = {{"Abs", "abs"},
                           {"Acos", "acos"},
                           {"Acosh", "acosh"},
                           {"Asin", "asin"},
                           {"Asinh", "asinh"},
                           {"Atan", "atan"},
                           {"Atanh", "atanh"},
                           {"Ceil", "ceil"},
                           {"Cos", "cos"},
                           {"Cosh", "cosh"},
                           {"Erf", "erf"},
                           {"Exp", "exp"},
                           {"Floor", "floor"},
                           {"IsNaN", "is_nan"},
                           {"HardSwish", "hard_swish"},
                           {"Log", "log"},
                           {"Neg", "neg"},
                           {"Not", "not"},
                           {"Reciprocal", "reciprocal"},
                           {"Round", "round"},
                           {"Sign", "sign"},
                           {"Sin", "sin"},
                           {"Sinh", "sinh"},
                           {"Softplus", "softplus"},
                           {"Softsign", "softsign"},
                           {"Sqrt", "sqrt"},
                           {"Tan", "tan"}};

constexpr Parameterised kParameterised[] = {
    {"Celu", "celu", "alpha", 1},
    {"Elu", "elu", "alpha", 1},
    {"HardSigmoid", "hard_sigmoid", "alpha", 0.2, "beta", 0.5},
    {"LeakyRelu", "leaky_relu", "alpha", 0.01},
    {"Selu", "selu", "alpha", 1.67326319217681884765625, "gamma", 1.05070102214813232421875},
    {"Shrink", "shrink", "lambd", 0.5, "bias", 0},
    {"ThresholdedRelu", "thresholded_relu", "alpha", 1}};

constexpr Name kBinary[] = {{"Add", "add"},         {"And", "and"},
                            {"Div", "div"},         {"Equal", "equal"},
                            {"Greater", "greater"}, {"GreaterOrEqual", "greater_or_equal"},
                            {"Less", "less"},       {"LessOrEqual", "less_or_equal"},
                            {"Mul", "mul"},         {"Or", "or"},
                            {"PRelu", "prelu"},     {"Pow", "pow"},
                            {"Sub", "sub"},         {"Xor", "xor"}};

constexpr Name kReduce[] = {{"ReduceL1", "l1"},          {"ReduceL2", "l2"},
                            {"ReduceLogSum", "log_sum"}, {"ReduceLogSumExp", "log_sum_exp"},
                            {"ReduceMax", "max"},        {"ReduceMean", "mean"},
                            {"ReduceMin", "min"},        {"ReduceProd", "prod"},
                            {"ReduceSum", "sum"},        {"ReduceSumSquare", "sum_square"}};

template <typename Table>
const auto& row_of(const Table& table, const std::string& type) {
  return *std::ranges::find_if(table, [&](const auto& row) { return row.onnx == type; });
}

void unary(Importer& m) { m.out(m.elementwise(row_of(kUnary, m.node().type).ours, {m.in(0)})); }

void parameterised(Importer& m) {
  const Parameterised& row = row_of(kParameterised, m.node().type);
  const double beta = row.beta.empty() ? 0 : m.number(row.beta, row.beta_default);
  m.out(m.elementwise(row.ours, {m.in(0)}, m.number(row.alpha, row.alpha_default), beta));
}

void binary(Importer& m) {
  m.out(m.elementwise(row_of(kBinary, m.node().type).ours, {m.in(0), m.in(1)}));
}

// Of any number of operands: one after another.
Value chained(Importer& m, std::string_view function) {
  Value result = m.in(0);
  for (std::size_t i = 1; i < m.inputs(); ++i) result = m.elementwise(function, {result, m.in(i)});
  return result;
}

void sum(Importer& m) { m.out(chained(m, "add")); }
void maximum(Importer& m) { m.out(chained(m, "max")); }
void minimum(Importer& m) { m.out(chained(m, "min")); }
void mean(Importer& m) {
  const Value total = chained(m, "add");
  const auto count = static_cast<double>(m.inputs());
  m.out(m.elementwise("div", {total, constant_value(total.dtype, {}, {count})}));
}

void mod(Importer& m) {
  m.out(m.elementwise(m.integer("fmod", 0) != 0 ? "fmod" : "mod", {m.in(0), m.in(1)}));
}

void where(Importer& m) { m.out(m.elementwise("where", {m.in(0), m.in(1), m.in(2)})); }

void is_inf(Importer& m) {
  m.out(m.elementwise("is_inf", {m.in(0)}, double(m.integer("detect_negative", 1) != 0),
                      double(m.integer("detect_positive", 1) != 0)));
}

// Bounds that are not there stay out; beyond float32's range there are none.
void clip(Importer& m) {
  constexpr double kMost = 3.4028234663852886e38;
  const Value& x = m.in(0);
  if (x.dtype == DType::kInt64) {
    Value y = x;
    if (m.has_input(1)) y = m.elementwise("max", {y, m.in(1)});
    if (m.has_input(2)) y = m.elementwise("min", {y, m.in(2)});
    return m.out(y);
  }
  const double low = m.has_input(1) ? m.scalar(1) : -kMost;
  const double high = m.has_input(2) ? m.scalar(2) : kMost;
  m.out(
      m.elementwise("clip", {x}, std::clamp(low, -kMost, kMost), std::clamp(high, -kMost, kMost)));
}

// Activations that are kinds of their own.
void activation(Importer& m) {
  const std::string& type = m.node().type;
  const Value& x = m.in(0);
  const OpKind kind = type == "Relu"      ? OpKind::kRelu
                      : type == "Sigmoid" ? OpKind::kSigmoid
                                          : OpKind::kTanh;
  m.out(m.value_of(m.op(kind, {m.materialize(x)}, {}, {}), x.dims));
}

Value tanh_of(Importer& m, const Value& x) {
  return m.value_of(m.op(OpKind::kTanh, {m.materialize(x)}, {}, {}), x.dims);
}

// x tanh(ln(1 + e^x)).
void mish(Importer& m) {
  const Value& x = m.in(0);
  m.out(m.elementwise("mul", {x, tanh_of(m, m.elementwise("softplus", {x}))}));
}

void gelu(Importer& m) {
  const Value& x = m.in(0);
  const std::string form = m.text("approximate", "none");
  if (form == "none") {
    return m.out(m.value_of(m.op(OpKind::kGelu, {m.materialize(x)}, {}, {}), x.dims));
  }
  if (form != "tanh") m.fail(fmt::format("approximate is {}, expected none or tanh", form));
  const auto number = [&](double value) { return constant_value(x.dtype, {}, {value}); };
  const Value cube = m.elementwise("mul", {m.elementwise("mul", {x, x}), x});
  const Value sum = m.elementwise("add", {x, m.elementwise("mul", {cube, number(0.044715)})});
  const Value bend =
      tanh_of(m, m.elementwise("mul", {sum, number(std::sqrt(2 / std::numbers::pi))}));
  const Value half = m.elementwise("mul", {x, number(0.5)});
  m.out(m.elementwise("mul", {half, m.elementwise("add", {bend, number(1)})}));
}

void reduction(Importer& m) {
  const Value& x = m.in(0);
  Shape axes = axes_of(m, 1);
  const bool none_is_all = m.integer("noop_with_empty_axes", 0) == 0;
  if (axes.empty() && !none_is_all) return m.out(x);
  if (axes.empty()) {
    axes.resize(x.dims.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  const bool keep = m.integer("keepdims", 1) != 0;
  const std::string_view function = row_of(kReduce, m.node().type).ours;
  if (x.dtype != DType::kBool) return m.out(reduced(m, function, x, axes, keep));
  const Value y = reduced(m, function, m.elementwise("cast_int64", {x}), axes, keep);
  m.out(m.elementwise("cast_bool", {y}));
}

void arg(Importer& m) {
  const Value& x = m.in(0);
  const std::int64_t axis = m.integer("axis", 0);
  const std::size_t at = m.axis_of(axis, x.dims);
  const std::int64_t own = m.sample_axis(axis, x.dims);
  const std::int64_t n = x.dims[at].size;
  const bool last = m.integer("select_last_index", 0) != 0;
  const std::string_view function = m.node().type == "ArgMax" ? "arg_max" : "arg_min";
  const bool keep = m.integer("keepdims", 1) != 0;
  Dims dims = x.dims;
  dims[at].size = 1;
  if (!keep) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at));
  TensorId y = m.materialize(x);
  if (last) {
    Shape reversed;
    for (std::int64_t i = n; i-- > 0;) reversed.push_back(i);
    y = m.pick(y, own, reversed);
  }
  y = m.reduce(function, y, {own}, keep);
  if (last) y = m.with_number("sub", y, static_cast<double>(n - 1), true);
  m.out(m.value_of(y, dims));
}

// Before opset 13 all axes from `axis` on are one.
void soft(Importer& m) {
  const std::string& type = m.node().type;
  const std::string function = type == "Softmax"      ? "softmax"
                               : type == "LogSoftmax" ? "log_softmax"
                                                      : "hardmax";
  const Value& x = m.in(0);
  const bool flattens = m.opset() < 13;
  const std::int64_t axis = m.integer("axis", flattens ? 1 : -1);
  const std::size_t at = m.axis_of(axis, x.dims);
  const std::int64_t own = m.sample_axis(axis, x.dims);
  TensorId y = m.materialize(x);
  const Shape shape = x.shape();
  if (flattens) {
    for (std::size_t i = at; i < x.dims.size(); ++i) {
      if (x.dims[i].batch) m.fail("works along the axis that holds the samples");
    }
    Shape flat(shape.begin(), shape.begin() + own);
    flat.push_back(element_count({shape.begin() + own, shape.end()}));
    y = m.reshape(y, flat);
  }
  const bool last = own + 1 == static_cast<std::int64_t>(m.tensor(y).shape.size());
  y = last && type == "Softmax"
          ? m.op(OpKind::kSoftmax, {y}, {}, {})
          : m.op(OpKind::kAlongAxis, {y}, {}, {{"axis", own}, {"function", function}});
  m.out(m.value_of(m.reshape(y, shape), x.dims));
}

void cumulative_sum(Importer& m) {
  const Value& x = m.in(0);
  const std::int64_t axis = m.integers(1).at(0);
  const std::int64_t own = m.sample_axis(axis, x.dims);
  Shape reversed;
  for (std::int64_t i = x.dims[m.axis_of(axis, x.dims)].size; i-- > 0;) reversed.push_back(i);
  const bool backwards = m.integer("reverse", 0) != 0;
  TensorId from = m.materialize(x);
  if (backwards) from = m.pick(from, own, reversed);
  TensorId y = m.op(OpKind::kAlongAxis, {from}, {},
                    {{"axis", own}, {"function", std::string("cumulative_sum")}});
  if (m.integer("exclusive", 0) != 0) y = m.binary("sub", y, from);
  if (backwards) y = m.pick(y, own, reversed);
  m.out(m.value_of(y, x.dims));
}

void dropout(Importer& m) {
  const Value& x = m.in(0);
  const double rate = m.has_input(1) ? m.scalar(1) : m.number("ratio", 0.5);
  if (m.wants_output(1)) {  // of evaluation, which keeps everything
    if (rate != 0 && m.has_input(2) && m.scalar(2) != 0) m.fail("its mask is not supported");
    const auto count = static_cast<std::size_t>(element_count(x.shape()));
    Value mask = constant_value(DType::kBool, x.shape(), std::vector<double>(count, 1));
    mask.dims = x.dims;
    m.out(1, mask);
  }
  if (rate == 0) return m.out(x);
  m.out(m.value_of(m.op(OpKind::kDropout, {m.materialize(x, true, true)}, {}, {{"rate", rate}}),
                   x.dims));
}

}  // namespace

Value reduced(Importer& m, std::string_view function, const Value& x, const Shape& axes,
              bool keep) {
  std::vector<bool> gone(x.dims.size(), false);
  Shape own;
  for (const std::int64_t axis : axes) {
    gone[m.axis_of(axis, x.dims)] = true;
    own.push_back(m.sample_axis(axis, x.dims));
  }
  std::ranges::sort(own);
  if (std::ranges::adjacent_find(own) != own.end()) m.fail("names an axis twice");
  Dims dims;
  for (std::size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) dims.push_back(x.dims[i]);
    if (gone[i] && keep) dims.push_back({});
  }
  return m.value_of(m.reduce(function, m.materialize(x), own, keep), dims);
}

const std::vector<Registered>& registered_operators() {
  static const std::vector<Registered> table = [] {
    std::vector<Registered> all = {{"ArgMax", arg},
                                   {"ArgMin", arg},
                                   {"AveragePool", pool},
                                   {"BatchNormalization", batch_normalization},
                                   {"Cast", cast},
                                   {"CastLike", cast_like},
                                   {"Clip", clip},
                                   {"Concat", concat},
                                   {"Constant", constant},
                                   {"ConstantOfShape", constant_of_shape},
                                   {"Conv", conv},
                                   {"ConvTranspose", conv_transpose},
                                   {"CumSum", cumulative_sum},
                                   {"DepthToSpace", depth_to_space},
                                   {"Dropout", dropout},
                                   {"Expand", expand},
                                   {"EyeLike", eye_like},
                                   {"Flatten", flatten},
                                   {"GRU", recurrent},
                                   {"Gather", gather},
                                   {"Gelu", gelu},
                                   {"GatherElements", gather_elements},
                                   {"Gemm", gemm},
                                   {"GlobalAveragePool", global_pool},
                                   {"GlobalMaxPool", global_pool},
                                   {"GroupNormalization", group_normalization},
                                   {"Hardmax", soft},
                                   {"Identity", identity},
                                   {"InstanceNormalization", instance_normalization},
                                   {"IsInf", is_inf},
                                   {"LRN", local_response_normalization},
                                   {"LSTM", recurrent},
                                   {"LayerNormalization", layer_normalization},
                                   {"LogSoftmax", soft},
                                   {"LpNormalization", lp_normalization},
                                   {"MatMul", matmul},
                                   {"Max", maximum},
                                   {"MaxPool", pool},
                                   {"Mean", mean},
                                   {"MeanVarianceNormalization", mean_variance},
                                   {"Min", minimum},
                                   {"Mish", mish},
                                   {"Mod", mod},
                                   {"NegativeLogLikelihoodLoss", likelihood_loss},
                                   {"OneHot", one_hot},
                                   {"Pad", pad},
                                   {"RNN", recurrent},
                                   {"Range", range},
                                   {"Relu", activation},
                                   {"Reshape", reshape},
                                   {"Resize", resize},
                                   {"Shape", shape},
                                   {"Sigmoid", activation},
                                   {"Size", size},
                                   {"Slice", slice},
                                   {"Softmax", soft},
                                   {"SoftmaxCrossEntropyLoss", likelihood_loss},
                                   {"SpaceToDepth", space_to_depth},
                                   {"Split", split},
                                   {"Squeeze", squeeze},
                                   {"Sum", sum},
                                   {"Tanh", activation},
                                   {"Tile", tile},
                                   {"Transpose", transpose},
                                   {"Trilu", trilu},
                                   {"Unsqueeze", unsqueeze},
                                   {"Where", where}};
    for (const Name& row : kUnary) all.push_back({row.onnx, unary});
    for (const Parameterised& row : kParameterised) all.push_back({row.onnx, parameterised});
    for (const Name& row : kBinary) all.push_back({row.onnx, binary});
    for (const Name& row : kReduce) all.push_back({row.onnx, reduction});
    std::ranges::sort(all, {}, &Registered::type);
    return all;
  }();
  return table;
}

}  // namespace graphpipe::onnx_import
