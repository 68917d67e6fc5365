// Operators that arrange: shapes, slices, gathers, and constants.

#include "models/onnx/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace graphpipe::onnx_import {
namespace {

std::int64_t rank(const Dims& dims) { return static_cast<std::int64_t>(dims.size()); }

// ONNX's codes of types.
std::optional<DType> type_of_code(std::int64_t code) {
  switch (code) {
    case 1:
      return DType::kFloat32;
    case 11:
      return DType::kFloat64;
    case 6:
    case 7:
      return DType::kInt64;
    case 9:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

std::string_view cast_function(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "cast_float32";
    case DType::kFloat64:
      return "cast_float64";
    case DType::kInt64:
      return "cast_int64";
    case DType::kBool:
      return "cast_bool";
  }
  GP_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

void cast_to(Importer& m, DType dtype) {
  const Value& x = m.in(0);
  if (x.dtype == dtype) return m.out(x);
  const auto found = m.folds(x) ? items_of(x) : nullptr;
  if (!found) return m.out(m.elementwise(cast_function(dtype), {x}));
  std::vector<Item> items = found->items;
  for (Item& item : items) {
    if (dtype == DType::kInt64) item.number = std::trunc(item.number);
    if (dtype == DType::kBool) item.number = item.number != 0;
  }
  m.out(items_value(dtype, x.dims, std::move(items)));
}

// A constant of these elements of x's, in the order of `sources`.
Value rearranged(const Value& x, Dims dims, const std::vector<std::size_t>& sources) {
  const auto from = items_of(x);
  std::vector<Item> items;
  for (const std::size_t at : sources) items.push_back(from->items[at]);
  return items_value(x.dtype, std::move(dims), std::move(items));
}

bool arranges_now(const Importer& m, const Value& x) {
  return m.folds(x) && items_of(x) != nullptr;
}

// The elements that indices along an axis name.
std::vector<std::size_t> along(const Shape& shape, std::size_t axis, const Shape& indices) {
  const auto count = [&](std::size_t from, std::size_t to) {
    return element_count({shape.begin() + static_cast<std::ptrdiff_t>(from),
                          shape.begin() + static_cast<std::ptrdiff_t>(to)});
  };
  const std::int64_t before = count(0, axis);
  const std::int64_t after = count(axis + 1, shape.size());
  std::vector<std::size_t> sources;
  for (std::int64_t b = 0; b < before; ++b) {
    for (const std::int64_t index : indices) {
      for (std::int64_t a = 0; a < after; ++a) {
        sources.push_back(static_cast<std::size_t>((b * shape[axis] + index) * after + a));
      }
    }
  }
  return sources;
}

std::vector<Item> dims_items(const Dims& dims) {
  std::vector<Item> items;
  for (const Dim& dim : dims) items.push_back({static_cast<double>(dim.total()), dim.batch});
  return items;
}

Dims dims_of(const Importer& m, const std::vector<Item>& items) {
  Dims dims;
  for (const Item& item : items) {
    constexpr double kMost = 0x1p40;
    if (!(item.number >= 1 && item.number <= kMost)) {
      m.fail(fmt::format("a shape has the dimension {}, expected a positive one", item.number));
    }
    dims.push_back({static_cast<std::int64_t>(item.number), item.batch});
  }
  if (std::ranges::count(dims, true, &Dim::batch) > 1) {
    m.fail("a shape has the number of samples twice");
  }
  if (element_count(sample_shape(dims)) > kMostConstant) {
    m.fail(fmt::format("would make a constant of shape {}, expected at most {} elements",
                       dims_text(dims), kMostConstant));
  }
  return dims;
}

void reshape_to(Importer& m, const std::vector<Item>& wanted, bool zero_copies) {
  const Value& x = m.in(0);
  const auto dims = reshaped_dims(x.dims, wanted, zero_copies, m.static_batch());
  if (!dims) {
    std::string text;
    for (const Item& item : wanted) {
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", item.number, item.batch ? "N" : "");
    }
    m.fail(fmt::format("reshapes {} to ({}), which would take samples apart or move them",
                       dims_text(x.dims), text));
  }
  if (x.items && !x.bytes) return m.out(items_value(x.dtype, *dims, x.items->items));
  m.out(m.reshaped(x, *dims));
}

Value slice_axis(Importer& m, const Value& x, std::size_t axis, std::int64_t start,
                 std::int64_t end, std::int64_t step) {
  const Dim& dim = x.dims[axis];
  const std::int64_t n = dim.size;
  if (step == 0) m.fail("slices with a step of 0");
  if (dim.batch) {
    const bool whole = step == 1 && start == 0 && end >= n && end > (std::int64_t{1} << 30);
    if (!whole) m.fail("slices along the axis that holds the samples");
    return x;
  }
  if (start < 0) start += n;
  if (end < 0) end += n;
  start = std::clamp<std::int64_t>(start, 0, step > 0 ? n : n - 1);
  end = std::clamp<std::int64_t>(end, step > 0 ? 0 : -1, n);
  Shape indices;
  for (std::int64_t i = start; step > 0 ? i < end : i > end; i += step) indices.push_back(i);
  if (indices.empty() && !(arranges_now(m, x) && x.dims.size() == 1)) {
    m.fail("slices nothing, and tensors without elements are not supported");
  }
  Dims dims = x.dims;
  dims[axis].size = static_cast<std::int64_t>(indices.size());
  if (dims == x.dims && step == 1) return x;
  const std::int64_t at = axes_before(x.dims, axis);
  if (arranges_now(m, x)) {
    return rearranged(x, dims, along(x.shape(), static_cast<std::size_t>(at), indices));
  }
  const TensorId tensor = m.materialize(x);
  const TensorId y = step == 1
                         ? m.slice(tensor, at, start, static_cast<std::int64_t>(indices.size()))
                         : m.pick(tensor, at, indices);
  return m.value_of(y, dims);
}

// A table of weights, a row for each id.
bool is_table(const Importer& m, const Value& data, const Value& indices, std::size_t axis) {
  return data.is_constant() && !data.weight.empty() && data.dtype == DType::kFloat32 &&
         data.dims.size() == 2 && axis == 0 && !indices.is_constant() && m.is_input(indices.tensor);
}

Dims gathered_dims(const Importer& m, const Value& data, const Value& indices, std::size_t axis) {
  Dims dims(data.dims.begin(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
              data.dims.end());
  if (std::ranges::count(dims, true, &Dim::batch) > 1) {
    m.fail("would gather of each sample what the other samples name");
  }
  return dims;
}

Shape checked_indices(const Importer& m, const Shape& indices, std::int64_t extent) {
  Shape result = indices;
  for (std::int64_t& index : result) {
    if (index < -extent || index >= extent) {
      m.fail(fmt::format("gathers index {} of {} elements", index, extent));
    }
    if (index < 0) index += extent;
  }
  return result;
}

Value gather_constant(Importer& m, const Value& data, const Value& indices, std::size_t axis,
                      const Dims& dims) {
  Shape wanted;
  const auto named = items_of(indices);
  for (const Item& item : named->items) {
    wanted.push_back(static_cast<std::int64_t>(item.number));
  }
  wanted = checked_indices(m, wanted, data.dims[axis].size);
  const std::int64_t at = axes_before(data.dims, axis);
  if (arranges_now(m, data)) {
    return rearranged(data, dims, along(data.shape(), static_cast<std::size_t>(at), wanted));
  }
  const TensorId tensor = m.materialize(data);
  const bool one = wanted.size() == 1;
  const TensorId y = one ? m.slice(tensor, at, wanted[0], 1) : m.pick(tensor, at, wanted);
  return m.value_of(m.reshape(y, sample_shape(dims)), dims);
}

TensorId gather_tensors(Importer& m, const Value& data, const Value& indices, std::int64_t axis,
                        const char* mode) {
  std::vector<TensorId> inputs;
  std::vector<ParamId> params;
  Shape operands;
  for (const Value* value : {&data, &indices}) {
    if (value->is_constant()) {
      operands.push_back(-1 - static_cast<std::int64_t>(params.size()));
      params.push_back(m.param(*value, value->shape(), value == &data && data.dims.size() >= 2));
    } else {
      operands.push_back(static_cast<std::int64_t>(inputs.size()));
      inputs.push_back(value->tensor);
    }
  }
  if (inputs.empty()) return m.gather_params(params, axis, mode);
  return m.op(OpKind::kGather, inputs, params,
              {{"axis", axis}, {"mode", std::string(mode)}, {"operands", operands}});
}

Value zeros_like_dims(DType dtype, const Dims& dims, double number) {
  const auto count = static_cast<std::size_t>(element_count(sample_shape(dims)));
  Value value = constant_value(dtype, sample_shape(dims), std::vector<double>(count, number));
  value.dims = dims;
  return value;
}

Value of_tensor(const OnnxTensor& tensor, const std::string& name) {
  Value value;
  value.dtype = tensor.dtype;
  value.dims = plain_dims(tensor.shape);
  value.bytes = std::make_shared<const std::string>(tensor.bytes);
  value.weight = name;
  return value;
}

// x of dims (samples, C, H, W) and block b.
struct Blocks {
  std::int64_t c, h, w, b;
};
Blocks blocks_of(Importer& m) {
  const Shape shape = m.tensor(m.image(m.in(0), 2)).shape;
  const std::int64_t b = m.integer("blocksize", 0);
  if (b < 1) m.fail("blocksize is not positive");
  return {shape[0], shape[1], shape[2], b};
}

Dims image_dims(std::int64_t c, std::int64_t h, std::int64_t w) {
  return {{1, true}, {c, false}, {h, false}, {w, false}};
}

// Before each axis, then behind each; given for all axes or those of input 3.
Shape pads_of(const Importer& m, const Dims& dims) {
  const Shape given = m.integers(1);
  Shape axes(dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (m.has_input(3)) axes = m.integers(3);
  if (given.size() != 2 * axes.size()) m.fail("has not two pads for each axis");
  Shape pads(2 * dims.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t at = m.axis_of(axes[i], dims);
    pads[at] = given[i];
    pads[dims.size() + at] = given[axes.size() + i];
  }
  return pads;
}

// Of each index along an axis of a padded tensor, the index that it copies.
Shape padded_indices(const Importer& m, const std::string& mode, std::int64_t n,
                     std::int64_t before, std::int64_t after) {
  Shape indices;
  for (std::int64_t i = -before; i < n + after; ++i) {
    if (mode == "edge") {
      indices.push_back(std::clamp<std::int64_t>(i, 0, n - 1));
      continue;
    }
    if (mode == "wrap") {
      indices.push_back((i % n + n) % n);
      continue;
    }
    if (i < -(n - 1) || i > 2 * (n - 1)) m.fail("reflects more than there is");
    indices.push_back(i < 0 ? -i : i < n ? i : 2 * (n - 1) - i);
  }
  return indices;
}

}  // namespace

std::optional<Dims> reshaped_dims(const Dims& from, const std::vector<Item>& wanted,
                                  bool zero_copies, std::int64_t static_batch) {
  // Elements of one sample that are slower than the samples, and all of them.
  const auto batch = batch_axis(from);
  std::int64_t before = 1;
  std::int64_t all = 1;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (batch && i < *batch) before *= from[i].size;
    if (batch && i == *batch) before *= from[i].outer;
    all *= from[i].total();
  }
  Dims dims;
  std::optional<std::size_t> open;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Dim dim{static_cast<std::int64_t>(wanted[i].number), wanted[i].batch};
    if (dim.size == 0 && !dim.batch && zero_copies) {
      if (i >= from.size()) return std::nullopt;
      dim = {from[i].total(), from[i].batch};
    }
    if (dim.size == -1 && !dim.batch) {
      if (open) return std::nullopt;
      open = i;
      dim.size = 1;
    } else if (dim.size < 1 || __builtin_mul_overflow(known, dim.size, &known)) {
      return std::nullopt;
    }
    dims.push_back(dim);
  }
  const auto total = [&] {
    std::int64_t product = 1;
    for (const Dim& dim : dims) {
      if (__builtin_mul_overflow(product, dim.size, &product)) return std::int64_t{-1};
    }
    return product;
  };
  // Makes axis i, of a sample's elements, that of the samples; whether they stay in their order.
  const auto hold_samples = [&](std::size_t i) {
    std::int64_t slower = 1;
    for (std::size_t d = 0; d < i; ++d) slower *= dims[d].size;
    if (before % slower != 0 || dims[i].size % (before / slower) != 0) return false;
    dims[i] = {dims[i].size / (before / slower), true, before / slower};
    return true;
  };
  const auto to = batch_axis(dims);
  if (to && !batch) return std::nullopt;
  const std::int64_t fixed = std::max<std::int64_t>(static_batch, 1);
  if (batch && !to) {  // a number stands for the samples: the open one, or in a file of a fixed
                       // batch any
    if (open && all % known == 0) {
      dims[*open].size = all / known;
      if (hold_samples(*open)) return dims;
    }
    if (static_batch == 0) return std::nullopt;
    if (open) dims[*open].size = all * fixed / known;
    if (total() != all * fixed) return std::nullopt;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i].size % fixed != 0) continue;
      dims[i].size /= fixed;
      if (hold_samples(i)) return dims;
      dims[i].size *= fixed;
    }
    return std::nullopt;
  }
  if (open) dims[*open].size = all / known;
  if (total() != all || (to && !hold_samples(*to))) return std::nullopt;
  return dims;
}

