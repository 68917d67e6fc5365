// Resize, axis by axis: the nearest elements are gathered, and what interpolates is a product
// with a matrix of constants. Where an image is only doubled, or resized bilinearly in the usual
// way, it is our own operator.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/onnx/families.h"

namespace graphpipe::onnx_import {
namespace {

struct Rule {
  std::string mode, transform, nearest;
  double cubic = -0.75;
  bool exclude_outside = false;
  bool antialias = false;  // where it shrinks, a mean over all that a result covers
};

struct Axis {
  std::int64_t from = 1, to = 1;
  double scale = 1;
};

// Where element i of the result lies in what is resized.
double coordinate(const Rule& rule, const Axis& axis, std::int64_t i) {
  const auto at = static_cast<double>(i);
  const auto from = static_cast<double>(axis.from);
  const double to = axis.scale * from;  // not rounded, as in ONNX's own tests
  if (rule.transform == "asymmetric") return at / axis.scale;
  if (rule.transform == "align_corners") return axis.to == 1 ? 0 : at * (from - 1) / (to - 1);
  if (rule.transform == "tf_half_pixel_for_nn") return (at + 0.5) / axis.scale;
  if (rule.transform == "pytorch_half_pixel" && axis.to == 1) return 0;
  const double half_pixel = (at + 0.5) / axis.scale - 0.5;
  if (rule.transform != "half_pixel_symmetric") return half_pixel;
  return from / 2 * (1 - static_cast<double>(axis.to) / to) + half_pixel;
}

std::int64_t nearest(const Rule& rule, double x) {
  if (rule.nearest == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (rule.nearest == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  const double half = std::floor(x) + 0.5;
  if (x == half && rule.nearest == "round_prefer_floor")
    return static_cast<std::int64_t>(half - 0.5);
  return static_cast<std::int64_t>(std::floor(x + 0.5));
}

double cubic_weight(double a, double d) {
  d = std::abs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

// (to, from), row-major.
std::vector<double> interpolation(const Rule& rule, const Axis& axis) {
  std::vector<double> matrix(static_cast<std::size_t>(axis.to * axis.from), 0);
  const bool cubic = rule.mode == "cubic";
  const double narrow = rule.antialias ? std::min(axis.scale, 1.0) : 1;
  const auto reach = static_cast<std::int64_t>(std::ceil((cubic ? 2 : 1) / narrow));
  for (std::int64_t i = 0; i < axis.to; ++i) {
    const double x = coordinate(rule, axis, i);
    const auto base = static_cast<std::int64_t>(std::floor(x));
    double sum = 0;
    std::vector<std::pair<std::int64_t, double>> taps;
    for (std::int64_t j = base - reach + 1; j <= base + reach; ++j) {
      const double distance = (x - static_cast<double>(j)) * narrow;
      double weight =
          cubic ? cubic_weight(rule.cubic, distance) : std::max(0.0, 1 - std::abs(distance));
      if (rule.exclude_outside && (j < 0 || j >= axis.from)) weight = 0;
      sum += weight;
      taps.emplace_back(std::clamp<std::int64_t>(j, 0, axis.from - 1), weight);
    }
    for (const auto& [j, weight] : taps) {
      matrix[static_cast<std::size_t>(i * axis.from + j)] += weight / sum;
    }
  }
  return matrix;
}

TensorId resize_axis(Importer& m, const Rule& rule, const Axis& axis, TensorId x,
                     std::int64_t place) {
  if (rule.mode == "nearest") {
    Shape indices;
    for (std::int64_t i = 0; i < axis.to; ++i) {
      indices.push_back(
          std::clamp<std::int64_t>(nearest(rule, coordinate(rule, axis, i)), 0, axis.from - 1));
    }
    return m.pick(x, place, indices);
  }
  if (axis.to > kMostConstant / axis.from) m.fail("is too large");
  const Shape shape = {axis.to, axis.from};
  const ParamId matrix =
      m.param(constant_value(m.tensor(x).dtype, shape, interpolation(rule, axis)), shape, false);
  // The axis goes last and comes back.
  const auto rank = static_cast<std::int64_t>(m.tensor(x).shape.size());
  Shape last;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != place) last.push_back(d);
  }
  last.push_back(place);
  Shape back(static_cast<std::size_t>(rank));
  for (std::int64_t d = 0; d < rank; ++d)
    back[static_cast<std::size_t>(last[static_cast<std::size_t>(d)])] = d;
  TensorId y = m.transpose(x, last);
  y = m.op(OpKind::kLinear, {y}, {matrix}, {});
  return m.transpose(y, back);
}

// The sizes or scales of all axes, where they may be given for some.
std::vector<Item> given_numbers(const Importer& m, const Dims& dims, std::size_t input,
                                bool sizes) {
  const std::vector<Item> given = m.items(input);
  const auto axes = m.list("axes");
  if (given.size() != (axes ? axes->size() : dims.size())) {
    m.fail("has not a size or a scale for each axis");
  }
  if (!axes) return given;
  std::vector<Item> numbers;
  for (const Dim& dim : dims) {
    numbers.push_back(sizes ? Item{static_cast<double>(dim.size), dim.batch} : Item{1, false});
  }
  for (std::size_t i = 0; i < given.size(); ++i) numbers[m.axis_of((*axes)[i], dims)] = given[i];
  return numbers;
}

// One scale for all axes that are named: the least or the largest that a size asks for.
void keep_aspect(const Importer& m, const Dims& dims, std::vector<Axis>& axes) {
  const std::string policy = m.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") return;
  if (policy != "not_larger" && policy != "not_smaller") {
    m.fail(fmt::format("keep_aspect_ratio_policy {} is not known", policy));
  }
  std::vector<bool> named(axes.size(), true);
  if (const auto list = m.list("axes")) {
    named.assign(axes.size(), false);
    for (const std::int64_t axis : *list) named[m.axis_of(axis, dims)] = true;
  }
  std::optional<double> scale;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!named[i]) continue;
    if (dims[i].batch) m.fail("keeps the aspect of the axis that holds the samples");
    const double own = axes[i].scale;
    scale = !scale ? own : policy == "not_larger" ? std::min(*scale, own) : std::max(*scale, own);
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!named[i]) continue;
    axes[i].scale = *scale;
    const double to = std::floor(*scale * static_cast<double>(axes[i].from) + 0.5);
    if (!(to >= 1 && to <= 1 << 20)) m.fail(fmt::format("makes {} of {}", to, axes[i].from));
    axes[i].to = static_cast<std::int64_t>(to);
  }
}

