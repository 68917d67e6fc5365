// What stands behind a name of an ONNX graph while it is imported: a tensor of our graph, or
// a constant. Which axis holds the samples is known of each, so any axis may turn out batched:
// our tensor has the shape without it.

#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graphpipe::onnx_import {

using Shape = std::vector<std::int64_t>;

// `size`, or where it holds the samples outer x samples x size, in that order: exporters fold
// heads (`size`) or steps (`outer`) into the samples' dimension. `outer` is 1 otherwise.
struct Dim {
  std::int64_t size = 1;
  bool batch = false;
  std::int64_t outer = 1;
  std::int64_t total() const { return size * outer; }  // of a sample
  friend bool operator==(const Dim&, const Dim&) = default;
};
using Dims = std::vector<Dim>;

std::string dims_text(const Dims& dims);  // "(N, 3, 224, 224)", N for the samples
// The axis of the samples; none where there is none.
std::optional<std::size_t> batch_axis(const Dims& dims);
// Without the samples: of (T, N x 8, C) it is (T, 8, C), of (N, C) it is (C).
Shape sample_shape(const Dims& dims);
Dims plain_dims(const Shape& shape);
// Axes of the sample's shape that stand before ONNX's axis `axis`, which is its place there
// where it does not hold the samples.
std::int64_t axes_before(const Dims& dims, std::size_t axis);
// ... and how many it is itself.
std::int64_t axes_of_dim(const Dim& dim);

// A number of shape arithmetic: `number`, or so many times the number of samples.
struct Item {
  double number = 0;
  bool batch = false;
};

// Small constants, on which arithmetic is done while importing.
struct Items {
  std::vector<Item> items;  // row-major
};

struct Value {
  DType dtype = DType::kFloat32;
  Dims dims;
  TensorId tensor;  // valid: a tensor of our graph

  // A constant, of the sample's shape. Both forms may be there; only `items` where a number
  // depends on the samples.
  std::shared_ptr<const std::string> bytes;
  std::shared_ptr<const Items> items;
  // The name that the file gives it, where its values are still those of the file ("": they are
  // not), perhaps in another shape, or as the transpose of the two-dimensional one.
  std::string weight;
  bool transposed = false;

  bool is_constant() const { return !tensor.valid(); }
  Shape shape() const { return sample_shape(dims); }
};

inline constexpr std::int64_t kMostItems = 1 << 16;     // that arithmetic is done on
inline constexpr std::int64_t kMostConstant = 1 << 24;  // elements of a constant that is made

Value constant_value(DType dtype, const Shape& shape, const std::vector<double>& numbers);
Value items_value(DType dtype, Dims dims, std::vector<Item> items);

// Its numbers, where it is a constant of at most kMostItems; null otherwise.
std::shared_ptr<const Items> items_of(const Value& value);
// Its bytes, row-major, a transposed one turned. Requires: a constant without numbers that depend
// on the samples (depends_on_samples()).
std::shared_ptr<const std::string> bytes_of(const Value& value);
bool depends_on_samples(const Value& value);

}  // namespace graphpipe::onnx_import