void identity(Importer& m) { m.out(m.in(0)); }

void cast(Importer& m) {
  const auto dtype = type_of_code(m.integer("to", 0));
  if (!dtype) m.fail(fmt::format("casts to type {}, which is not supported", m.integer("to", 0)));
  cast_to(m, *dtype);
}

void cast_like(Importer& m) { cast_to(m, m.in(1).dtype); }

void reshape(Importer& m) {
  // Newer exporters ask for it always; without a 0 in the shape it says nothing.
  const bool allows_zero = m.integer("allowzero", 0) != 0;
  const std::vector<Item> wanted = m.items(1);
  if (allows_zero && std::ranges::count(wanted, 0.0, &Item::number) > 0) {
    m.fail("makes a tensor without elements, which is not supported");
  }
  reshape_to(m, wanted, !allows_zero);
}

void flatten(Importer& m) {
  const Dims& dims = m.in(0).dims;
  const std::int64_t axis = m.integer("axis", 1);
  const std::size_t at = axis == rank(dims) ? dims.size() : m.axis_of(axis, dims);
  std::vector<Item> wanted(2, Item{1, false});
  for (std::size_t i = 0; i < dims.size(); ++i) {
    Item& part = wanted[i < at ? 0 : 1];
    part.number *= static_cast<double>(dims[i].total());
    part.batch = part.batch || dims[i].batch;
  }
  reshape_to(m, wanted, false);
}

