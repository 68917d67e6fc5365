// Pools. Ours have the same padding on both sides, at most half of the window, and count it
// into a mean: what ONNX says beyond that is a padding before the pool, and a factor behind it.
// Dilated windows are gathered one beside the other, and pooled by a stride as wide as they are.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/onnx/families.h"

namespace graphpipe::onnx_import {
namespace {

// The windows along one axis of n elements.
struct Line {
  std::int64_t n, before, after, kernel, stride, dilation;
  std::int64_t windows = 0;
  std::int64_t beyond = 0;  // what the last window reads behind `after`
};

// Where the number is rounded up, a window that starts behind the elements is none.
Line line_of(Importer& m, const Windows& w, std::size_t d, std::int64_t n, bool up) {
  Line line{n, w.before[d], w.after[d], w.kernel[d], w.stride[d], w.dilation[d]};
  const std::int64_t room = n + line.before + line.after - (line.dilation * (line.kernel - 1) + 1);
  if (room < 0) m.fail("a window does not fit in its input");
  line.windows = (room + (up ? line.stride - 1 : 0)) / line.stride + 1;
  if (up && (line.windows - 1) * line.stride >= n + line.before) --line.windows;
  line.beyond = std::max<std::int64_t>(0, (line.windows - 1) * line.stride - room);
  return line;
}

// Elements that count, of each window.
std::vector<double> counted(Importer& m, const Line& line, bool padding_counts) {
  std::vector<double> counts;
  const std::int64_t low = padding_counts ? -line.before : 0;
  const std::int64_t high = padding_counts ? line.n + line.after : line.n;
  for (std::int64_t i = 0; i < line.windows; ++i) {
    const std::int64_t from = i * line.stride - line.before;
    const std::int64_t first =
        std::max<std::int64_t>(0, (low - from + line.dilation - 1) / line.dilation);
    const std::int64_t last = std::min(line.kernel - 1, (high - 1 - from) / line.dilation);
    if (from >= high || last < first) m.fail("a mean is one of padding alone");
    counts.push_back(static_cast<double>(last - first + 1));
  }
  return counts;
}

// Of a padded axis the elements that the windows read, one window after another.
Shape gathered(Importer& m, const Line& line) {
  if (line.windows > kMostConstant / line.kernel) m.fail("is too large");
  Shape indices;
  for (std::int64_t i = 0; i < line.windows; ++i) {
    for (std::int64_t k = 0; k < line.kernel; ++k) {
      indices.push_back(i * line.stride + k * line.dilation);
    }
  }
  return indices;
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
  if (n == 1) {
    image.insert(image.begin() + 1, 1);
    y = m.reshape(y, image);
    for (Shape* list : {&w.kernel, &w.stride, &w.dilation}) list->insert(list->begin(), 1);
    for (Shape* list : {&w.before, &w.after}) list->insert(list->begin(), 0);
  }
  const bool up = m.integer("ceil_mode", 0) != 0;
  const bool padding_counts = m.integer("count_include_pad", 0) != 0;
  Shape before = {0, 0, 0}, after = {0, 0, 0};
  std::vector<Line> lines;
  std::vector<std::vector<double>> counts;
  bool direct = true;
  for (std::size_t d = 0; d < 2; ++d) {
    const Line line = line_of(m, w, d, image[d + 1], up);
    before[d + 1] = line.before;
    after[d + 1] = line.after + line.beyond;
    if (!largest) counts.push_back(counted(m, line, padding_counts));
    direct = direct && before[d + 1] == after[d + 1] && 2 * before[d + 1] <= line.kernel &&
             line.dilation == 1;
    lines.push_back(line);
  }
  Shape padding = {before[1], before[2]};
  if (!direct) {
    const double value = largest ? -static_cast<double>(std::numeric_limits<float>::max()) : 0.0;
    y = m.op(OpKind::kPad, {y}, {}, {{"after", after}, {"before", before}, {"value", value}});
    padding = {0, 0};
  }
  for (std::size_t d = 0; d < 2; ++d) {
    if (lines[d].dilation == 1) continue;
    y = m.pick(y, static_cast<std::int64_t>(d + 1), gathered(m, lines[d]));
    w.stride[d] = w.kernel[d];
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
