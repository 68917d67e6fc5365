// Shapes of operators with windows over images and sequences, and of those that cut, pad
// and scale them.

#include <fmt/format.h>

#include <numeric>

#include "graph/shape_rule.h"

namespace graphpipe {
namespace {

struct Windows {
  Shape kernel;
  Shape stride;
  Shape padding;
  Shape dilation;
};

Windows conv_windows(const ShapeRule& r, Shape kernel) {
  const std::size_t n = kernel.size();
  return {std::move(kernel), r.numbers("stride", n, 1), r.numbers("padding", n, 0),
          r.numbers("dilation", n, 1)};
}

// A window's reach: dilation * (kernel - 1) + 1.
std::int64_t reach(const Windows& windows, std::size_t d) {
  return windows.dilation[d] * (windows.kernel[d] - 1) + 1;
}

// (channels, as many windows as fit along each dimension).
Shape windows_shape(const ShapeRule& r, std::int64_t channels, const Windows& windows) {
  Shape shape = {channels};
  for (std::size_t d = 0; d < windows.kernel.size(); ++d) {
    const std::int64_t room = r.shape(0)[d + 1] + 2 * windows.padding[d];
    if (reach(windows, d) > room) {
      r.fail(
          fmt::format("a window of {} elements does not fit in the {} of dimension {} of {}, "
                      "padding included",
                      reach(windows, d), room, d + 1, r.input_text(0)));
    }
    shape.push_back((room - reach(windows, d)) / windows.stride[d] + 1);
  }
  return shape;
}

void expect_image(const ShapeRule& r, std::size_t dimensions) {
  r.expect_floating(0);
  r.expect_batched(0);
  r.expect_rank(0, dimensions + 1);
}

std::int64_t groups(const ShapeRule& r, std::int64_t in, std::int64_t out) {
  const std::int64_t groups = r.op().integer("groups");
  if (groups < 1 || in % groups != 0 || out % groups != 0) {
    r.fail(fmt::format("groups is {}, expected a divisor of the {} channels in and the {} out",
                       groups, in, out));
  }
  return groups;
}

void expect_bias(const ShapeRule& r, std::int64_t out) {
  if (r.params() == 2) r.expect_param(1, "bias (out)", {out}, r.in(0).dtype);
}

}  // namespace

std::vector<Tensor> conv_outputs(const ShapeRule& r, std::size_t dimensions) {
  constexpr std::string_view kWeight = "weight (out, in / groups, kernel)";
  expect_image(r, dimensions);
  r.expect_param_rank(0, kWeight, dimensions + 2);
  const Shape& weight = r.param_shape(0);
  const std::int64_t in = r.shape(0)[0];
  Shape expected = weight;
  expected[1] = in / groups(r, in, weight[0]);
  r.expect_param(0, kWeight, expected, r.in(0).dtype);
  expect_bias(r, weight[0]);
  const Windows windows = conv_windows(r, {weight.begin() + 2, weight.end()});
  return r.result(windows_shape(r, weight[0], windows));
}

std::vector<Tensor> conv_transpose2d_outputs(const ShapeRule& r) {
  constexpr std::string_view kWeight = "weight (in, out / groups, kernel)";
  expect_image(r, 2);
  r.expect_param_rank(0, kWeight, 4);
  Shape expected = r.param_shape(0);
  expected[0] = r.shape(0)[0];
  r.expect_param(0, kWeight, expected, r.in(0).dtype);
  const std::int64_t out = expected[1] * r.op().integer("groups");
  groups(r, expected[0], out);
  expect_bias(r, out);
  const Windows windows = conv_windows(r, {expected[2], expected[3]});
  const Shape& extra = r.numbers("output_padding", 2, 0);
  Shape shape = {out};
  for (std::size_t d = 0; d < 2; ++d) {
    if (extra[d] >= std::max(windows.stride[d], windows.dilation[d])) {
      r.fail(fmt::format("output_padding is {}, expected less than stride or dilation",
                         shape_text(extra)));
    }
    shape.push_back((r.shape(0)[d + 1] - 1) * windows.stride[d] - 2 * windows.padding[d] +
                    reach(windows, d) + extra[d]);
    if (shape.back() < 1) {
      r.fail(fmt::format("padding {} leaves nothing of dimension {} of the output",
                         shape_text(windows.padding), d + 1));
    }
  }
  return r.result(shape);
}

std::vector<Tensor> pool2d_outputs(const ShapeRule& r) {
  expect_image(r, 2);
  const Windows windows{
      r.numbers("kernel", 2, 1), r.numbers("stride", 2, 1), r.numbers("padding", 2, 0), {1, 1}};
  for (std::size_t d = 0; d < 2; ++d) {
    if (2 * windows.padding[d] <= windows.kernel[d]) continue;
    r.fail(fmt::format("padding is {}, expected at most half of the kernel {}",
                       shape_text(windows.padding), shape_text(windows.kernel)));
  }
  return r.result(windows_shape(r, r.shape(0)[0], windows));
}

std::vector<Tensor> global_avg_pool_outputs(const ShapeRule& r) {
  r.expect_floating(0);
  r.expect_batched(0);
  r.expect_rank_at_least(0, 2);
  return r.result({r.shape(0)[0]});
}

std::vector<Tensor> resize_outputs(const ShapeRule& r) {
  expect_image(r, 2);
  const std::string& mode = r.op().text("mode");
  if (mode != "nearest" && mode != "bilinear") {
    r.fail(fmt::format("mode is \"{}\", expected \"nearest\" or \"bilinear\"", mode));
  }
  const Shape& size = r.numbers("size", 2, 1);
  return r.result({r.shape(0)[0], size[0], size[1]});
}

std::vector<Tensor> batch_norm_outputs(const ShapeRule& r) {
  r.expect_floating(0);
  r.expect_batched(0);
  r.expect_rank_at_least(0, 1);
  r.expect_epsilon();
  const double momentum = r.op().number("momentum");
  if (!(momentum > 0 && momentum <= 1)) {
    r.fail(fmt::format("momentum is {}, expected more than 0 and at most 1", momentum));
  }
  constexpr std::string_view kNames[] = {"weight (C)", "bias (C)", "mean (C)", "variance (C)"};
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    r.expect_param(i, kNames[i], {r.shape(0)[0]}, r.in(0).dtype);
  }
  for (const std::size_t i : {2U, 3U}) r.expect_untrained(i, kNames[i]);
  return r.result(r.shape(0));
}

