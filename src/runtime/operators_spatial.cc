// Operators over images and sequences, by the library's own. Their outputs and gradients are
// made contiguous, since the library may choose another layout by sizes or by what it read.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/zeros.h>

#include "runtime/operator_parts.h"

namespace graphpipe {

const at::Tensor& contiguous_gradient(const at::Tensor& x) {
  if (at::GradMode::is_enabled() && x.requires_grad()) {
    x.register_hook([](const at::Tensor& gradient) { return gradient.contiguous(); });
  }
  return x;
}

at::Tensor convolution(const at::Tensor& x, const std::vector<at::Tensor>& params,
                       const Operator& op) {
  const at::Tensor& in = contiguous_gradient(x);
  const at::Tensor bias = params.size() > 1 ? params[1] : at::Tensor();
  const std::vector<std::int64_t>& stride = op.list("stride");
  const std::vector<std::int64_t>& padding = op.list("padding");
  const std::vector<std::int64_t>& dilation = op.list("dilation");
  const std::int64_t groups = op.integer("groups");
  at::Tensor y;
  if (op.kind == OpKind::kConvTranspose2d) {
    y = at::conv_transpose2d(in, params[0], bias, stride, padding, op.list("output_padding"),
                             groups, dilation);
  } else if (op.kind == OpKind::kConv1d) {
    y = at::conv1d(in, params[0], bias, stride, padding, dilation, groups);
  } else {
    y = at::conv2d(in, params[0], bias, stride, padding, dilation, groups);
  }
  return y.contiguous();
}

at::Tensor pool2d(const at::Tensor& x, const Operator& op) {
  const at::Tensor& in = contiguous_gradient(x);
  const std::vector<std::int64_t>& kernel = op.list("kernel");
  const std::vector<std::int64_t>& stride = op.list("stride");
  const std::vector<std::int64_t>& padding = op.list("padding");
  return (op.kind == OpKind::kMaxPool2d ? at::max_pool2d(in, kernel, stride, padding)
                                        : at::avg_pool2d(in, kernel, stride, padding))
      .contiguous();
}

at::Tensor global_avg_pool(const at::Tensor& x) {
  const at::Tensor pixels = contiguous_gradient(x).flatten(2);
  return pixels.sum(2).div(static_cast<double>(pixels.size(2)));  // mean() would keep them
}

at::Tensor resize(const at::Tensor& x, const Operator& op) {
  const at::Tensor& in = contiguous_gradient(x);
  const std::vector<std::int64_t>& size = op.list("size");
  return (op.text("mode") == "nearest" ? at::upsample_nearest2d(in, size)
                                       : at::upsample_bilinear2d(in, size, /*align_corners=*/false))
      .contiguous();
}

at::Tensor batch_norm(const at::Tensor& x, const std::vector<at::Tensor>& params,
                      const Operator& op, const OpContext& context) {
  // The library takes the variance of one value as not a number, and would keep that.
  TORCH_CHECK_VALUE(!context.training || x.numel() > x.size(1), "batch_norm: \"", op.name,
                    "\" has one value a channel, expected at least 2: use a larger micro-batch, "
                    "and a mini-batch that leaves no sample alone");
  const bool running = !context.training || context.update_statistics;
  return at::batch_norm(contiguous_gradient(x), params[0], params[1],
                        running ? params[2] : at::Tensor(), running ? params[3] : at::Tensor(),
                        context.training, op.number("momentum"), op.number("epsilon"),
                        /*cudnn_enabled=*/false)
      .contiguous();
}

std::vector<at::Tensor> split(const at::Tensor& x, std::int64_t axis,
                              const std::vector<std::int64_t>& sizes) {
  std::vector<at::Tensor> parts = at::split_with_sizes(contiguous_gradient(x), sizes, axis);
  // Copies, also where a part would be contiguous as it lies: its memory is then its own.
  for (at::Tensor& part : parts) part = part.clone(at::MemoryFormat::Contiguous);
  return parts;
}

at::Tensor pad(const at::Tensor& x, const Operator& op) {
  const std::vector<std::int64_t>& before = op.list("before");
  const std::vector<std::int64_t>& after = op.list("after");
  std::vector<std::int64_t> pads;  // the library counts from the last dimension
  for (std::size_t d = before.size(); d-- > 0;) {
    pads.push_back(before[d]);
    pads.push_back(after[d]);
  }
  return at::constant_pad_nd(contiguous_gradient(x), pads, op.number("value")).contiguous();
}

at::Tensor recurrent(const at::Tensor& x, const std::vector<at::Tensor>& params, OpKind kind) {
  const std::int64_t hidden = params[1].size(1);
  const at::Tensor zeros = at::zeros({1, x.size(0), hidden}, x.options().requires_grad(false));
  const at::Tensor& in = contiguous_gradient(x);
  constexpr std::int64_t kLayers = 1;
  const at::Tensor y =
      kind == OpKind::kLstm
          ? std::get<0>(at::lstm(in, {zeros, zeros}, params, /*has_biases=*/true, kLayers,
                                 /*dropout=*/0, /*train=*/true, /*bidirectional=*/false,
                                 /*batch_first=*/true))
          : std::get<0>(at::gru(in, zeros, params, /*has_biases=*/true, kLayers, /*dropout=*/0,
                                /*train=*/true, /*bidirectional=*/false, /*batch_first=*/true));
  return y.contiguous();
}

}  // namespace graphpipe
