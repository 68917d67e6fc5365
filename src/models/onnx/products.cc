// Matrix products and convolutions. A weight of the file becomes the parameter of a linear
// operator or a convolution; the linear one holds it as (out, in).

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "models/onnx/families.h"

namespace graphpipe::onnx_import {
namespace {

bool is_matrix_weight(const Value& b) { return b.is_constant() && b.dims.size() == 2 && !b.items; }

// x (..., in) times a constant (in, out).
TensorId linear(Importer& m, TensorId x, const Value& weight, const Value* bias) {
  Value turned = m.transposed(weight, {1, 0});
  std::vector<ParamId> params = {m.param(turned, turned.shape(), true)};
  if (bias != nullptr) params.push_back(m.param(*bias, {bias->dims.back().size}, true));
  return m.op(OpKind::kLinear, {x}, params, {});
}

void expect_no_samples(const Importer& m, const Dim& dim) {
  if (dim.batch) m.fail("sums over the axis that holds the samples: it would mix them");
}

// A as rows, B as columns, of matrices in a sample.
struct Factors {
  Dims leading_a, leading_b;  // without the two last
  Dim rows, columns, inner;
};

Factors factors_of(const Importer& m, const Dims& a, const Dims& b) {
  Factors f;
  f.leading_a.assign(a.begin(), a.end() - 2);
  f.leading_b.assign(b.begin(), b.end() - 2);
  f.rows = a[a.size() - 2];
  f.inner = a.back();
  f.columns = b.back();
  expect_no_samples(m, f.inner);
  expect_no_samples(m, b[b.size() - 2]);
  if (f.inner != b[b.size() - 2]) {
    m.fail(fmt::format("multiplies {} with {}", dims_text(a), dims_text(b)));
  }
  return f;
}

Value of_dims(const Dims& dims) {
  Value value;
  value.dims = dims;
  return value;
}

Value matrix_product(Importer& m, const Value& a, const Value& b) {
  const Factors f = factors_of(m, a.dims, b.dims);
  Dims out = m.broadcast({of_dims(f.leading_a), of_dims(f.leading_b)});
  const auto leading_shape = [&](const Dims& leading) { return m.aligned_shape(leading, out); };
  const bool plain = out.size() == f.leading_a.size() && f.leading_a == out;
  out.push_back(f.rows);
  out.push_back(f.columns);
  if (std::ranges::count(out, true, &Dim::batch) > 1) m.fail("would multiply samples with samples");
  if (is_matrix_weight(b) && plain) {
    return m.value_of(linear(m, m.materialize(a, true, true), b, nullptr), out);
  }
  if ((f.rows.batch && f.rows.total() > 1) || (f.columns.batch && f.columns.total() > 1)) {
    m.fail("multiplies matrices whose rows are of several samples");
  }
  const auto shaped = [&](const Value& x, const Dims& leading, Dim rows, Dim columns) {
    Shape shape = leading_shape(leading);
    shape.insert(shape.end(), {rows.size, columns.size});
    return m.reshape(m.materialize(x), shape);
  };
  const TensorId left = shaped(a, f.leading_a, f.rows, f.inner);
  const TensorId right = shaped(b, f.leading_b, f.inner, f.columns);
  const TensorId y = m.op(OpKind::kMatmul, {left, right}, {}, {{"transpose_b", false}});
  return m.value_of(m.reshape(y, sample_shape(out)), out);
}

}  // namespace

// Vectors are matrices of one row or one column.
Value Importer::product(const Value& a, const Value& b) {
  if (a.dims.empty() || b.dims.empty()) fail("multiplies a number, expected matrices");
  Value left = a;
  Value right = b;
  Dims dims_a = a.dims;
  Dims dims_b = b.dims;
  if (dims_a.size() == 1) left = reshaped(a, {{}, a.dims[0]});
  if (dims_b.size() == 1) right = reshaped(b, {b.dims[0], {}});
  Value y = matrix_product(*this, left, right);
  Dims dims = y.dims;
  if (dims_b.size() == 1) dims.pop_back();
  if (dims_a.size() == 1) dims.erase(dims.end() - (dims_b.size() == 1 ? 1 : 2));
  return reshaped(y, dims);
}

void matmul(Importer& m) { m.out(m.product(m.in(0), m.in(1))); }

void gemm(Importer& m) {
  Value a = m.in(0);
  Value b = m.in(1);
  if (a.dims.size() != 2 || b.dims.size() != 2) m.fail("expected two matrices");
  const double alpha = m.number("alpha", 1);
  const double beta = m.number("beta", 1);
  if (m.integer("transA", 0) != 0) a = m.transposed(a, {1, 0});
  if (m.integer("transB", 0) != 0) b = m.transposed(b, {1, 0});
  const Factors f = factors_of(m, a.dims, b.dims);
  const Value* c = m.has_input(2) ? &m.in(2) : nullptr;
  const bool is_bias = c != nullptr && c->is_constant() && beta == 1 && alpha == 1 &&
                       is_matrix_weight(b) && !c->dims.empty() && c->dims.back() == f.columns &&
                       element_count(c->shape()) == f.columns.size && !c->items;
  if (is_bias) {
    const Dims dims = {f.rows, f.columns};
    return m.out(m.value_of(linear(m, m.materialize(a, true, true), b, c), dims));
  }
  Value y = m.product(a, b);
  const auto scaled = [&](const Value& x, double factor) {
    return factor == 1 ? x : m.elementwise("mul", {x, constant_value(x.dtype, {}, {factor})});
  };
  y = scaled(y, alpha);
  if (c != nullptr) y = m.elementwise("add", {y, scaled(*c, beta)});
  m.out(y);
}

std::size_t spatial_dimensions(Importer& m, const Value& x) {
  const std::size_t n = x.dims.size() < 2 ? 0 : x.dims.size() - 2;
  if (n < 1 || n > 2) {
    m.fail(fmt::format("input has shape {}, expected 1 or 2 dimensions behind the channels",
                       dims_text(x.dims)));
  }
  return n;
}

Windows windows_of(Importer& m, const Shape& extents, const Shape& kernel) {
  const std::size_t n = extents.size();
  Windows w;
  w.kernel = m.list("kernel_shape").value_or(kernel);
  w.stride = m.list("strides").value_or(Shape(n, 1));
  w.dilation = m.list("dilations").value_or(Shape(n, 1));
  Shape pads = m.list("pads").value_or(Shape(2 * n, 0));
  const auto fits = [&](const Shape& list, std::size_t count, std::int64_t low) {
    return list.size() == count &&
           std::ranges::all_of(list, [&](std::int64_t x) { return x >= low && x < (1 << 20); });
  };
  if (!fits(w.kernel, n, 1) || !fits(w.stride, n, 1) || !fits(w.dilation, n, 1) ||
      !fits(pads, 2 * n, 0)) {
    m.fail("its kernel, strides, dilations or pads do not fit the input");
  }
  const std::string automatic = m.text("auto_pad", "NOTSET");
  for (std::size_t d = 0; d < n; ++d) {
    const std::int64_t reach = w.dilation[d] * (w.kernel[d] - 1) + 1;
    std::int64_t before = pads[d], after = pads[n + d];
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const std::int64_t windows = (extents[d] + w.stride[d] - 1) / w.stride[d];
      const std::int64_t all =
          std::max<std::int64_t>(0, (windows - 1) * w.stride[d] + reach - extents[d]);
      before = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      after = all - before;
    } else if (automatic == "VALID") {
      before = after = 0;
    } else if (automatic != "NOTSET" && !automatic.empty()) {
      m.fail(fmt::format("auto_pad {} is not known", automatic));
    }
    w.before.push_back(before);
    w.after.push_back(after);
  }
  return w;
}