Shape axes_of(Importer& m, std::size_t input) {
  if (const auto axes = m.list("axes")) return *axes;
  return m.has_input(input) ? m.integers(input) : Shape{};
}

void squeeze(Importer& m) {
  const Value& x = m.in(0);
  const Shape axes = axes_of(m, 1);
  std::vector<bool> gone(x.dims.size(), false);
  for (const std::int64_t axis : axes) gone[m.axis_of(axis, x.dims)] = true;
  std::vector<Item> wanted;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (axes.empty()) gone[i] = x.dims[i] == Dim{};
    if (gone[i] && x.dims[i] != Dim{})
      m.fail(fmt::format("squeezes axis {} of {}", i, dims_text(x.dims)));
    if (!gone[i]) wanted.push_back({static_cast<double>(x.dims[i].total()), x.dims[i].batch});
  }
  reshape_to(m, wanted, false);
}

void unsqueeze(Importer& m) {
  const Value& x = m.in(0);
  Shape axes = axes_of(m, 1);
  const auto all = rank(x.dims) + static_cast<std::int64_t>(axes.size());
  for (std::int64_t& axis : axes) {
    if (axis < -all || axis >= all) m.fail(fmt::format("axis {} is beyond {}", axis, all));
    if (axis < 0) axis += all;
  }
  std::sort(axes.begin(), axes.end());
  if (std::ranges::adjacent_find(axes) != axes.end()) m.fail("names an axis twice");
  std::vector<Item> wanted = dims_items(x.dims);
  for (const std::int64_t axis : axes) wanted.insert(wanted.begin() + axis, Item{1, false});
  reshape_to(m, wanted, false);
}

