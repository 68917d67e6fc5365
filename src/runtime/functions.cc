#include "runtime/functions.h"

#include <ATen/ops/celu.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <functional>
#include <map>
#include <string_view>

#include "base/error.h"
#include "graph/functions.h"
#include "runtime/operator_parts.h"

namespace graphpipe {
namespace {

// What attribute operands names, each with whether it has samples.
struct Operand {
  at::Tensor values;
  bool batched;
  std::size_t rank;  // of the sample's shape
};

std::vector<Operand> operands_of(const Graph& graph, const Operator& op,
                                 const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& params) {
  std::vector<Operand> operands;
  for (const std::int64_t k : op.list("operands")) {
    const auto i = static_cast<std::size_t>(k >= 0 ? k : -(k + 1));
    if (k < 0) {
      operands.push_back({params[i], false, graph.param(op.params[i]).shape.size()});
    } else {
      const Tensor& tensor = graph.tensor(op.inputs[i]);
      operands.push_back({contiguous_gradient(inputs[i]), tensor.batched, tensor.shape.size()});
    }
  }
  return operands;
}

// Of parameters alone: for each sample the same, in memory of its own.
at::Tensor with_samples(const at::Tensor& y, const Tensor& output, const OpContext& context) {
  if (!output.batched) return y.clone(at::MemoryFormat::Contiguous);
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(context.sample_ids.size())};
  sizes.insert(sizes.end(), output.shape.begin(), output.shape.end());
  return y.unsqueeze(0).expand(sizes).clone(at::MemoryFormat::Contiguous);
}

using Unary = std::function<at::Tensor(const at::Tensor& x, double alpha, double beta)>;
using Binary = std::function<at::Tensor(const at::Tensor& a, const at::Tensor& b)>;

// Casts to whole numbers and tests cut the gradient; others keep it where there is one.
const std::map<std::string_view, Unary>& unary_functions() {
  using T = const at::Tensor&;
  static const std::map<std::string_view, Unary> kFunctions = {
      {"identity", [](T x, double, double) { return x.clone(at::MemoryFormat::Contiguous); }},
      {"cast_float32", [](T x, double, double) { return x.to(at::kFloat); }},
      {"cast_float64", [](T x, double, double) { return x.to(at::kDouble); }},
      {"cast_int64", [](T x, double, double) { return x.to(at::kLong); }},
      {"cast_bool", [](T x, double, double) { return x.to(at::kBool); }},
      {"abs", [](T x, double, double) { return x.abs(); }},
      {"neg", [](T x, double, double) { return x.neg(); }},
      {"sign", [](T x, double, double) { return x.sign(); }},
      {"floor", [](T x, double, double) { return x.floor(); }},
      {"ceil", [](T x, double, double) { return x.ceil(); }},
      {"round", [](T x, double, double) { return x.round(); }},
      {"sqrt", [](T x, double, double) { return x.sqrt(); }},
      {"reciprocal", [](T x, double, double) { return x.reciprocal(); }},
      {"exp", [](T x, double, double) { return x.exp(); }},
      {"log", [](T x, double, double) { return x.log(); }},
      {"erf", [](T x, double, double) { return x.erf(); }},
      {"sin", [](T x, double, double) { return x.sin(); }},
      {"cos", [](T x, double, double) { return x.cos(); }},
      {"tan", [](T x, double, double) { return x.tan(); }},
      {"asin", [](T x, double, double) { return x.asin(); }},
      {"acos", [](T x, double, double) { return x.acos(); }},
      {"atan", [](T x, double, double) { return x.atan(); }},
      {"sinh", [](T x, double, double) { return x.sinh(); }},
      {"cosh", [](T x, double, double) { return x.cosh(); }},
      {"asinh", [](T x, double, double) { return x.asinh(); }},
      {"acosh", [](T x, double, double) { return x.acosh(); }},
      {"atanh", [](T x, double, double) { return x.atanh(); }},
      {"softplus", [](T x, double, double) { return at::softplus(x); }},
      {"softsign", [](T x, double, double) { return x.div(x.abs().add(1)); }},
      {"clip", [](T x, double low, double high) { return at::clamp(x, low, high); }},
      {"leaky_relu", [](T x, double slope, double) { return at::leaky_relu(x, slope); }},
      {"elu", [](T x, double alpha, double) { return at::elu(x, alpha); }},
      {"celu", [](T x, double alpha, double) { return at::celu(x, alpha); }},
      {"selu", [](T x, double alpha, double scale) { return at::elu(x, alpha, scale); }},
      {"hard_sigmoid",
       [](T x, double slope, double offset) { return x.mul(slope).add(offset).clamp(0, 1); }},
      {"hard_swish", [](T x, double, double) { return at::hardswish(x); }},
      {"thresholded_relu", [](T x, double from, double) { return x.mul(x.gt(from)); }},
      {"shrink",
       [](T x, double from, double offset) {
         return x.add(offset).mul(x.lt(-from)).add(x.sub(offset).mul(x.gt(from)));
       }},
      {"is_nan", [](T x, double, double) { return x.isnan(); }},
      {"is_inf",
       [](T x, double negative, double positive) {
         at::Tensor found = x.isinf();
         if (negative == 0) found = found.logical_and(x.gt(0));
         if (positive == 0) found = found.logical_and(x.lt(0));
         return found;
       }},
      {"not", [](T x, double, double) { return x.logical_not(); }},
  };
  return kFunctions;
}

// Whole numbers are divided towards zero.
at::Tensor divide(const at::Tensor& a, const at::Tensor& b) {
  return at::isIntegralType(a.scalar_type(), false) ? a.div(b, "trunc") : a.div(b);
}

// The base's type comes out.
at::Tensor power(const at::Tensor& a, const at::Tensor& b) {
  const bool same = a.scalar_type() == b.scalar_type();
  if (same || (a.is_floating_point() && !b.is_floating_point())) {
    return a.pow(b.to(a.scalar_type()));
  }
  return a.to(at::kDouble).pow(b.to(at::kDouble)).to(a.scalar_type());
}

const std::map<std::string_view, Binary>& binary_functions() {
  using T = const at::Tensor&;
  static const std::map<std::string_view, Binary> kFunctions = {
      {"add", [](T a, T b) { return a.add(b); }},
      {"sub", [](T a, T b) { return a.sub(b); }},
      {"mul", [](T a, T b) { return a.mul(b); }},
      {"div", divide},
      {"pow", power},
      {"mod", [](T a, T b) { return a.remainder(b); }},
      {"fmod", [](T a, T b) { return a.fmod(b); }},
      {"max", [](T a, T b) { return a.maximum(b); }},
      {"min", [](T a, T b) { return a.minimum(b); }},
      {"prelu", [](T x, T slope) { return x.clamp_min(0).add(x.clamp_max(0).mul(slope)); }},
      {"equal", [](T a, T b) { return a.eq(b); }},
      {"less", [](T a, T b) { return a.lt(b); }},
      {"less_or_equal", [](T a, T b) { return a.le(b); }},
      {"greater", [](T a, T b) { return a.gt(b); }},
      {"greater_or_equal", [](T a, T b) { return a.ge(b); }},
      {"and", [](T a, T b) { return a.logical_and(b); }},
      {"or", [](T a, T b) { return a.logical_or(b); }},
      {"xor", [](T a, T b) { return a.logical_xor(b); }},
  };
  return kFunctions;
}

at::Tensor computed(const Operator& op, const std::vector<at::Tensor>& xs) {
  const std::string& name = op.text("function");
  if (name == "where") return at::where(xs[0], xs[1], xs[2]);
  if (xs.size() == 2) return binary_functions().at(name)(xs[0], xs[1]);
  return unary_functions().at(name)(xs[0], op.number("alpha"), op.number("beta"));
}

// One axis after another, from the last, where the library takes one at a time.
at::Tensor product_over(const at::Tensor& x, const std::vector<std::int64_t>& axes, bool keep) {
  at::Tensor y = x;
  for (std::size_t i = axes.size(); i-- > 0;) y = y.prod(axes[i], keep);
  return y;
}

// 1 at the first largest.
at::Tensor hardmax(const at::Tensor& x, std::int64_t axis) {
  return at::zeros_like(x).scatter(axis, x.argmax(axis, /*keepdim=*/true), 1);
}

// Negative ones count from the end.
at::Tensor from_the_front(const at::Tensor& indices, std::int64_t extent) {
  return at::where(indices.lt(0), indices.add(extent), indices);
}

// data: [B,] pre, n, post; indices: [B,] with any dimensions -> [B,] pre, indices, post
at::Tensor gather_index(const Operand& data, const Operand& indices, std::int64_t axis) {
  const at::Tensor& x = data.values;
  const std::int64_t at = axis + static_cast<std::int64_t>(data.batched);
  std::vector<std::int64_t> own = indices.values.sizes().vec();
  const std::int64_t samples = indices.batched ? own.front() : 1;
  if (indices.batched) own.erase(own.begin());
  std::vector<std::int64_t> sizes(x.sizes().begin(), x.sizes().begin() + at);
  sizes.insert(sizes.end(), own.begin(), own.end());
  sizes.insert(sizes.end(), x.sizes().begin() + at + 1, x.sizes().end());
  const at::Tensor flat = indices.values.reshape({-1});
  if (!indices.batched) return x.index_select(at, flat).view(sizes);
  const std::int64_t each = flat.numel() / std::max<std::int64_t>(samples, 1);
  if (!data.batched) {  // the samples' rows, and the axes before `axis` behind them
    const at::Tensor rows = x.movedim(axis, 0).contiguous().index_select(0, flat);
    std::vector<std::int64_t> parts = {samples, each};
    parts.insert(parts.end(), rows.sizes().begin() + 1, rows.sizes().end());
    sizes.insert(sizes.begin(), samples);
    return rows.view(parts).movedim(1, axis + 1).reshape(sizes);
  }
  std::vector<std::int64_t> ones(static_cast<std::size_t>(x.dim()), 1);
  ones.front() = samples;
  ones[static_cast<std::size_t>(at)] = each;
  std::vector<std::int64_t> wide = x.sizes().vec();
  wide[static_cast<std::size_t>(at)] = each;
  return x.gather(at, flat.view(ones).expand(wide)).view(sizes);
}

}  // namespace

