// Pools. Ours have the same padding on both sides, at most half of the window, and count it
// into a mean: what ONNX says beyond that is a padding before the pool, and a factor behind it.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/onnx/families.h"

namespace graphpipe::onnx_import {
namespace {

// Elements of a row that count, of each window along it.
std::vector<double> counted(std::int64_t n, std::int64_t before, std::int64_t after,
                            std::int64_t kernel, std::int64_t stride, std::int64_t windows,
                            bool padding_counts) {
  std::vector<double> counts;
  const std::int64_t low = padding_counts ? -before : 0;
  const std::int64_t high = padding_counts ? n + after : n;
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t from = i * stride - before;
    counts.push_back(static_cast<double>(std::min(from + kernel, high) - std::max(from, low)));
  }
  return counts;
}

// Each window's mean over all its elements, made one over those that count.
TensorId corrected(Importer& m, TensorId y, const Shape& kernel,
                   const std::vector<std::vector<double>>& counts) {
  std::vector<double> factors;
  const double all = static_cast<double>(element_count(kernel));
  for (const double rows : counts[0]) {
    for (const double columns : counts[1]) factors.push_back(all / (rows * columns));
  }
  if (std::ranges::all_of(factors, [](double f) { return f == 1; })) return y;
  const Shape shape = {static_cast<std::int64_t>(counts[0].size()),
                       static_cast<std::int64_t>(counts[1].size())};
  return m.with_constant("mul", y, constant_value(m.tensor(y).dtype, shape, factors));
}

}  // namespace

void pool(Importer& m) {
  const Value& x = m.in(0);
  const bool largest = m.node().type == "MaxPool";
  if (m.wants_output(1)) m.fail("the places of the largest are not supported");
  const std::size_t n = spatial_dimensions(m, x);
  TensorId y = m.image(x, n);
  Shape image = m.tensor(y).shape;
  Windows w = windows_of(m, {image.begin() + 1, image.end()}, {});
  if (std::ranges::any_of(w.dilation, [](std::int64_t d) { return d != 1; })) {
    m.fail("dilations are not supported");
  }
  if (n == 1) {
    image.insert(image.begin() + 1, 1);
    y = m.reshape(y, image);
    for (Shape* list : {&w.kernel, &w.stride}) list->insert(list->begin(), 1);
    for (Shape* list : {&w.before, &w.after}) list->insert(list->begin(), 0);
  }
  const bool up = m.integer("ceil_mode", 0) != 0;
  const bool padding_counts = m.integer("count_include_pad", 0) != 0;
  Shape before = {0, 0, 0}, after = {0, 0, 0};
  std::vector<std::vector<double>> counts;
  bool direct = true;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t room = image[d + 1] + w.before[d] + w.after[d] - w.kernel[d];
    if (room < 0) m.fail("a window does not fit in its input");
    const std::int64_t windows = (room + (up ? w.stride[d] - 1 : 0)) / w.stride[d] + 1;
    const std::int64_t beyond = std::max<std::int64_t>(0, (windows - 1) * w.stride[d] - room);
    before[d + 1] = w.before[d];
    after[d + 1] = w.after[d] + beyond;
    counts.push_back(counted(image[d + 1], w.before[d], w.after[d], w.kernel[d], w.stride[d],
                             windows, padding_counts));
    direct = direct && before[d + 1] == after[d + 1] && 2 * before[d + 1] <= w.kernel[d];
  }
  Shape padding = {before[1], before[2]};
  if (!direct) {
    const double value = largest ? -static_cast<double>(std::numeric_limits<float>::max()) : 0.0;
    y = m.op(OpKind::kPad, {y}, {}, {{"after", after}, {"before", before}, {"value", value}});
    padding = {0, 0};
  }
  y = m.op(largest ? OpKind::kMaxPool2d : OpKind::kAvgPool2d, {y}, {},
           {{"kernel", w.kernel}, {"padding", padding}, {"stride", w.stride}});
  if (!largest) y = corrected(m, y, w.kernel, counts);
  Shape shape = m.tensor(y).shape;
  if (n == 1) shape.erase(shape.begin() + 1);
  Dims dims = plain_dims(shape);
  dims.insert(dims.begin(), {1, true});
  m.out(m.value_of(m.reshape(y, shape), dims));
}

void global_pool(Importer& m) {
  const Value& x = m.in(0);
  if (x.dims.size() < 3) m.fail("has no dimensions behind the channels");
  const TensorId image = m.image(x, x.dims.size() - 2);
  Dims dims = x.dims;
  Shape axes;
  for (std::size_t i = 2; i < dims.size(); ++i) {
    dims[i] = {};
    axes.push_back(static_cast<std::int64_t>(i - 1));
  }
  const TensorId y = m.node().type == "GlobalMaxPool"
                         ? m.reduce("max", image, axes, false)
                         : m.op(OpKind::kGlobalAvgPool, {image}, {}, {});
  m.out(m.value_of(m.reshape(y, sample_shape(dims)), dims));
}

}  // namespace graphpipe::onnx_import