bool symmetric(const Windows& windows) { return windows.before == windows.after; }

void conv(Importer& m) {
  const Value& x = m.in(0);
  const Value& weight = m.constant(1);
  const std::size_t n = spatial_dimensions(m, x);
  TensorId y = m.image(x, n);
  const Shape image = m.tensor(y).shape;
  const Shape shape = weight.shape();
  if (shape.size() != n + 2) m.fail("its weight has not the dimensions of its input");
  const Windows w =
      windows_of(m, {image.begin() + 1, image.end()}, {shape.begin() + 2, shape.end()});
  if (!std::ranges::equal(w.kernel, std::span(shape).subspan(2))) {
    m.fail("kernel_shape is not that of its weight");
  }
  Shape padding = w.before;
  if (!symmetric(w)) {
    Shape before = {0}, after = {0};
    before.insert(before.end(), w.before.begin(), w.before.end());
    after.insert(after.end(), w.after.begin(), w.after.end());
    y = m.op(OpKind::kPad, {y}, {}, {{"after", after}, {"before", before}, {"value", 0.0}});
    padding.assign(n, 0);
  }
  std::vector<ParamId> params = {m.param(weight, shape, true)};
  if (m.has_input(2)) params.push_back(m.param(m.constant(2), m.constant(2).shape(), true));
  y = m.op(n == 1 ? OpKind::kConv1d : OpKind::kConv2d, {y}, params,
           {{"dilation", w.dilation},
            {"groups", m.integer("group", 1)},
            {"padding", padding},
            {"stride", w.stride}});
  Dims dims = plain_dims(m.tensor(y).shape);
  dims.insert(dims.begin(), {1, true});
  m.out(m.value_of(y, dims));
}

