// For tests: a folder that is gone at the end, with all in it.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace graphpipe {

class TestFolder {
 public:
  TestFolder() : TestFolder(std::filesystem::temp_directory_path()) {}
  explicit TestFolder(const std::filesystem::path& parent)
      : path_((parent / "gp-test-XXXXXX").string()) {
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

}  // namespace graphpipe
