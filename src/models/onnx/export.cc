#include "models/onnx/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "graph/functions.h"
#include "models/onnx/value.h"

namespace graphpipe {
namespace {

using Shape = std::vector<std::int64_t>;
using Names = std::vector<std::string>;
using Attributes = std::map<std::string, OnnxAttribute, std::less<>>;

struct Name {
  std::string_view ours;
  std::string_view onnx;
};

constexpr Name kElementwise[] = {{"identity", "Identity"},
                                 {"abs", "Abs"},
                                 {"neg", "Neg"},
                                 {"sign", "Sign"},
                                 {"floor", "Floor"},
                                 {"ceil", "Ceil"},
                                 {"round", "Round"},
                                 {"sqrt", "Sqrt"},
                                 {"reciprocal", "Reciprocal"},
                                 {"exp", "Exp"},
                                 {"log", "Log"},
                                 {"erf", "Erf"},
                                 {"sin", "Sin"},
                                 {"cos", "Cos"},
                                 {"tan", "Tan"},
                                 {"asin", "Asin"},
                                 {"acos", "Acos"},
                                 {"atan", "Atan"},
                                 {"sinh", "Sinh"},
                                 {"cosh", "Cosh"},
                                 {"asinh", "Asinh"},
                                 {"acosh", "Acosh"},
                                 {"atanh", "Atanh"},
                                 {"softplus", "Softplus"},
                                 {"softsign", "Softsign"},
                                 {"elu", "Elu"},
                                 {"hard_swish", "HardSwish"},
                                 {"is_nan", "IsNaN"},
                                 {"not", "Not"},
                                 {"add", "Add"},
                                 {"sub", "Sub"},
                                 {"mul", "Mul"},
                                 {"div", "Div"},
                                 {"pow", "Pow"},
                                 {"mod", "Mod"},
                                 {"fmod", "Mod"},
                                 {"max", "Max"},
                                 {"min", "Min"},
                                 {"prelu", "PRelu"},
                                 {"equal", "Equal"},
                                 {"less", "Less"},
                                 {"less_or_equal", "LessOrEqual"},
                                 {"greater", "Greater"},
                                 {"and", "And"},
                                 {"greater_or_equal", "GreaterOrEqual"},
                                 {"or", "Or"},
                                 {"xor", "Xor"},
                                 {"where", "Where"},
                                 {"leaky_relu", "LeakyRelu"},
                                 {"celu", "Celu"},
                                 {"selu", "Selu"},
                                 {"hard_sigmoid", "HardSigmoid"},
                                 {"is_inf", "IsInf"},
                                 {"shrink", "Shrink"},
                                 {"thresholded_relu", "ThresholdedRelu"}};

constexpr Name kReduce[] = {{"sum", "ReduceSum"},        {"mean", "ReduceMean"},
                            {"max", "ReduceMax"},        {"min", "ReduceMin"},
                            {"prod", "ReduceProd"},      {"l1", "ReduceL1"},
                            {"l2", "ReduceL2"},          {"sum_square", "ReduceSumSquare"},
                            {"log_sum", "ReduceLogSum"}, {"log_sum_exp", "ReduceLogSumExp"},
                            {"arg_max", "ArgMax"},       {"arg_min", "ArgMin"}};

template <typename Table>
std::string onnx_name(const Table& table, const std::string& ours) {
  const auto found = std::ranges::find(table, ours, &Name::ours);
  return found == std::end(table) ? "" : std::string(found->onnx);
}

std::int64_t type_code(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 1;
    case DType::kFloat64:
      return 11;
    case DType::kInt64:
      return 7;
    case DType::kBool:
      return 9;
  }
  GP_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

bool is_loss_or_metric(OpKind kind) {
  return kind == OpKind::kMseLoss || kind == OpKind::kCrossEntropy ||
         kind == OpKind::kBinaryCrossEntropy || kind == OpKind::kCorrect;
}

class Exporter {
 public:
  Exporter(const Graph& graph, const Weights& weights, const std::string& where)
      : graph_(graph), weights_(weights), where_(where) {
    for (const Tensor& tensor : graph.tensors) taken_.insert(tensor.name);
    for (const Parameter& param : graph.params) taken_.insert(param.name);
  }