void transpose(Importer& m) {
  const Value& x = m.in(0);
  std::vector<std::size_t> permutation(x.dims.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) permutation[i] = permutation.size() - 1 - i;
  if (const auto given = m.list("perm")) {
    Shape sorted = *given;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<std::int64_t>(i)) m.fail("perm is no permutation");
    }
    if (sorted.size() != x.dims.size()) m.fail("perm has not one number for each axis");
    permutation.assign(given->begin(), given->end());
  }
  m.out(m.transposed(x, permutation));
}

void concat(Importer& m) {
  std::vector<Value> xs;
  for (std::size_t i = 0; i < m.inputs(); ++i) xs.push_back(m.in(i));
  if (xs.empty()) m.fail("has no inputs");
  Dims dims = xs.front().dims;
  const std::size_t axis = m.axis_of(m.integer("axis", 0), dims);
  bool now = axis == 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    now = now && arranges_now(m, xs[i]) && xs[i].dims.size() == 1 && !batch_axis(xs[i].dims);
    Dims expected = dims;
    if (xs[i].dims.size() == dims.size()) expected[axis] = xs[i].dims[axis];
    if (xs[i].dims != expected) {
      m.fail(fmt::format("joins {} and {}", dims_text(dims), dims_text(xs[i].dims)));
    }
    if (i > 0) dims[axis].size += xs[i].dims[axis].size;
  }
  if (now) {
    std::vector<Item> items;
    for (const Value& x : xs) {
      const auto found = items_of(x);
      items.insert(items.end(), found->items.begin(), found->items.end());
    }
    return m.out(items_value(xs.front().dtype, dims, std::move(items)));
  }
  if (xs.size() == 1) return m.out(xs.front());
  const std::int64_t at = m.sample_axis(static_cast<std::int64_t>(axis), xs.front().dims);
  const bool samples = std::ranges::any_of(
      xs, [&](const Value& x) { return x.is_constant() || m.tensor(x.tensor).batched; });
  std::vector<TensorId> inputs;
  for (const Value& x : xs) inputs.push_back(m.materialize(x, true, samples));
  m.out(m.value_of(m.op(OpKind::kConcat, inputs, {}, {{"axis", at}}), dims));
}

