#include "runtime/batch_reader.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "base/error.h"
#include "runtime/operators.h"

namespace graphpipe {
namespace {

std::string type_text(DType dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} ({})", dtype_name(dtype), fmt::join(shape, ", "));
}

const Field& field_for(const Tensor& input, const Dataset& dataset) {
  const std::string where = fmt::format("data set {}: input \"{}\"", dataset.name(), input.name);
  if (!input.batched) {
    throw InputError(where, "is one tensor for all samples, and a data set gives one a sample");
  }
  const Field* field = dataset.field(input.name);
  if (!field) throw InputError(where, "no field has this name");
  const bool fits =
      field->dtype == input.dtype || (is_floating(field->dtype) && is_floating(input.dtype));
  if (!fits || field->shape != input.shape) {
    throw InputError(
        where, fmt::format("expected {}, the field has {}", type_text(input.dtype, input.shape),
                           type_text(field->dtype, field->shape)));
  }
  return *field;
}

// Calls `copy` with each sample's row. Rows lie anywhere in a large file: those that come
// soon are asked for beforehand, or each would be waited for.
template <typename Copy>
void for_each_row(const Field& field, std::span<const std::int64_t> ids, Copy copy) {
  constexpr std::size_t kAhead = 16;
  constexpr std::int64_t kCacheLine = 64;
  const std::int64_t bytes = field.bytes_per_sample();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) {
      const std::byte* soon = field.data + ids[i + kAhead] * bytes;
      for (std::int64_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(soon + at);
    }
    copy(field.data + ids[i] * bytes);
  }
}

// Files are not aligned for their numbers.
template <typename From, typename To>
void convert_rows(const Field& field, std::span<const std::int64_t> ids, To* out) {
  const auto count = static_cast<std::size_t>(field.bytes_per_sample()) / sizeof(From);
  for_each_row(field, ids, [&](const std::byte* row) {
    for (std::size_t i = 0; i < count; ++i) {
      From value;
      std::memcpy(&value, row + i * sizeof(From), sizeof value);
      *out++ = static_cast<To>(value);
    }
  });
}

void copy_rows(const Field& field, std::span<const std::int64_t> ids, void* out) {
  const auto bytes = static_cast<std::size_t>(field.bytes_per_sample());
  auto* to = static_cast<std::byte*>(out);
  for_each_row(field, ids, [&](const std::byte* row) {
    std::memcpy(to, row, bytes);
    to += bytes;
  });
}

}  // namespace

BatchReader::BatchReader(const Graph& graph, const Dataset& dataset)
    : graph_(graph), dataset_(dataset), fields_(graph.tensors.size()) {
  for (const TensorId input : graph.inputs) {
    fields_[input.index()] = &field_for(graph.tensor(input), dataset);
  }
}

at::Tensor BatchReader::read(TensorId input, std::span<const std::int64_t> ids) const {
  const Field* field = fields_[input.index()];
  const Tensor& tensor = graph_.tensor(input);
  GP_CHECK(field != nullptr, "{} is no input", tensor.name);
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(ids.size())};
  sizes.insert(sizes.end(), tensor.shape.begin(), tensor.shape.end());
  at::Tensor batch = at::empty(sizes, scalar_type(tensor.dtype));
  if (field->data == nullptr) {
    at::Tensor own =
        field->dtype == tensor.dtype ? batch : at::empty(sizes, scalar_type(field->dtype));
    dataset_.read(*field, ids, static_cast<std::byte*>(own.data_ptr()));
    return own.to(batch.scalar_type());
  }
  if (field->dtype == tensor.dtype) {
    copy_rows(*field, ids, batch.data_ptr());
  } else if (field->dtype == DType::kFloat32) {
    convert_rows<float>(*field, ids, batch.data_ptr<double>());
  } else {
    convert_rows<double>(*field, ids, batch.data_ptr<float>());
  }
  return batch;
}

void BatchReader::check_ids(std::span<const std::int64_t> ids) const {
  for (const std::int64_t id : ids) {
    if (id >= 0 && id < dataset_.samples()) continue;
    throw InputError(
        fmt::format("data set {}", dataset_.name()),
        fmt::format("sample {} was asked for; it has samples 0 to {}", id, dataset_.samples() - 1));
  }
}

}  // namespace graphpipe
