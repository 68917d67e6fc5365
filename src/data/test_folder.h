// For tests: a folder that is gone at the end with all in it, and faults as text.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"

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

// What the command line would print; "" where nothing is wrong.
template <typename Action>
std::string input_fault(const Action& action) {
  try {
    action();
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

// The field's element `i`, counted over all samples.
template <typename T>
T element(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof value, sizeof value);
  return value;
}

}  // namespace graphpipe