  OnnxModel run() {
    model_.name = graph_.name;
    const std::vector<TensorId> results = results_of();
    const std::vector<bool> wanted = wanted_ops(results);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (!wanted[i]) continue;
      op_ = &graph_.ops[i];
      write_op();
    }
    for (const TensorId input : graph_.inputs) {
      if (read_.contains(input.index())) model_.inputs.push_back(value_of(input));
    }
    for (const TensorId result : results) model_.outputs.push_back(value_of(result));
    return std::move(model_);
  }

 private:
  // What losses are taken of; of a tensor of the model itself, that.
  std::vector<TensorId> results_of() const {
    std::vector<TensorId> results;
    const auto add = [&](TensorId tensor) {
      if (std::ranges::find(results, tensor) == results.end()) results.push_back(tensor);
    };
    for (const Loss& loss : graph_.losses) {
      const OpId producer = graph_.tensor(loss.tensor).producer;
      const bool own = !producer.valid() || !is_loss_or_metric(graph_.op(producer).kind);
      add(own ? loss.tensor : graph_.op(producer).inputs[0]);
    }
    const std::vector<std::vector<OpId>> readers = consumers(graph_);
    for (std::size_t t = 0; t < readers.size() && graph_.losses.empty(); ++t) {
      if (readers[t].empty()) add(TensorId(t));
    }
    return results;
  }

  std::vector<bool> wanted_ops(const std::vector<TensorId>& results) {
    std::vector<bool> wanted(graph_.ops.size(), false);
    for (const TensorId result : results) read_.insert(result.index());
    for (std::size_t i = graph_.ops.size(); i-- > 0;) {
      const Operator& op = graph_.ops[i];
      wanted[i] =
          std::ranges::any_of(op.outputs, [&](TensorId t) { return read_.contains(t.index()); });
      if (!wanted[i]) continue;
      for (const TensorId input : op.inputs) read_.insert(input.index());
    }
    return wanted;
  }

  OnnxValue value_of(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    OnnxValue value;
    value.name = tensor.name;
    value.dtype = tensor.dtype;
    if (tensor.batched) value.dims.push_back({-1, "N"});
    for (const std::int64_t size : tensor.shape) value.dims.push_back({size, ""});
    return value;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(
        where_, fmt::format("operator \"{}\" ({}) {}", op_->name, op_kind_name(op_->kind), what));
  }

  // --- pieces
  std::string fresh(std::string_view what) {
    std::string name = fmt::format("{}.{}", op_->name, what);
    for (int i = 2; !taken_.insert(name).second; ++i) {
      name = fmt::format("{}.{}.{}", op_->name, what, i);
    }
    return name;
  }

  void node(std::string type, Names inputs, Names outputs, Attributes attributes = {}) {
    model_.nodes.push_back({outputs[0], std::move(type), "", std::move(inputs), std::move(outputs),
                            std::move(attributes)});
  }
  std::string step(const std::string& type, Names inputs, Attributes attributes = {}) {
    std::string name = fresh(type);
    node(type, std::move(inputs), {name}, std::move(attributes));
    return name;
  }
  // The operator's own output.
  void last(const std::string& type, Names inputs, Attributes attributes = {}) {
    node(type, std::move(inputs), {out()}, std::move(attributes));
  }

  const Tensor& in(std::size_t i) const { return graph_.tensor(op_->inputs[i]); }
  std::string x(std::size_t i = 0) const { return in(i).name; }
  std::string out() const { return graph_.tensor(op_->outputs[0]).name; }
  const Tensor& output() const { return graph_.tensor(op_->outputs[0]); }
  std::int64_t shift() const { return in(0).batched ? 1 : 0; }
  std::int64_t onnx_axis(std::int64_t axis) const { return axis < 0 ? axis : axis + shift(); }
  Shape onnx_axes(Shape axes) const {
    for (std::int64_t& axis : axes) axis = onnx_axis(axis);
    return axes;
  }

