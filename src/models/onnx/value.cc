#include "models/onnx/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace graphpipe::onnx_import {
namespace {

template <typename T>
void read_numbers(const std::string& bytes, std::vector<Item>& items) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    items.push_back({static_cast<double>(value), false});
  }
}

// Saturates, as a double may be just beyond the largest whole number.
std::int64_t whole(double number) {
  if (std::isnan(number)) return 0;
  if (number >= 9.2e18) return std::numeric_limits<std::int64_t>::max();
  if (number <= -9.2e18) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(number);
}

template <typename T>
void write_number(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof raw);
}

void write_item(std::string& bytes, DType dtype, double number) {
  switch (dtype) {
    case DType::kFloat32:
      return write_number(bytes, static_cast<float>(number));
    case DType::kFloat64:
      return write_number(bytes, number);
    case DType::kInt64:
      return write_number(bytes, whole(number));
    case DType::kBool:
      return write_number(bytes, static_cast<char>(number != 0));
  }
}

// rows x columns of `bytes` -> columns x rows.
std::string turned(const std::string& bytes, std::int64_t rows, std::int64_t columns,
                   std::size_t element) {
  std::string out(bytes.size(), '\0');
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(out.data() + static_cast<std::size_t>(c * rows + r) * element,
                  bytes.data() + static_cast<std::size_t>(r * columns + c) * element, element);
    }
  }
  return out;
}

}  // namespace

std::string dims_text(const Dims& dims) {
  std::vector<std::string> texts;
  for (const Dim& dim : dims) {
    const std::string number = fmt::format("{}", dim.total());
    texts.push_back(!dim.batch ? number : dim.total() == 1 ? "N" : number + "N");
  }
  return fmt::format("({})", fmt::join(texts, ", "));
}

std::optional<std::size_t> batch_axis(const Dims& dims) {
  const auto found = std::ranges::find(dims, true, &Dim::batch);
  if (found == dims.end()) return std::nullopt;
  return static_cast<std::size_t>(found - dims.begin());
}

Shape sample_shape(const Dims& dims) {
  Shape shape;
  for (const Dim& dim : dims) {
    if (dim.outer > 1) shape.push_back(dim.outer);
    if (!dim.batch || dim.size > 1) shape.push_back(dim.size);
  }
  return shape;
}

Dims plain_dims(const Shape& shape) {
  Dims dims;
  for (const std::int64_t size : shape) dims.push_back({size, false});
  return dims;
}

std::int64_t axes_of_dim(const Dim& dim) {
  return static_cast<std::int64_t>(sample_shape({dim}).size());
}

std::int64_t axes_before(const Dims& dims, std::size_t axis) {
  return static_cast<std::int64_t>(
      sample_shape({dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis)}).size());
}

Value items_value(DType dtype, Dims dims, std::vector<Item> items) {
  Value value;
  value.dtype = dtype;
  value.dims = std::move(dims);
  value.items = std::make_shared<const Items>(Items{std::move(items)});
  return value;
}

Value constant_value(DType dtype, const Shape& shape, const std::vector<double>& numbers) {
  std::string bytes;
  for (const double number : numbers) write_item(bytes, dtype, number);
  Value value;
  value.dtype = dtype;
  value.dims = plain_dims(shape);
  value.bytes = std::make_shared<const std::string>(std::move(bytes));
  return value;
}

std::shared_ptr<const Items> items_of(const Value& value) {
  if (value.items || !value.is_constant()) return value.items;
  if (element_count(value.shape()) > kMostItems) return nullptr;
  Items result;
  const auto held = bytes_of(value);
  const std::string& bytes = *held;
  switch (value.dtype) {
    case DType::kFloat32:
      read_numbers<float>(bytes, result.items);
      break;
    case DType::kFloat64:
      read_numbers<double>(bytes, result.items);
      break;
    case DType::kInt64:
      read_numbers<std::int64_t>(bytes, result.items);
      break;
    case DType::kBool:
      read_numbers<char>(bytes, result.items);
      break;
  }
  return std::make_shared<const Items>(std::move(result));
}

std::shared_ptr<const std::string> bytes_of(const Value& value) {
  GP_CHECK(value.is_constant(), "not a constant");
  if (value.bytes && !value.transposed) return value.bytes;
  if (value.bytes) {
    const Shape shape = value.shape();
    return std::make_shared<const std::string>(turned(
        *value.bytes, shape[1], shape[0], static_cast<std::size_t>(dtype_bytes(value.dtype))));
  }
  std::string bytes;
  for (const Item& item : value.items->items) write_item(bytes, value.dtype, item.number);
  return std::make_shared<const std::string>(std::move(bytes));
}

bool depends_on_samples(const Value& value) {
  return value.items && !value.bytes &&
         std::ranges::any_of(value.items->items, [](const Item& item) { return item.batch; });
}

}  // namespace graphpipe::onnx_import