std::vector<Tensor> split_outputs(const ShapeRule& r) {
  const std::size_t axis = r.axis();
  const std::int64_t extent = r.shape(0)[axis];
  const Shape& sizes = r.op().list("sizes");
  std::int64_t left = extent;
  for (const std::int64_t size : sizes) left = size < 1 || size > left ? -1 : left - size;
  if (left != 0) {
    r.fail(fmt::format("sizes is {}, expected positive ones that add up to the {} of axis {} of {}",
                       shape_text(sizes), extent, axis, r.input_text(0)));
  }
  std::vector<Tensor> outputs;
  for (const std::int64_t size : sizes) {
    Shape shape = r.shape(0);
    shape[axis] = size;
    outputs.push_back(r.result(shape)[0]);
  }
  return outputs;
}

std::vector<Tensor> pad_outputs(const ShapeRule& r) {
  r.expect_floating(0);
  r.expect_batched(0);
  Shape shape = r.shape(0);
  const Shape& before = r.numbers("before", shape.size(), 0);
  const Shape& after = r.numbers("after", shape.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] += before[d] + after[d];
  return r.result(shape);
}

std::vector<Tensor> recurrent_outputs(const ShapeRule& r, std::int64_t gates) {
  r.expect_floating(0);
  r.expect_batched(0);
  r.expect_rank(0, 2);
  const std::string rows = fmt::format("{}H", gates);
  const std::string w_ih = fmt::format("w_ih ({}, in)", rows);
  r.expect_param_rank(0, w_ih, 2);
  const std::int64_t all = r.param_shape(0)[0];
  if (all % gates != 0) {
    r.fail(fmt::format("{} has {} rows, expected a multiple of {}", w_ih, all, gates));
  }
  const std::int64_t hidden = all / gates;
  const DType dtype = r.in(0).dtype;
  r.expect_param(0, w_ih, {all, r.shape(0)[1]}, dtype);
  r.expect_param(1, fmt::format("w_hh ({}, H)", rows), {all, hidden}, dtype);
  r.expect_param(2, fmt::format("b_ih ({})", rows), {all}, dtype);
  r.expect_param(3, fmt::format("b_hh ({})", rows), {all}, dtype);
  return r.result({r.shape(0)[0], hidden});
}

}  // namespace graphpipe