// Without paddings, and then cut; one dimension as an image of one row.
void conv_transpose(Importer& m) {
  const Value& x = m.in(0);
  const Value& weight = m.constant(1);
  const std::size_t n = spatial_dimensions(m, x);
  TensorId y = m.image(x, n);
  Shape image = m.tensor(y).shape;
  Shape shape = weight.shape();
  if (shape.size() != n + 2) m.fail("its weight has not the dimensions of its input");
  const auto wanted = m.list("output_shape");
  const Shape extra = m.list("output_padding").value_or(Shape(n, 0));
  const std::string automatic = m.text("auto_pad", "NOTSET");
  const Shape strides = m.list("strides").value_or(Shape(n, 1));
  const Shape dilations = m.list("dilations").value_or(Shape(n, 1));
  const Shape pads = m.list("pads").value_or(Shape(2 * n, 0));
  const auto fits = [&](const Shape& list, std::size_t count, std::int64_t low) {
    return list.size() == count &&
           std::ranges::all_of(list, [&](std::int64_t v) { return v >= low && v < (1 << 20); });
  };
  if (!fits(strides, n, 1) || !fits(dilations, n, 1) || !fits(pads, 2 * n, 0) ||
      !fits(extra, n, 0) || (wanted && !fits(*wanted, n, 1))) {
    m.fail("its strides, dilations, pads or output shape do not fit the input");
  }
  Shape before, after, room;
  for (std::size_t d = 0; d < n; ++d) {
    const std::int64_t full =
        (image[d + 1] - 1) * strides[d] + dilations[d] * (shape[d + 2] - 1) + 1 + extra[d];
    std::int64_t front = pads[d], back = pads[n + d];
    const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (wanted || same) {
      const std::int64_t size = wanted ? (*wanted)[d] : image[d + 1] * strides[d];
      const std::int64_t all = full - size;
      front = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      if (all < 0) front = 0;  // what is missing comes at the end
      back = all - front;
    }
    before.push_back(front);
    after.push_back(back);
    room.push_back(full);
  }
  const bool cuts = std::ranges::any_of(before, [](auto v) { return v < 0; }) || before != after;
  Shape padding = cuts ? Shape(n, 0) : before;
  Shape stride = strides, dilation = dilations, output_padding = extra;
  if (n == 1) {
    image.insert(image.begin() + 1, 1);
    shape.insert(shape.begin() + 2, 1);
    y = m.reshape(y, image);
    for (Shape* list : {&stride, &dilation}) list->insert(list->begin(), 1);
    for (Shape* list : {&padding, &output_padding}) list->insert(list->begin(), 0);
  }
  std::vector<ParamId> params = {m.param(weight, shape, true)};
  if (m.has_input(2)) params.push_back(m.param(m.constant(2), m.constant(2).shape(), true));
  y = m.op(OpKind::kConvTranspose2d, {y}, params,
           {{"dilation", dilation},
            {"groups", m.integer("group", 1)},
            {"output_padding", output_padding},
            {"padding", padding},
            {"stride", stride}});
  if (n == 1) {
    Shape flat = m.tensor(y).shape;
    flat.erase(flat.begin() + 1);
    y = m.reshape(y, flat);
  }
  for (std::size_t d = 0; d < n && cuts; ++d) {
    const auto axis = static_cast<std::int64_t>(d + 1);
    if (before[d] < 0 || after[d] < 0) {
      Shape front(n + 1, 0), back(n + 1, 0);
      front[d + 1] = std::max<std::int64_t>(0, -before[d]);
      back[d + 1] = std::max<std::int64_t>(0, -after[d]);
      y = m.op(OpKind::kPad, {y}, {}, {{"after", back}, {"before", front}, {"value", 0.0}});
    }
    const std::int64_t start = std::max<std::int64_t>(0, before[d]);
    const std::int64_t length =
        m.tensor(y).shape[d + 1] - start - std::max<std::int64_t>(0, after[d]);
    if (length < 1) m.fail("its pads leave nothing");
    y = m.slice(y, axis, start, length);
  }
  Dims dims = plain_dims(m.tensor(y).shape);
  dims.insert(dims.begin(), {1, true});
  m.out(m.value_of(y, dims));
}

}  // namespace graphpipe::onnx_import
