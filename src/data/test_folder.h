// For tests: a folder that is gone at the end with all in it, and what data sets hold.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/test_fault.h"
#include "data/dataset.h"

namespace graphpipe {

class TestFolder {
 public:
  TestFolder() : path_((std::filesystem::temp_directory_path() / "gp-data-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The field's element `i`, counted over all samples.
template <typename T>
T element(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof value, sizeof value);
  return value;
}

// All of a field.
template <typename T>
std::vector<T> values(const Dataset& dataset, const std::string& name) {
  const Field& field = *dataset.field(name);
  std::vector<T> all;
  const std::size_t count =
      static_cast<std::size_t>(dataset.samples() * field.bytes_per_sample()) / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) all.push_back(element<T>(field.data, i));
  return all;
}

}  // namespace graphpipe
