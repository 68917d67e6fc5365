#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "base/test_fault.h"

namespace graphpipe {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("gp_base_") + info->name() + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(Files, WhatIsWrittenIsReadBack) {
  const std::string path = folder_ / "a.txt";
  write_file(path, std::string_view("one\0two\n", 8));
  EXPECT_EQ(read_file(path), std::string("one\0two\n", 8));
  write_file(path, "three");
  EXPECT_EQ(read_file(path), "three");
}

TEST_F(Files, WritingLeavesNothingElseBehind) {
  write_file(folder_ / "a.txt", "x");
  const auto entries = std::distance(std::filesystem::directory_iterator(folder_),
                                     std::filesystem::directory_iterator());
  EXPECT_EQ(entries, 1);
}

TEST_F(Files, WhatCannotBeReadIsNamed) {
  const std::string path = folder_ / "missing.json";
  EXPECT_EQ(input_fault([&] { read_file(path); }),
            path + ": cannot read: No such file or directory");
  EXPECT_EQ(input_fault([&] { read_file(folder_); }),
            folder_.string() + ": cannot read: it is a folder, and a file is expected");
}

TEST_F(Files, WhatCannotBeWrittenIsNamed) {
  const std::string path = folder_ / "no" / "a.txt";
  EXPECT_EQ(input_fault([&] { write_file(path, "x"); }),
            path + ": cannot write: No such file or directory");
}

TEST_F(Files, ADeviceIsWrittenToAndNotReplaced) {
  write_file("/dev/null", "x");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

TEST_F(Files, WhatHasNoEndIsRefused) {
  EXPECT_EQ(input_fault([] { read_file("/dev/zero"); }),
            "/dev/zero: cannot read: it is no file, and has more than 268435456 bytes");
}

}  // namespace
}  // namespace graphpipe
