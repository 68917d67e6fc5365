#include "data/memory_dataset.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace graphpipe {

static_assert(sizeof(bool) == 1, "a bool is one byte in a file");

MemoryDataset::MemoryDataset(std::string name, std::int64_t samples)
    : name_(std::move(name)), samples_(samples) {}

void MemoryDataset::add(const std::string& field, std::vector<std::int64_t> shape,
                        std::span<const std::int64_t> values) {
  add_bytes(field, DType::kInt64, std::move(shape), std::as_bytes(values));
}

void MemoryDataset::add(const std::string& field, std::vector<std::int64_t> shape,
                        std::span<const float> values) {
  add_bytes(field, DType::kFloat32, std::move(shape), std::as_bytes(values));
}

void MemoryDataset::add(const std::string& field, std::vector<std::int64_t> shape,
                        std::span<const double> values) {
  add_bytes(field, DType::kFloat64, std::move(shape), std::as_bytes(values));
}

void MemoryDataset::add(const std::string& field, std::vector<std::int64_t> shape,
                        std::span<const bool> values) {
  add_bytes(field, DType::kBool, std::move(shape), std::as_bytes(values));
}

void MemoryDataset::add_bytes(const std::string& field, DType dtype,
                              std::vector<std::int64_t> shape, std::span<const std::byte> bytes) {
  GP_CHECK(this->field(field) == nullptr, "two fields called {}", field);
  storage_.push_back(std::make_unique<std::byte[]>(bytes.size()));
  std::copy(bytes.begin(), bytes.end(), storage_.back().get());
  fields_.push_back({field, dtype, std::move(shape), storage_.back().get()});
  const auto expected = static_cast<std::size_t>(samples_ * fields_.back().bytes_per_sample());
  GP_CHECK(bytes.size() == expected, "field {}: {} bytes, expected {}", field, bytes.size(),
           expected);
}

}  // namespace graphpipe