void split(Importer& m) {
  const Value& x = m.in(0);
  const std::int64_t axis = m.integer("axis", 0);
  const std::size_t at = m.axis_of(axis, x.dims);
  const std::int64_t own = m.sample_axis(axis, x.dims);
  const auto parts = static_cast<std::int64_t>(m.node().outputs.size());
  const std::int64_t asked = m.integer("num_outputs", parts);
  if (asked != parts) m.fail(fmt::format("num_outputs is {}, expected {}", asked, parts));
  const std::int64_t extent = x.dims[at].size;
  Shape sizes;
  if (const auto given = m.list("split")) {
    sizes = *given;
  } else if (m.has_input(1)) {
    sizes = m.integers(1);
  } else {
    const std::int64_t each = (extent + parts - 1) / parts;
    for (std::int64_t left = extent; left > 0; left -= each) sizes.push_back(std::min(each, left));
  }
  if (static_cast<std::int64_t>(sizes.size()) != parts) m.fail("has not a size for each output");
  if (parts == 1) return m.out(x);
  const std::vector<TensorId> pieces = m.ops(OpKind::kSplit, {m.materialize(x)}, {},
                                             {{"axis", own}, {"sizes", sizes}}, sizes.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Dims dims = x.dims;
    dims[at].size = sizes[i];
    m.out(i, m.value_of(pieces[i], dims));
  }
}

void slice(Importer& m) {
  const Shape starts = m.integers(1);
  const Shape ends = m.integers(2);
  Shape axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (m.has_input(3)) axes = m.integers(3);
  const Shape steps = m.has_input(4) ? m.integers(4) : Shape(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    m.fail("its starts, ends, axes and steps are not of one length");
  }
  Value x = m.in(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    x = slice_axis(m, x, m.axis_of(axes[i], x.dims), starts[i], ends[i], steps[i]);
  }
  m.out(x);
}