at::Tensor aligned(const at::Tensor& x, bool batched, std::size_t rank) {
  if (!batched) return x;
  const auto dimensions = static_cast<std::size_t>(x.dim()) - 1;
  if (dimensions >= rank) return x;
  std::vector<std::int64_t> sizes = {x.size(0)};
  sizes.resize(1 + rank - dimensions, 1);
  sizes.insert(sizes.end(), x.sizes().begin() + 1, x.sizes().end());
  return x.view(sizes);
}

at::Tensor elementwise(const Graph& graph, const Operator& op,
                       const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& params,
                       const OpContext& context) {
  const Tensor& output = graph.tensor(op.outputs[0]);
  std::vector<at::Tensor> xs;
  bool any_batched = false;
  for (const Operand& operand : operands_of(graph, op, inputs, params)) {
    any_batched = any_batched || operand.batched;
    xs.push_back(aligned(operand.values, operand.batched, output.shape.size()));
  }
  const at::Tensor y = computed(op, xs);
  return any_batched ? y.contiguous() : with_samples(y, output, context);
}

at::Tensor reduce(const at::Tensor& x, const Operator& op, bool batched) {
  std::vector<std::int64_t> axes = op.list("axes");
  for (std::int64_t& axis : axes) axis += static_cast<std::int64_t>(batched);
  const bool keep = op.flag("keep");
  const std::string& name = op.text("function");
  if (axes.empty()) {  // each element by itself; the library takes it for all axes
    if (name == "l1" || name == "l2") return x.abs();
    if (name == "sum_square") return x.mul(x);
    if (name == "log_sum") return x.log();
    return x.clone(at::MemoryFormat::Contiguous);
  }
  if (name == "sum") return x.sum(axes, keep);
  if (name == "mean") {  // as mean() does it, which would keep x for its backward
    const at::Tensor total = x.sum(axes, keep);
    return total.div(static_cast<double>(x.numel()) / static_cast<double>(total.numel()));
  }
  if (name == "max") return x.amax(axes, keep);
  if (name == "min") return x.amin(axes, keep);
  if (name == "prod") return product_over(x, axes, keep);
  if (name == "l1") return x.abs().sum(axes, keep);
  if (name == "l2") return x.mul(x).sum(axes, keep).sqrt();
  if (name == "sum_square") return x.mul(x).sum(axes, keep);
  if (name == "log_sum") return x.sum(axes, keep).log();
  if (name == "log_sum_exp") return at::logsumexp(x, axes, keep);
  if (name == "arg_max") return x.argmax(axes[0], keep);
  if (name == "arg_min") return x.argmin(axes[0], keep);
  GP_CHECK(false, "no reduction \"{}\"", name);
}