  std::string constant(OnnxTensor tensor, std::string_view what) {
    tensor.name = fresh(what);
    model_.initializers.push_back(tensor);
    return tensor.name;
  }
  std::string integers(const Shape& numbers, std::string_view what) {
    OnnxTensor tensor;
    tensor.dtype = DType::kInt64;
    tensor.shape = {static_cast<std::int64_t>(numbers.size())};
    tensor.bytes.resize(numbers.size() * sizeof(std::int64_t));
    std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
    return constant(std::move(tensor), what);
  }
  std::string number(double value, DType dtype, std::string_view what) {
    const auto made = onnx_import::constant_value(dtype, {}, {value});
    return constant({"", dtype, {}, *made.bytes}, what);
  }
  std::string transposed(const std::string& name, Shape permutation) {
    return step("Transpose", {name}, {{"perm", std::move(permutation)}});
  }
  std::string unsqueezed(const std::string& name, const Shape& axes) {
    return step("Unsqueeze", {name, integers(axes, "axes")});
  }
  // A batched tensor with ones behind the samples, so that it broadcasts as ours does.
  std::string aligned(std::size_t i, std::size_t rank) {
    if (!in(i).batched || in(i).shape.size() >= rank) return x(i);
    Shape axes;
    for (std::size_t k = 1; k <= rank - in(i).shape.size(); ++k) {
      axes.push_back(static_cast<std::int64_t>(k));
    }
    return unsqueezed(x(i), axes);
  }

  // --- parameters, each an initializer once
  const WeightValues* values_of(const Parameter& param) {
    const auto found = weights_.find(param.name);
    if (found != weights_.end()) {
      if (found->second.shape == param.shape && found->second.dtype == param.dtype) {
        return &found->second;
      }
      throw InputError(where_,
                       fmt::format("the weights of \"{}\" have another shape or type", param.name));
    }
    if (!param.values) {
      throw InputError(where_, fmt::format("there are no weights of \"{}\"", param.name));
    }
    return nullptr;
  }
  std::string bytes_of(const Parameter& param) {
    const WeightValues* values = values_of(param);
    return values != nullptr ? *values->values : *param.values;
  }
  std::string p(std::size_t i) {
    const Parameter& param = graph_.param(op_->params[i]);
    if (written_.insert(param.name).second) {
      model_.initializers.push_back({param.name, param.dtype, param.shape, bytes_of(param)});
    }
    return param.name;
  }

  // --- operators
  std::string product(const std::string& from, std::size_t weight) {
    return step("MatMul", {from, transposed(p(weight), {1, 0})});
  }

  void write_linear() {
    if (in(0).batched && in(0).shape.size() == 1) {
      Names inputs = {x(), p(0)};
      if (op_->params.size() > 1) inputs.push_back(p(1));
      return last("Gemm", inputs, {{"transB", std::int64_t{1}}});
    }
    const std::string weight = transposed(p(0), {1, 0});
    if (op_->params.size() == 1) return last("MatMul", {x(), weight});
    last("Add", {step("MatMul", {x(), weight}), p(1)});
  }

  void write_matmul() {
    const std::size_t rank = std::max(in(0).shape.size(), in(1).shape.size());
    std::string b = aligned(1, rank);
    if (op_->flag("transpose_b")) {
      const std::size_t dimensions = std::max(in(1).shape.size(), in(1).batched ? rank : 0) +
                                     static_cast<std::size_t>(in(1).batched);
      Shape permutation;
      for (std::size_t d = 0; d < dimensions; ++d) {
        permutation.push_back(static_cast<std::int64_t>(d));
      }
      std::swap(permutation[dimensions - 1], permutation[dimensions - 2]);
      b = transposed(b, permutation);
    }
    last("MatMul", {aligned(0, rank), b});
  }

