#include "runtime/operators.h"

#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_bag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/unbind.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "runtime/dropout.h"
#include "runtime/functions.h"
#include "runtime/one_dnn.h"
#include "runtime/operator_parts.h"

namespace graphpipe {
namespace {

// B, the samples of the batch, leads every shape below.
std::vector<std::int64_t> sizes_of(const Tensor& tensor, const OpContext& context) {
  std::vector<std::int64_t> sizes;
  if (tensor.batched) sizes.push_back(static_cast<std::int64_t>(context.sample_ids.size()));
  sizes.insert(sizes.end(), tensor.shape.begin(), tensor.shape.end());
  return sizes;
}

// An axis of a sample's shape as an axis of the batch. Negative ones count from the end
// and stay. A tensor without samples is its own sample's shape.
std::int64_t batch_axis(std::int64_t axis, bool batched) {
  return axis < 0 ? axis : axis + static_cast<std::int64_t>(batched);
}

// x: (..., in), weight: (out, in), bias: (out) or null -> (..., out)
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias) {
  const at::Tensor rows = x.dim() == 2 ? x : x.reshape({-1, x.size(-1)});
  const at::Tensor y = bias ? at::addmm(*bias, rows, weight.t()) : at::mm(rows, weight.t());
  if (x.dim() == 2) return y;
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return y.view(sizes);
}

// a: (..., m, k), b: (..., k, n), or (..., n, k) where transposed -> (..., m, n)
at::Tensor matmul(const at::Tensor& a, const at::Tensor& b, bool transpose_b) {
  const at::Tensor left = a.reshape({-1, a.size(-2), a.size(-1)});
  const at::Tensor right = b.reshape({-1, b.size(-2), b.size(-1)});
  const at::Tensor y = at::bmm(left, transpose_b ? right.transpose(1, 2) : right);
  std::vector<std::int64_t> sizes = a.sizes().vec();
  sizes.back() = y.size(-1);
  return y.view(sizes);
}

// Leading dimensions that differ broadcast, or one of the two has no samples.
at::Tensor product(const Graph& graph, const Operator& op, const at::Tensor& a,
                   const at::Tensor& b) {
  const Tensor& left = graph.tensor(op.inputs[0]);
  const Tensor& right = graph.tensor(op.inputs[1]);
  const bool transpose_b = op.flag("transpose_b");
  const auto leading = [](const Tensor& t) { return std::span(t.shape).first(t.shape.size() - 2); };
  if (left.batched == right.batched && std::ranges::equal(leading(left), leading(right))) {
    return matmul(a, b, transpose_b);
  }
  const std::size_t rank = std::max(left.shape.size(), right.shape.size());
  const at::Tensor first = aligned(a, left.batched, rank);
  const at::Tensor second = aligned(b, right.batched, rank);
  return at::matmul(first, transpose_b ? second.transpose(-1, -2) : second).contiguous();
}

// x: (B, T, C) -> (B, T, C). Written out, and not by a fused kernel, so that what is kept
// for the backward is known: x, the three projections, the probabilities, the context.
at::Tensor attention(const at::Tensor& x, const std::vector<at::Tensor>& params, std::int64_t heads,
                     bool causal) {
  const std::int64_t b = x.size(0), t = x.size(1), c = x.size(2), d = c / heads;
  const at::Tensor projections = linear(x, params[0], &params[1])  // (B, T, 3C)
                                     .view({b, t, 3, heads, d})
                                     .permute({2, 0, 3, 1, 4})
                                     .contiguous()
                                     .view({3, b * heads, t, d});
  const std::vector<at::Tensor> qkv = at::unbind(projections, 0);  // each (B*heads, T, d)
  at::Tensor scores = at::bmm(qkv[0], qkv[1].transpose(1, 2));     // (B*heads, T, T)
  scores.mul_(1.0 / std::sqrt(static_cast<double>(d)));
  if (causal) {
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    scores.add_(at::full({t, t}, minus_infinity, scores.options()).triu_(1));
  }
  const at::Tensor context = at::bmm(at::softmax(scores, -1), qkv[2])  // (B*heads, T, d)
                                 .view({b, heads, t, d})
                                 .permute({0, 2, 1, 3})
                                 .reshape({b, t, c});
  return linear(context, params[2], &params[3]);
}

// ids: (B, n), table: (entries, dim) -> (B, dim). Negative ids are padding; a bag without
// ids gives zeros.
at::Tensor embedding_bag(const at::Tensor& ids, const at::Tensor& table, bool mean) {
  const std::int64_t bags = ids.size(0), length = ids.size(1), entries = table.size(0);
  const std::int64_t* id = ids.data_ptr<std::int64_t>();
  std::vector<std::int64_t> kept;
  kept.reserve(static_cast<std::size_t>(bags * length));
  const at::Tensor offsets = at::empty({bags}, ids.options());
  for (std::int64_t bag = 0; bag < bags; ++bag) {
    offsets.data_ptr<std::int64_t>()[bag] = static_cast<std::int64_t>(kept.size());
    for (std::int64_t i = 0; i < length; ++i, ++id) {
      TORCH_CHECK_INDEX(*id < entries, "embedding_bag: id ", *id, " in a table of ", entries);
      if (*id >= 0) kept.push_back(*id);
    }
  }
  const at::Tensor flat = at::empty({static_cast<std::int64_t>(kept.size())}, ids.options());
  std::copy(kept.begin(), kept.end(), flat.data_ptr<std::int64_t>());
  return std::get<0>(at::embedding_bag(table, flat, offsets, /*scale_grad_by_freq=*/false,
                                       /*mode=*/mean ? 1 : 0));
}

at::Tensor dropout(const at::Tensor& x, const Operator& op, const OpContext& context) {
  if (!context.training) return x;
  const std::uint64_t key = dropout_key(context.seed, op.name, context.iteration);
  const std::int64_t elements = x.numel() / x.size(0);
  const at::Tensor mask = at::empty(x.sizes(), x.options().requires_grad(false));
  if (x.scalar_type() == at::kDouble) {
    fill_dropout_mask(key, op.number("rate"), context.sample_ids, elements,
                      mask.data_ptr<double>());
  } else {
    fill_dropout_mask(key, op.number("rate"), context.sample_ids, elements, mask.data_ptr<float>());
  }
  return at::mul(x, mask);
}

at::Tensor transpose(const at::Tensor& x, const std::vector<std::int64_t>& permutation,
                     bool batched) {
  std::vector<std::int64_t> dimensions;
  if (batched) dimensions.push_back(0);
  for (const std::int64_t d : permutation) dimensions.push_back(batch_axis(d, batched));
  return x.permute(dimensions).contiguous();
}

at::Tensor sum(const std::vector<at::Tensor>& xs) {
  at::Tensor y = at::add(xs[0], xs[1]);
  for (std::size_t i = 2; i < xs.size(); ++i) y.add_(xs[i]);
  return y;
}

// As mean() does it, which would keep all of `values` for its backward.
at::Tensor mean_over(const at::Tensor& values, std::int64_t axis) {
  return values.sum(axis).div(static_cast<double>(values.size(axis)));
}

// (B, ...) -> (B)
at::Tensor mean_per_sample(const at::Tensor& values) {
  return mean_over(values.reshape({values.size(0), -1}), 1);
}

at::Tensor mse_loss(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor difference = at::sub(prediction, target);
  return mean_per_sample(at::mul(difference, difference));
}

// logits: (..., classes), target: (...) int64
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target) {
  const at::Tensor right = at::log_softmax(logits, -1).gather(-1, target.unsqueeze(-1));
  return mean_per_sample(right.neg());
}

}  // namespace

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kInt64:
      return at::kLong;
    case DType::kBool:
      return at::kBool;
  }
  GP_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