void gather(Importer& m) {
  const Value& data = m.in(0);
  const Value& indices = m.in(1);
  const std::int64_t axis = m.integer("axis", 0);
  const std::size_t at = m.axis_of(axis, data.dims);
  const std::int64_t own = m.sample_axis(axis, data.dims);
  const Dims dims = gathered_dims(m, data, indices, at);
  const bool known = indices.is_constant() && !depends_on_samples(indices) && items_of(indices);
  // A table of weights is read by its rows, not copied for each sample.
  if (known && (!data.is_constant() || arranges_now(m, data))) {
    return m.out(gather_constant(m, data, indices, at, dims));
  }
  if (is_table(m, data, indices, at)) {
    const ParamId table = m.param(data, data.shape(), true);
    return m.out(m.value_of(m.op(OpKind::kEmbedding, {indices.tensor}, {table}, {}), dims));
  }
  m.out(m.value_of(gather_tensors(m, data, indices, own, "index"), dims));
}

void gather_elements(Importer& m) {
  const Value& data = m.in(0);
  const Value& indices = m.in(1);
  const std::int64_t axis = m.integer("axis", 0);
  const std::int64_t own = m.sample_axis(axis, data.dims);
  if (batch_axis(data.dims) != batch_axis(indices.dims)) {
    m.fail(fmt::format("gathers from {} by {}", dims_text(data.dims), dims_text(indices.dims)));
  }
  m.out(m.value_of(gather_tensors(m, data, indices, own, "elements"), indices.dims));
}

void expand(Importer& m) {
  const Value& x = m.in(0);
  Value target;
  target.dims = dims_of(m, m.items(1));
  // In a file of a fixed batch its number stands there; or one, which leaves the samples.
  for (std::size_t i = 0; i < target.dims.size(); ++i) {
    const std::size_t lead = target.dims.size() - std::min(target.dims.size(), x.dims.size());
    if (i >= lead && x.dims.size() <= target.dims.size() && x.dims[i - lead].batch &&
        target.dims[i].size == m.static_batch() && m.static_batch() > 0) {
      target.dims[i] = x.dims[i - lead];
    }
  }
  const Dims dims = m.broadcast({x, target});
  const Shape aligned = m.aligned_shape(x.dims, dims);
  Value result = x;
  if (x.is_constant() && element_count(aligned) == element_count(sample_shape(dims))) {
    return m.out(m.reshaped(x, dims));
  }
  const TensorId tensor = m.reshape(m.materialize(x), aligned);
  const Shape shape = sample_shape(dims);
  if (m.tensor(tensor).shape == shape) return m.out(m.value_of(tensor, dims));
  m.out(m.value_of(m.op(OpKind::kExpand, {tensor}, {}, {{"shape", shape}}), dims));
}

// (a, b) repeated (r, s) times: (1, a, 1, b) expanded to (r, a, s, b), seen as (r a, s b).
void tile(Importer& m) {
  const Value& x = m.in(0);
  const std::vector<Item> repeats = m.items(1);
  if (repeats.size() != x.dims.size()) m.fail("has not a repeat for each axis");
  Dims dims;
  Shape apart, wide, together;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    const auto times = static_cast<std::int64_t>(repeats[i].number);
    const bool folded = x.dims[i].total() > 1;
    if (times < 1 || (x.dims[i].batch && (times > 1 || repeats[i].batch || folded))) {
      m.fail(fmt::format("repeats axis {} of {} so often: {}", i, dims_text(x.dims), times));
    }
    if (repeats[i].batch && x.dims[i].size != 1) m.fail("repeats what is there once a sample");
    dims.push_back({x.dims[i].size * times, x.dims[i].batch || repeats[i].batch});
    if (dims.back() == Dim{1, true}) continue;
    apart.insert(apart.end(), {1, x.dims[i].size});
    wide.insert(wide.end(), {times, x.dims[i].size});
    together.push_back(times * x.dims[i].size);
  }
  if (apart == wide && x.is_constant()) return m.out(m.reshaped(x, dims));
  TensorId y = m.reshape(m.materialize(x), apart);
  if (apart != wide) y = m.op(OpKind::kExpand, {y}, {}, {{"shape", wide}});
  m.out(m.value_of(m.reshape(y, together), dims));
}