  void write_attention() {
    const std::int64_t t = in(0).shape[0], c = in(0).shape[1], heads = op_->integer("heads");
    const std::int64_t d = c / heads;
    std::string y = step("Add", {product(x(), 0), p(1)});
    y = step("Reshape", {y, integers({-1, t, 3, heads, d}, "shape")});
    y = transposed(y, {2, 0, 3, 1, 4});
    Names parts;
    for (const char* what : {"q", "k", "v"}) parts.push_back(fresh(what));
    node("Split", {y, integers({1, 1, 1}, "sizes")}, parts, {{"axis", std::int64_t{0}}});
    for (std::string& part : parts) part = step("Squeeze", {part, integers({0}, "axes")});
    std::string scores = step("MatMul", {parts[0], transposed(parts[1], {0, 1, 3, 2})});
    scores =
        step("Mul", {scores, number(1 / std::sqrt(static_cast<double>(d)), in(0).dtype, "scale")});
    if (op_->flag("causal")) {
      std::vector<double> kept;
      for (std::int64_t r = 0; r < t; ++r) {
        for (std::int64_t s = 0; s < t; ++s) kept.push_back(s <= r);
      }
      const auto mask = onnx_import::constant_value(DType::kBool, {t, t}, kept);
      scores = step("Where", {constant({"", DType::kBool, {t, t}, *mask.bytes}, "mask"), scores,
                              number(-INFINITY, in(0).dtype, "hidden")});
    }
    y = step("MatMul", {step("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), parts[2]});
    y = step("Reshape", {transposed(y, {0, 2, 1, 3}), integers({-1, t, c}, "shape")});
    last("Add", {product(y, 2), p(3)});
  }

  void write_gelu() {
    const DType dtype = in(0).dtype;
    const std::string e = step("Erf", {step("Mul", {x(), number(std::sqrt(0.5), dtype, "root")})});
    const std::string half = step("Mul", {x(), number(0.5, dtype, "half")});
    last("Mul", {half, step("Add", {e, number(1, dtype, "one")})});
  }

  void write_embedding_bag() {
    const DType dtype = output().dtype;
    const std::string zero = number(0, DType::kInt64, "zero");
    const std::string kept =
        step("Cast", {step("GreaterOrEqual", {x(), zero})}, {{"to", type_code(dtype)}});
    const std::string rows = step("Gather", {p(0), step("Max", {x(), zero})});
    const std::string weighed = step("Mul", {rows, unsqueezed(kept, {2})});
    const Attributes flat = {{"keepdims", std::int64_t{0}}};
    const std::string axis = integers({1}, "axis");
    if (op_->text("mode") == "sum") return last("ReduceSum", {weighed, axis}, flat);
    const std::string count = step("ReduceSum", {kept, axis}, {{"keepdims", std::int64_t{1}}});
    last("Div",
         {step("ReduceSum", {weighed, axis}, flat), step("Max", {count, number(1, dtype, "one")})});
  }

  Attributes window_attributes(const Shape& kernel) const {
    Shape pads = op_->list("padding");
    pads.insert(pads.end(), op_->list("padding").begin(), op_->list("padding").end());
    return {{"kernel_shape", kernel}, {"pads", pads}, {"strides", op_->list("stride")}};
  }

  void write_convolution() {
    const Shape& weight = graph_.param(op_->params[0]).shape;
    Attributes attributes = window_attributes({weight.begin() + 2, weight.end()});
    attributes["dilations"] = op_->list("dilation");
    attributes["group"] = op_->integer("groups");
    const bool grows = op_->kind == OpKind::kConvTranspose2d;
    if (grows) attributes["output_padding"] = op_->list("output_padding");
    Names inputs = {x(), p(0)};
    if (op_->params.size() > 1) inputs.push_back(p(1));
    last(grows ? "ConvTranspose" : "Conv", inputs, attributes);
  }

  void write_pool() {
    Attributes attributes = window_attributes(op_->list("kernel"));
    const bool largest = op_->kind == OpKind::kMaxPool2d;
    if (!largest) attributes["count_include_pad"] = std::int64_t{1};
    last(largest ? "MaxPool" : "AveragePool", {x()}, attributes);
  }

  void write_resize() {
    const bool nearest = op_->text("mode") == "nearest";
    const std::string own =
        step("Slice", {step("Shape", {x()}), integers({0}, "start"), integers({2}, "end")});
    const std::string size =
        step("Concat", {own, integers(op_->list("size"), "size")}, {{"axis", std::int64_t{0}}});
    last("Resize", {x(), "", "", size},
         {{"mode", std::string(nearest ? "nearest" : "linear")},
          {"nearest_mode", std::string("floor")},
          {"coordinate_transformation_mode", std::string(nearest ? "asymmetric" : "half_pixel")}});
  }

  // A parameter's gates (PyTorch's order) in ONNX's, behind an axis of one direction.
  std::string gates(const std::vector<std::size_t>& params, const std::vector<std::size_t>& order,
                    std::string_view what) {
    OnnxTensor tensor;
    tensor.dtype = graph_.param(op_->params[params[0]]).dtype;
    tensor.shape = {1};
    for (const std::size_t i : params) {
      const Parameter& param = graph_.param(op_->params[i]);
      const std::string bytes = bytes_of(param);
      const std::size_t block = bytes.size() / order.size();
      for (const std::size_t gate : order) tensor.bytes += bytes.substr(gate * block, block);
      if (tensor.shape.size() == 1) {
        tensor.shape.insert(tensor.shape.end(), param.shape.begin(), param.shape.end());
      } else {
        tensor.shape[1] += param.shape[0];
      }
    }
    return constant(std::move(tensor), what);
  }

  void write_recurrent() {
    const bool lstm = op_->kind == OpKind::kLstm;
    const std::vector<std::size_t> order =
        lstm ? std::vector<std::size_t>{0, 3, 1, 2} : std::vector<std::size_t>{1, 0, 2};
    Attributes attributes = {{"hidden_size", graph_.param(op_->params[1]).shape[1]}};
    if (!lstm) attributes["linear_before_reset"] = std::int64_t{1};
    const std::string y = step(lstm ? "LSTM" : "GRU",
                               {transposed(x(), {1, 0, 2}), gates({0}, order, "weight"),
                                gates({1}, order, "recurrence"), gates({2, 3}, order, "bias")},
                               attributes);  // (T, 1, N, H)
    last("Transpose", {step("Squeeze", {y, integers({1}, "axis")})}, {{"perm", Shape{1, 0, 2}}});
  }

  // Names of what attribute operands lists, so that they broadcast.
  Names operands(std::size_t rank) {
    Names names;
    for (const std::int64_t k : op_->list("operands")) {
      names.push_back(k < 0 ? p(static_cast<std::size_t>(-(k + 1)))
                            : aligned(static_cast<std::size_t>(k), rank));
    }
    return names;
  }

  // What has no samples, as many times as input 0 has.
  std::string with_samples(const std::string& name, const Shape& shape) {
    const std::string samples =
        step("Slice", {step("Shape", {x()}), integers({0}, "start"), integers({1}, "end")});
    const std::string sizes = shape.empty() ? samples
                                            : step("Concat", {samples, integers(shape, "shape")},
                                                   {{"axis", std::int64_t{0}}});
    return step("Expand", {name, sizes});
  }

  void write_elementwise() {
    const std::string& function = op_->text("function");
    const double alpha = op_->number("alpha"), beta = op_->number("beta");
    Names names = operands(output().shape.size());
    const bool batched = std::ranges::any_of(op_->list("operands"), [&](std::int64_t k) {
      return k >= 0 && in(static_cast<std::size_t>(k)).batched;
    });
    Attributes attributes;
    std::string type = onnx_name(kElementwise, function);
    if (function.starts_with("cast_")) {
      type = "Cast";
      attributes["to"] = type_code(output().dtype);
    } else if (function == "clip") {
      type = "Clip";
      names.push_back(number(alpha, output().dtype, "low"));
      names.push_back(number(beta, output().dtype, "high"));
    } else if (function == "fmod" || (function == "mod" && is_floating(output().dtype))) {
      if (function == "mod") fail("takes a remainder of fractions with the divisor's sign");
      attributes["fmod"] = std::int64_t{1};
    } else if (function == "is_inf") {
      attributes["detect_negative"] = static_cast<std::int64_t>(alpha);
      attributes["detect_positive"] = static_cast<std::int64_t>(beta);
    } else if (function == "shrink") {
      attributes["lambd"] = alpha;
      attributes["bias"] = beta;
    } else if (function == "selu") {
      attributes["alpha"] = alpha;
      attributes["gamma"] = beta;
    } else if (function == "hard_sigmoid") {
      attributes["alpha"] = alpha;
      attributes["beta"] = beta;
    } else if (function == "leaky_relu" || function == "elu" || function == "celu" ||
               function == "thresholded_relu") {
      attributes["alpha"] = alpha;
    }
    if (type.empty()) fail(fmt::format("has no form in ONNX: {}", function));
    if (batched == output().batched) return last(type, names, attributes);
    last("Identity", {with_samples(step(type, names, attributes), output().shape)});
  }

  void write_reduce() {
    const std::string& function = op_->text("function");
    const Shape axes = onnx_axes(op_->list("axes"));
    Attributes attributes = {{"keepdims", std::int64_t{op_->flag("keep")}}};
    Names inputs = {x()};
    if (is_arg_function(function)) {
      attributes["axis"] = axes[0];
    } else if (axes.empty()) {
      fail("reduces over no axis");
    } else if (function == "sum") {
      inputs.push_back(integers(axes, "axes"));
    } else {
      attributes["axes"] = axes;
    }
    last(onnx_name(kReduce, function), inputs, attributes);
  }

  void write_along_axis() {
    const std::string& function = op_->text("function");
    const std::int64_t axis = onnx_axis(op_->integer("axis"));
    if (function == "cumulative_sum") {
      return last("CumSum", {x(), number(static_cast<double>(axis), DType::kInt64, "axis")});
    }
    last(function == "softmax"       ? "Softmax"
         : function == "log_softmax" ? "LogSoftmax"
                                     : "Hardmax",
         {x()}, {{"axis", axis}});
  }

  void write_gather() {
    const Shape& places = op_->list("operands");
    const auto batched = [&](std::size_t i) {
      return places[i] >= 0 && in(static_cast<std::size_t>(places[i])).batched;
    };
    const std::int64_t axis = op_->integer("axis");
    const std::size_t rank = 0;
    Names names = operands(rank);
    const bool by_index = op_->text("mode") == "index";
    if (by_index && batched(1) && (batched(0) || axis != 0)) {
      fail("gathers other elements of each sample along an axis, which has no form in ONNX");
    }
    if (!by_index && batched(0) != batched(1)) fail("gathers from what has no samples by what has");
    const std::string type = by_index ? "Gather" : "GatherElements";
    const Attributes attributes = {{"axis", axis + static_cast<std::int64_t>(batched(0))}};
    if ((batched(0) || batched(1)) == output().batched) return last(type, names, attributes);
    last("Identity", {with_samples(step(type, names, attributes), output().shape)});
  }

  void write_expand() {
    Shape shape = op_->list("shape");
    const std::string from = aligned(0, shape.size());
    if (in(0).batched) shape.insert(shape.begin(), 1);
    last("Expand", {from, integers(shape, "shape")});
  }

  void write_split() {
    Names names;
    for (const TensorId t : op_->outputs) names.push_back(graph_.tensor(t).name);
    node("Split", {x(), integers(op_->list("sizes"), "sizes")}, names,
         {{"axis", onnx_axis(op_->integer("axis"))}});
  }

  void write_pad() {
    Shape pads;
    for (const char* side : {"before", "after"}) {
      if (in(0).batched) pads.push_back(0);
      pads.insert(pads.end(), op_->list(side).begin(), op_->list(side).end());
    }
    last("Pad", {x(), integers(pads, "pads"), number(op_->number("value"), in(0).dtype, "value")});
  }

  void write_reshape() {
    Shape shape = op_->list("shape");
    if (in(0).batched) shape.insert(shape.begin(), -1);
    last("Reshape", {x(), integers(shape, "shape")});
  }

  void write_transpose() {
    Shape permutation = onnx_axes(op_->list("permutation"));
    if (in(0).batched) permutation.insert(permutation.begin(), 0);
    last("Transpose", {x()}, {{"perm", permutation}});
  }

  void write_slice() {
    const std::int64_t start = op_->integer("start");
    last("Slice",
         {x(), integers({start}, "start"), integers({start + op_->integer("length")}, "end"),
          integers({onnx_axis(op_->integer("axis"))}, "axis")});
  }

  void write_batch_norm() {
    last("BatchNormalization", {x(), p(0), p(1), p(2), p(3)},
         {{"epsilon", op_->number("epsilon")}, {"momentum", 1 - op_->number("momentum")}});
  }

  void write_add() {
    std::string sum = x();
    for (std::size_t i = 1; i + 1 < op_->inputs.size(); ++i) sum = step("Add", {sum, x(i)});
    last("Add", {sum, x(op_->inputs.size() - 1)});
  }

  void write_concat() {
    Names names;
    for (std::size_t i = 0; i < op_->inputs.size(); ++i) names.push_back(x(i));
    last("Concat", names, {{"axis", onnx_axis(op_->integer("axis"))}});
  }

  void write_op() {
    const Attributes last_axis = {{"axis", std::int64_t{-1}}};
    switch (op_->kind) {
      case OpKind::kLinear:
        return write_linear();
      case OpKind::kMatmul:
        return write_matmul();
      case OpKind::kAttention:
        return write_attention();
      case OpKind::kLayerNorm:
        return last("LayerNormalization", {x(), p(0), p(1)},
                    {{"axis", std::int64_t{-1}}, {"epsilon", op_->number("epsilon")}});
      case OpKind::kSoftmax:
        return last("Softmax", {x()}, last_axis);
      case OpKind::kGelu:
        return write_gelu();
      case OpKind::kRelu:
        return last("Relu", {x()});
      case OpKind::kSigmoid:
        return last("Sigmoid", {x()});
      case OpKind::kTanh:
        return last("Tanh", {x()});
      case OpKind::kAdd:
        return write_add();
      case OpKind::kMul:
        return last("Mul", {x(), x(1)});
      case OpKind::kAddParameter:
        return last("Add", {x(), p(0)});
      case OpKind::kConcat:
        return write_concat();
      case OpKind::kEmbedding:
        return last("Gather", {p(0), x()});
      case OpKind::kEmbeddingBag:
        return write_embedding_bag();
      case OpKind::kDropout:
        return last("Dropout", {x(), number(op_->number("rate"), DType::kFloat32, "rate")});
      case OpKind::kReshape:
        return write_reshape();
      case OpKind::kTranspose:
        return write_transpose();
      case OpKind::kSlice:
        return write_slice();
      case OpKind::kSplit:
        return write_split();
      case OpKind::kPad:
        return write_pad();
      case OpKind::kMean:
        return last(
            "ReduceMean", {x()},
            {{"axes", Shape{onnx_axis(op_->integer("axis"))}}, {"keepdims", std::int64_t{0}}});
      case OpKind::kElementwise:
        return write_elementwise();
      case OpKind::kReduce:
        return write_reduce();
      case OpKind::kAlongAxis:
        return write_along_axis();
      case OpKind::kGather:
        return write_gather();
      case OpKind::kExpand:
        return write_expand();
      case OpKind::kConv1d:
      case OpKind::kConv2d:
      case OpKind::kConvTranspose2d:
        return write_convolution();
      case OpKind::kMaxPool2d:
      case OpKind::kAvgPool2d:
        return write_pool();
      case OpKind::kGlobalAvgPool:
        return last("Flatten", {step("GlobalAveragePool", {x()})});
      case OpKind::kResize:
        return write_resize();
      case OpKind::kBatchNorm:
        return write_batch_norm();
      case OpKind::kLstm:
      case OpKind::kGru:
        return write_recurrent();
      case OpKind::kMseLoss:
      case OpKind::kCrossEntropy:
      case OpKind::kBinaryCrossEntropy:
      case OpKind::kCorrect:
        fail("is a loss or a metric that other operators read, which is not exported");
      case OpKind::kCustom:
        fail("is an operator of a program's own, which ONNX does not have");
      case OpKind::kOpaque:
        fail("stands for an imported profile: what it computes is not known");
    }
    GP_CHECK(false, "operator kind {}", static_cast<int>(op_->kind));
  }

  const Graph& graph_;
  const Weights& weights_;
  const std::string& where_;
  OnnxModel model_;
  const Operator* op_ = nullptr;
  std::set<std::string> taken_;    // names of tensors
  std::set<std::string> written_;  // parameters that are initializers already
  std::set<std::size_t> read_;     // tensors that are needed
};

}  // namespace

OnnxModel export_onnx(const Graph& graph, const Weights& weights, const std::string& where) {
  return Exporter(graph, weights, where).run();
}

}  // namespace graphpipe