std::vector<at::Tensor> forward_op(const Graph& graph, const Operator& op,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& params,
                                   const OpContext& context) {
  use_right_kernels();
  const at::Tensor& x = inputs[0];
  const bool batched = graph.tensor(op.inputs[0]).batched;
  switch (op.kind) {
    case OpKind::kLinear:
      return {linear(x, params[0], params.size() > 1 ? &params[1] : nullptr)};
    case OpKind::kMatmul:
      return {product(graph, op, contiguous_gradient(x), contiguous_gradient(inputs[1]))};
    case OpKind::kAttention:
      return {attention(x, params, op.integer("heads"), op.flag("causal"))};
    case OpKind::kLayerNorm:
      return {at::layer_norm(x, {x.size(-1)}, params[0], params[1], op.number("epsilon"))};
    case OpKind::kSoftmax:
      return {at::softmax(x, -1)};
    case OpKind::kGelu:
      return {at::gelu(x)};
    case OpKind::kRelu:
      return {at::relu(x)};
    case OpKind::kSigmoid:
      return {at::sigmoid(x)};
    case OpKind::kTanh:
      return {at::tanh(x)};
    case OpKind::kAdd:
      return {sum(inputs)};
    case OpKind::kMul:
      return {at::mul(x, inputs[1])};
    case OpKind::kAddParameter:
      return {at::add(x, params[0])};
    case OpKind::kConcat:
      for (const at::Tensor& input : inputs) contiguous_gradient(input);
      return {at::cat(inputs, batch_axis(op.integer("axis"), batched))};
    case OpKind::kEmbedding:
      return {at::embedding(params[0], x)};
    case OpKind::kEmbeddingBag:
      return {embedding_bag(x, params[0], op.text("mode") == "mean")};
    case OpKind::kDropout:
      return {dropout(x, op, context)};
    case OpKind::kReshape:
      return {x.view(sizes_of(graph.tensor(op.outputs[0]), context))};
    case OpKind::kTranspose:
      return {transpose(contiguous_gradient(x), op.list("permutation"), batched)};
    case OpKind::kSlice:  // never a view, which would keep all of x
      return {x.narrow(batch_axis(op.integer("axis"), batched), op.integer("start"),
                       op.integer("length"))
                  .clone(at::MemoryFormat::Contiguous)};
    case OpKind::kSplit:
      return split(x, batch_axis(op.integer("axis"), batched), op.list("sizes"));
    case OpKind::kPad:
      return {pad(x, op)};
    case OpKind::kConv1d:
    case OpKind::kConv2d:
    case OpKind::kConvTranspose2d:
      return {convolution(x, params, op)};
    case OpKind::kMaxPool2d:
    case OpKind::kAvgPool2d:
      return {pool2d(x, op)};
    case OpKind::kGlobalAvgPool:
      return {global_avg_pool(x)};
    case OpKind::kResize:
      return {resize(x, op)};
    case OpKind::kBatchNorm:
      return {batch_norm(x, params, op, context)};
    case OpKind::kLstm:
    case OpKind::kGru:
      return {recurrent(x, params, op.kind)};
    case OpKind::kMean:
      return {mean_over(contiguous_gradient(x), batch_axis(op.integer("axis"), batched))};
    case OpKind::kElementwise:
      return {elementwise(graph, op, inputs, params, context)};
    case OpKind::kReduce:
      return {reduce(contiguous_gradient(x), op, batched)};
    case OpKind::kAlongAxis:
      return {along_axis(contiguous_gradient(x), op, batched)};
    case OpKind::kGather:
      return {gather(graph, op, inputs, params, context)};
    case OpKind::kExpand:
      return {
          expand(contiguous_gradient(x), sizes_of(graph.tensor(op.outputs[0]), context), batched)};
    case OpKind::kMseLoss:
      return {mse_loss(x, inputs[1])};
    case OpKind::kCrossEntropy:
      return {cross_entropy(x, inputs[1])};
    case OpKind::kBinaryCrossEntropy:
      return {mean_per_sample(
          at::binary_cross_entropy_with_logits(x, inputs[1], {}, {}, at::Reduction::None))};
    case OpKind::kCorrect:
      return {mean_per_sample(at::argmax(x, -1).eq(inputs[1]).to(x.scalar_type()))};
    case OpKind::kOpaque:
      throw RunError(fmt::format(
          "operator \"{}\" stands for an imported profile: it can be planned and not run",
          op.name));
    case OpKind::kCustom:
      return run_custom_op(graph, op, inputs, params, context);
  }
  GP_CHECK(false, "operator kind {}", static_cast<int>(op.kind));
}

}  // namespace graphpipe