void pad(Importer& m) {
  const Value& x = m.in(0);
  const std::string mode = m.text("mode", "constant");
  const Shape pads = pads_of(m, x.dims);
  const double number = m.has_input(2) ? m.scalar(2) : 0;
  const std::size_t n = x.dims.size();
  Dims dims = x.dims;
  Shape before, after;
  for (std::size_t i = 0; i < n; ++i) {
    if (pads[i] < 0 || pads[n + i] < 0) m.fail("negative pads are not supported");
    if (x.dims[i].batch && pads[i] + pads[n + i] > 0) m.fail("pads along the samples");
    if (pads[i] > (1 << 20) || pads[n + i] > (1 << 20)) m.fail("pads by more than 2^20");
    dims[i].size += pads[i] + pads[n + i];
    if (x.dims[i] == Dim{1, true}) continue;
    before.push_back(pads[i]);
    after.push_back(pads[n + i]);
  }
  if (dims == x.dims) return m.out(x);
  TensorId y = m.materialize(x);
  if (mode == "constant") {
    y = m.op(OpKind::kPad, {y}, {}, {{"after", after}, {"before", before}, {"value", number}});
  } else {
    if (mode != "edge" && mode != "reflect" && mode != "wrap") {
      m.fail(fmt::format("mode {} is not supported", mode));
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] + after[i] == 0) continue;
      y = m.pick(y, static_cast<std::int64_t>(i),
                 padded_indices(m, mode, m.tensor(y).shape[i], before[i], after[i]));
    }
  }
  m.out(m.value_of(y, dims));
}

void shape(Importer& m) {
  const Dims& dims = m.in(0).dims;
  const auto n = static_cast<std::int64_t>(dims.size());
  const auto bound = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + n : at, 0, n);
  };
  const std::int64_t start = bound(m.integer("start", 0));
  const std::int64_t end = std::max(start, bound(m.integer("end", n)));
  const std::vector<Item> items = dims_items({dims.begin() + start, dims.begin() + end});
  m.out(items_value(DType::kInt64, {{end - start, false}}, items));
}

void size(Importer& m) {
  const Dims& dims = m.in(0).dims;
  const auto number = static_cast<double>(element_count(sample_shape(dims)));
  m.out(items_value(DType::kInt64, {}, {{number, batch_axis(dims).has_value()}}));
}

void constant_of_shape(Importer& m) {
  double number = 0;
  DType dtype = DType::kFloat32;
  if (const OnnxAttribute* attribute = m.attribute("value")) {
    const auto* given = std::get_if<OnnxTensor>(attribute);
    if (given == nullptr || element_count(given->shape) != 1) m.fail("value is not one number");
    const Value value = of_tensor(*given, "");
    dtype = value.dtype;
    number = items_of(value)->items[0].number;
  }
  m.out(zeros_like_dims(dtype, dims_of(m, m.items(0)), number));
}

void constant(Importer& m) {
  if (const OnnxAttribute* value = m.attribute("value")) {
    const auto* tensor = std::get_if<OnnxTensor>(value);
    if (tensor == nullptr) m.fail("its value is of a type that is not supported");
    return m.out(of_tensor(*tensor, m.node().outputs.at(0)));
  }
  if (m.attribute("value_float") != nullptr) {
    return m.out(constant_value(DType::kFloat32, {}, {m.number("value_float", 0)}));
  }
  if (m.attribute("value_int") != nullptr) {
    return m.out(
        constant_value(DType::kInt64, {}, {static_cast<double>(m.integer("value_int", 0))}));
  }
  if (const auto ints = m.list("value_ints")) {
    return m.out(constant_value(DType::kInt64, {static_cast<std::int64_t>(ints->size())},
                                {ints->begin(), ints->end()}));
  }
  if (const OnnxAttribute* floats = m.attribute("value_floats")) {
    const auto* list = std::get_if<std::vector<double>>(floats);
    if (list != nullptr) {
      return m.out(
          constant_value(DType::kFloat32, {static_cast<std::int64_t>(list->size())}, *list));
    }
  }
  m.fail("its value is of a type that is not supported");
}

void range(Importer& m) {
  const double start = m.scalar(0);
  const double limit = m.scalar(1);
  const double step = m.scalar(2);
  const double count = std::ceil((limit - start) / step);
  if (!(count >= 1 && count <= static_cast<double>(kMostConstant))) {
    m.fail("has no elements, or too many");
  }
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
    numbers.push_back(start + static_cast<double>(i) * step);
  }
  m.out(constant_value(m.in(0).dtype, {static_cast<std::int64_t>(count)}, std::move(numbers)));
}

