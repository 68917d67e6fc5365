// The builder's operators for images and sequences.

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

// Of a sample of x: an image or a sequence has at least `least` dimensions.
const std::vector<std::int64_t>& sample_shape(const Graph& graph, const std::string& name,
                                              TensorId x, std::size_t least) {
  GP_CHECK(x.valid() && x.index() < graph.tensors.size(), "input {} of {}", x.value, name);
  const Tensor& tensor = graph.tensor(x);
  if (tensor.shape.size() >= least) return tensor.shape;
  throw InputError(
      name, fmt::format("input \"{}\" has shape ({}), expected at least {} dimension{}",
                        tensor.name, fmt::join(tensor.shape, ", "), least, least == 1 ? "" : "s"));
}

std::size_t window_dimensions(OpKind kind) { return kind == OpKind::kConv1d ? 1 : 2; }

}  // namespace

TensorId GraphBuilder::sigmoid(const std::string& name, TensorId x) {
  return add_op(name, OpKind::kSigmoid, {x}, {}, {})[0];
}

TensorId GraphBuilder::tanh(const std::string& name, TensorId x) {
  return add_op(name, OpKind::kTanh, {x}, {}, {})[0];
}

std::vector<TensorId> GraphBuilder::split(const std::string& name, TensorId x, std::int64_t axis,
                                          std::vector<std::int64_t> sizes) {
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < sizes.size(); ++i) outputs.push_back(fmt::format("{}.{}", name, i));
  return add_op(name, OpKind::kSplit, {x}, {}, {{"axis", axis}, {"sizes", std::move(sizes)}},
                std::move(outputs));
}

TensorId GraphBuilder::pad(const std::string& name, TensorId x, std::vector<std::int64_t> before,
                           std::vector<std::int64_t> after, double value) {
  return add_op(name, OpKind::kPad, {x}, {},
                {{"before", std::move(before)}, {"after", std::move(after)}, {"value", value}})[0];
}

TensorId GraphBuilder::convolution(const std::string& name, OpKind kind, TensorId x,
                                   std::int64_t out, std::int64_t kernel, const Conv& conv) {
  const std::size_t dimensions = window_dimensions(kind);
  const std::int64_t in = sample_shape(graph_, name, x, dimensions + 1)[0];
  const auto each = [&](std::int64_t value) {
    return std::vector<std::int64_t>(dimensions, value);
  };
  const bool transposed = kind == OpKind::kConvTranspose2d;
  // Divisions by zero groups are the shape rule's to refuse.
  const std::int64_t groups = std::max<std::int64_t>(1, conv.groups);
  std::vector<std::int64_t> weight = each(kernel);
  weight.insert(weight.begin(), {transposed ? in : out, (transposed ? out : in) / groups});
  const double window = std::pow(static_cast<double>(kernel), static_cast<double>(dimensions));
  const std::int64_t in_of_group = in / groups;
  const double inputs = std::max(1.0, static_cast<double>(in_of_group) * window);
  std::vector<ParamId> params{
      param(name + ".weight", weight, {InitKind::kUniform, std::sqrt(6.0 / inputs)})};
  if (conv.bias) params.push_back(param(name + ".bias", {out}, {}));
  std::vector<std::pair<std::string, Attribute>> attributes{{"dilation", each(conv.dilation)},
                                                            {"groups", conv.groups},
                                                            {"padding", each(conv.padding)},
                                                            {"stride", each(conv.stride)}};
  if (transposed) attributes.emplace_back("output_padding", each(0));
  return add_op(name, kind, {x}, params, std::move(attributes))[0];
}

TensorId GraphBuilder::conv1d(const std::string& name, TensorId x, std::int64_t out,
                              std::int64_t kernel, const Conv& conv) {
  return convolution(name, OpKind::kConv1d, x, out, kernel, conv);
}

TensorId GraphBuilder::conv2d(const std::string& name, TensorId x, std::int64_t out,
                              std::int64_t kernel, const Conv& conv) {
  return convolution(name, OpKind::kConv2d, x, out, kernel, conv);
}

TensorId GraphBuilder::conv_transpose2d(const std::string& name, TensorId x, std::int64_t out,
                                        std::int64_t kernel, const Conv& conv) {
  return convolution(name, OpKind::kConvTranspose2d, x, out, kernel, conv);
}

TensorId GraphBuilder::pool2d(const std::string& name, OpKind kind, TensorId x, std::int64_t kernel,
                              std::int64_t stride, std::int64_t padding) {
  const auto each = [](std::int64_t value) { return std::vector<std::int64_t>{value, value}; };
  return add_op(
      name, kind, {x}, {},
      {{"kernel", each(kernel)}, {"padding", each(padding)}, {"stride", each(stride)}})[0];
}

TensorId GraphBuilder::max_pool2d(const std::string& name, TensorId x, std::int64_t kernel,
                                  std::int64_t stride, std::int64_t padding) {
  return pool2d(name, OpKind::kMaxPool2d, x, kernel, stride, padding);
}

TensorId GraphBuilder::avg_pool2d(const std::string& name, TensorId x, std::int64_t kernel,
                                  std::int64_t stride, std::int64_t padding) {
  return pool2d(name, OpKind::kAvgPool2d, x, kernel, stride, padding);
}

TensorId GraphBuilder::global_avg_pool(const std::string& name, TensorId x) {
  return add_op(name, OpKind::kGlobalAvgPool, {x}, {}, {})[0];
}

TensorId GraphBuilder::resize(const std::string& name, TensorId x, std::vector<std::int64_t> size,
                              const std::string& mode) {
  return add_op(name, OpKind::kResize, {x}, {}, {{"mode", mode}, {"size", std::move(size)}})[0];
}

TensorId GraphBuilder::batch_norm(const std::string& name, TensorId x, double epsilon,
                                  double momentum) {
  const std::int64_t channels = sample_shape(graph_, name, x, 1)[0];
  const std::vector<ParamId> params{
      param(name + ".weight", {channels}, {InitKind::kOnes, 0}),
      param(name + ".bias", {channels}, {}), param(name + ".mean", {channels}, {}, false),
      param(name + ".variance", {channels}, {InitKind::kOnes, 0}, false)};
  return add_op(name, OpKind::kBatchNorm, {x}, params,
                {{"epsilon", epsilon}, {"momentum", momentum}})[0];
}

TensorId GraphBuilder::recurrent(const std::string& name, OpKind kind, TensorId x,
                                 std::int64_t hidden, std::int64_t gates) {
  const std::int64_t in = sample_shape(graph_, name, x, 2).back();
  const std::int64_t rows = gates * hidden;
  const Init init{InitKind::kUniform, 1.0 / std::sqrt(static_cast<double>(hidden))};
  const std::vector<ParamId> params{
      param(name + ".w_ih", {rows, in}, init), param(name + ".w_hh", {rows, hidden}, init),
      param(name + ".b_ih", {rows}, init), param(name + ".b_hh", {rows}, init)};
  return add_op(name, kind, {x}, params, {})[0];
}

TensorId GraphBuilder::lstm(const std::string& name, TensorId x, std::int64_t hidden) {
  return recurrent(name, OpKind::kLstm, x, hidden, 4);
}

TensorId GraphBuilder::gru(const std::string& name, TensorId x, std::int64_t hidden) {
  return recurrent(name, OpKind::kGru, x, hidden, 3);
}

}  // namespace graphpipe