std::vector<Axis> axes_of(Importer& m, const Value& x) {
  std::vector<Axis> axes(x.dims.size());
  const bool has_sizes = m.has_input(3);
  const std::size_t input = has_sizes ? 3 : 2;
  if (!m.has_input(input)) m.fail("has neither sizes nor scales");
  const std::vector<Item> numbers = given_numbers(m, x.dims, input, has_sizes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].from = x.dims[i].size;
    const double number = numbers[i].number;
    if (x.dims[i].batch) {
      // A file whose number of samples is open may name the one that it was exported with.
      const bool traced = m.static_batch() == 0 && i == 0;
      const bool same = !has_sizes ? number == 1
                                   : numbers[i].batch || traced ||
                                         number == static_cast<double>(m.static_batch());
      if (!same) m.fail("resizes the axis that holds the samples");
      axes[i].to = axes[i].from;
      continue;
    }
    const double to = has_sizes ? number : std::floor(static_cast<double>(axes[i].from) * number);
    if (!(to >= 1 && to <= 1 << 20)) m.fail(fmt::format("makes {} of {}", to, axes[i].from));
    axes[i].to = static_cast<std::int64_t>(to);
    axes[i].scale = has_sizes ? to / static_cast<double>(axes[i].from) : number;
  }
  if (has_sizes) keep_aspect(m, x.dims, axes);
  return axes;
}

bool is_own(const Rule& rule, const std::vector<Axis>& axes) {
  const auto whole = [](const Axis& a) { return a.scale == std::floor(a.scale); };
  const auto grows = [](const Axis& a) {
    return a.to > 1 && a.scale * static_cast<double>(a.from) == static_cast<double>(a.to);
  };
  if (axes.size() != 4 || axes[1].from != axes[1].to || rule.antialias) return false;
  if (rule.mode == "nearest") {
    return rule.transform == "asymmetric" && rule.nearest == "floor" && whole(axes[2]) &&
           whole(axes[3]);
  }
  const bool half = rule.transform == "half_pixel" || rule.transform == "pytorch_half_pixel";
  return rule.mode == "linear" && half && !rule.exclude_outside && grows(axes[2]) && grows(axes[3]);
}

}  // namespace

void resize(Importer& m) {
  const Value& x = m.in(0);
  const Rule rule{m.text("mode", "nearest"),
                  m.text("coordinate_transformation_mode", "half_pixel"),
                  m.text("nearest_mode", "round_prefer_floor"),
                  m.number("cubic_coeff_a", -0.75),
                  m.integer("exclude_outside", 0) != 0,
                  m.integer("antialias", 0) != 0};
  const auto known = [](const std::string& one, std::initializer_list<std::string_view> all) {
    return std::ranges::find(all, one) != all.end();
  };
  if (!known(rule.mode, {"nearest", "linear", "cubic"}) ||
      !known(rule.transform, {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                              "tf_half_pixel_for_nn", "half_pixel_symmetric"})) {
    m.fail(fmt::format("mode {} by {} is not supported", rule.mode, rule.transform));
  }
  const std::vector<Axis> axes = axes_of(m, x);
  Dims dims = x.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i].size = axes[i].to;
  if (x.dims.size() == 4 && x.dims[0] == Dim{1, true} && is_own(rule, axes) &&
      is_floating(x.dtype)) {
    const TensorId y = m.op(OpKind::kResize, {m.image(x, 2)}, {},
                            {{"mode", std::string(rule.mode == "nearest" ? "nearest" : "bilinear")},
                             {"size", Shape{axes[2].to, axes[3].to}}});
    return m.out(m.value_of(y, dims));
  }
  TensorId y = m.materialize(x);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (x.dims[i].batch || (axes[i].from == axes[i].to && axes[i].scale == 1)) continue;
    y = resize_axis(m, rule, axes[i], y, axes_before(x.dims, i));
  }
  m.out(m.value_of(y, dims));
}

}  // namespace graphpipe::onnx_import