void depth_to_space(Importer& m) {
  const auto [c, h, w, b] = blocks_of(m);
  if (c % (b * b) != 0) m.fail("blocksize does not divide the channels");
  const std::int64_t d = c / (b * b);
  TensorId y = m.image(m.in(0), 2);
  if (m.text("mode", "DCR") == "DCR") {
    y = m.transpose(m.reshape(y, {b, b, d, h, w}), {2, 3, 0, 4, 1});
  } else {
    y = m.transpose(m.reshape(y, {d, b, b, h, w}), {0, 3, 1, 4, 2});
  }
  m.out(m.value_of(m.reshape(y, {d, h * b, w * b}), image_dims(d, h * b, w * b)));
}

void space_to_depth(Importer& m) {
  const auto [c, h, w, b] = blocks_of(m);
  if (h % b != 0 || w % b != 0) m.fail("blocksize does not divide the image");
  TensorId y = m.reshape(m.image(m.in(0), 2), {c, h / b, b, w / b, b});
  y = m.reshape(m.transpose(y, {2, 4, 0, 1, 3}), {c * b * b, h / b, w / b});
  m.out(m.value_of(y, image_dims(c * b * b, h / b, w / b)));
}

void one_hot(Importer& m) {
  const Value& ids = m.in(0);
  const auto depth = static_cast<std::int64_t>(m.scalar(1));
  if (depth < 1 || depth > kMostItems) m.fail(fmt::format("depth is {}", depth));
  const auto pair = items_of(m.constant(2));
  if (!pair || pair->items.size() != 2) m.fail("its values are not two");
  std::int64_t axis = m.integer("axis", -1);
  const std::int64_t after = rank(ids.dims) + 1;
  if (axis < -after || axis >= after) m.fail(fmt::format("axis {} is beyond {}", axis, after));
  if (axis < 0) axis += after;
  Value whole = ids;
  if (ids.dtype != DType::kInt64) whole = m.elementwise("cast_int64", {ids});
  whole = m.elementwise("mod", {whole, constant_value(DType::kInt64, {}, {double(depth)})});
  Dims dims = whole.dims;
  dims.insert(dims.begin() + axis, Dim{});
  whole = m.reshaped(whole, dims);
  Shape places(static_cast<std::size_t>(after - axis), 1);
  places.front() = depth;
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < depth; ++i) numbers.push_back(static_cast<double>(i));
  const Value hit = m.elementwise("equal", {whole, constant_value(DType::kInt64, places, numbers)});
  const DType dtype = m.in(2).dtype;
  m.out(m.elementwise("where", {hit, constant_value(dtype, {}, {pair->items[1].number}),
                                constant_value(dtype, {}, {pair->items[0].number})}));
}

void trilu(Importer& m) {
  const Value& x = m.in(0);
  const std::size_t n = x.dims.size();
  if (n < 2 || x.dims[n - 1].batch || x.dims[n - 2].batch) m.fail("has no matrices in a sample");
  const std::int64_t k = m.has_input(1) ? static_cast<std::int64_t>(m.scalar(1)) : 0;
  const bool upper = m.integer("upper", 1) != 0;
  const std::int64_t rows = x.dims[n - 2].size, columns = x.dims[n - 1].size;
  if (rows > kMostConstant / columns) m.fail("has a matrix that is too large");
  std::vector<double> kept;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) kept.push_back(upper ? c - r >= k : c - r <= k);
  }
  m.out(m.elementwise("where", {constant_value(DType::kBool, {rows, columns}, kept), x,
                                constant_value(x.dtype, {}, {0})}));
}

void eye_like(Importer& m) {
  const Shape shape = m.in(0).shape();
  if (shape.size() != 2 || batch_axis(m.in(0).dims)) m.fail("expected a matrix");
  const auto dtype = type_of_code(m.integer("dtype", 1));
  const std::int64_t k = m.integer("k", 0);
  std::vector<double> numbers;
  for (std::int64_t r = 0; r < shape[0]; ++r) {
    for (std::int64_t c = 0; c < shape[1]; ++c) numbers.push_back(c - r == k);
  }
  if (!dtype) m.fail("dtype is not supported");
  m.out(constant_value(*dtype, shape, numbers));
}

}  // namespace graphpipe::onnx_import
