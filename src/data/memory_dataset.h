// Data sets made by code: converters, synthetic samples, tests.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace graphpipe {

// A data set whose fields lie in memory.
class MemoryDataset : public Dataset {
 public:
  MemoryDataset(std::string name, std::int64_t samples);

  // `values`: of all samples, one sample after another. Requires: as many as
  // samples() * the elements of `shape`; the name is new.
  void add(const std::string& field, std::vector<std::int64_t> shape,
           std::span<const std::int64_t> values);
  void add(const std::string& field, std::vector<std::int64_t> shape,
           std::span<const float> values);
  void add(const std::string& field, std::vector<std::int64_t> shape,
           std::span<const double> values);
  void add(const std::string& field, std::vector<std::int64_t> shape, std::span<const bool> values);

  std::string name() const override { return name_; }
  std::int64_t samples() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }

 private:
  void add_bytes(const std::string& field, DType dtype, std::vector<std::int64_t> shape,
                 std::span<const std::byte> bytes);

  std::string name_;
  std::int64_t samples_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
  std::vector<Field> fields_;
};

}  // namespace graphpipe