at::Tensor along_axis(const at::Tensor& x, const Operator& op, bool batched) {
  std::int64_t axis = op.integer("axis");
  if (axis >= 0) axis += static_cast<std::int64_t>(batched);
  const std::string& name = op.text("function");
  if (name == "softmax") return at::softmax(x, axis).contiguous();
  if (name == "log_softmax") return at::log_softmax(x, axis).contiguous();
  if (name == "hardmax") return hardmax(x, axis);
  if (name == "cumulative_sum") return x.cumsum(axis).contiguous();
  GP_CHECK(false, "no function \"{}\" along an axis", name);
}

at::Tensor gather(const Graph& graph, const Operator& op, const std::vector<at::Tensor>& inputs,
                  const std::vector<at::Tensor>& params, const OpContext& context) {
  const std::vector<Operand> operands = operands_of(graph, op, inputs, params);
  const Operand& data = operands[0];
  Operand indices = operands[1];
  const std::int64_t axis = op.integer("axis");
  const std::int64_t at = axis + static_cast<std::int64_t>(data.batched);
  indices.values = from_the_front(indices.values, data.values.size(at));
  at::Tensor y;
  if (op.text("mode") == "index") {
    y = gather_index(data, indices, axis);
  } else {
    const auto wide = [&](const Operand& one, const Operand& other) {
      if (one.batched || !other.batched) return one.values;
      std::vector<std::int64_t> sizes = one.values.sizes().vec();
      sizes.insert(sizes.begin(), other.values.size(0));
      return one.values.unsqueeze(0).expand(sizes);
    };
    y = wide(data, indices)
            .gather(axis + static_cast<std::int64_t>(data.batched || indices.batched),
                    wide(indices, data));
  }
  return data.batched || indices.batched ? y.contiguous()
                                         : with_samples(y, graph.tensor(op.outputs[0]), context);
}

at::Tensor expand(const at::Tensor& x, const std::vector<std::int64_t>& sizes, bool batched) {
  const std::size_t rank = sizes.size() - static_cast<std::size_t>(batched);
  return aligned(x, batched, rank).expand(sizes).clone(at::MemoryFormat::Contiguous);
}

}  // namespace graphpipe
