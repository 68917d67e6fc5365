#include "data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <optional>
#include <utility>

#include "base/file.h"
#include "data/memory_dataset.h"
#include "data/test_folder.h"

namespace graphpipe {
namespace {

using Integers = std::span<const std::int64_t>;

std::vector<std::int64_t> sorted(std::vector<std::int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(SplitDataset, HasEachSampleOnceEightToOneToOne) {
  const Split split = split_dataset(1009, 7);
  EXPECT_EQ(split.train.size(), 809U);
  EXPECT_EQ(split.validation.size(), 100U);
  EXPECT_EQ(split.test.size(), 100U);
  std::vector<std::int64_t> all = split.train;
  all.insert(all.end(), split.validation.begin(), split.validation.end());
  all.insert(all.end(), split.test.begin(), split.test.end());
  std::vector<std::int64_t> expected(1009);
  std::iota(expected.begin(), expected.end(), std::int64_t{0});
  EXPECT_EQ(sorted(all), expected);
}

TEST(SplitDataset, IsTheSameForASeedAndAnotherForAnother) {
  EXPECT_EQ(split_dataset(1000, 7).test, split_dataset(1000, 7).test);
  EXPECT_NE(sorted(split_dataset(1000, 7).test), sorted(split_dataset(1000, 8).test));
}

TEST(SplitDataset, TenSamplesGiveEachPartSome) {
  const Split split = split_dataset(10, 1);
  EXPECT_EQ(split.train.size(), 8U);
  EXPECT_EQ(split.validation.size(), 1U);
  EXPECT_EQ(split.test.size(), 1U);
}

// Three samples, split as its maker says.
class SplitSet final : public MemoryDataset {
 public:
  explicit SplitSet(Split split) : MemoryDataset("own", 3), split_(std::move(split)) {
    add("a", {}, Integers(std::vector<std::int64_t>{7, 8, 9}));
  }
  std::optional<Split> split() const override { return split_; }

 private:
  Split split_;
};

TEST(SplitDataset, ASetsOwnSplitIsTaken) {
  const Split own{{2}, {0}, {1}};
  EXPECT_EQ(split_dataset(SplitSet(own), 1), own);
  EXPECT_EQ(split_dataset(MemoryDataset("d", 20), 1), split_dataset(20, 1));
}

TEST(SplitDataset, RefusesWhatCannotBeSplit) {
  EXPECT_EQ(input_fault([] {
              split_dataset(SplitSet({{0, 1}, {}, {2}}), 1);
            }),
            "data set own: its split has no sample for validation");
  EXPECT_EQ(
      input_fault([] { split_dataset(MemoryDataset("d", 9), 1); }),
      "data set d: has 9 samples, and training, validation and test need at least 10 together");
}

TEST(Dataset, FindsAFieldByName) {
  MemoryDataset dataset("d", 2);
  dataset.add("a", {3}, Integers(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  ASSERT_NE(dataset.field("a"), nullptr);
  EXPECT_EQ(dataset.field("a")->bytes_per_sample(), 24);
  EXPECT_EQ(dataset.field("b"), nullptr);
}

// A set with a field of each dtype.
MemoryDataset four_fields() {
  MemoryDataset dataset("four", 2);
  dataset.add("id", {}, Integers(std::vector<std::int64_t>{-5, std::int64_t{1} << 40}));
  dataset.add("x", {2, 1}, std::span<const float>(std::vector<float>{0.5F, 1.5F, -2.5F, 3.5F}));
  dataset.add("y", {1}, std::span<const double>(std::vector<double>{0.1, 1e300}));
  const bool flags[] = {true, false, false, true};
  dataset.add("flags", {2}, std::span<const bool>(flags));
  return dataset;
}

TEST(OpenDataset, ReadsWhatWasWritten) {
  const TestFolder folder;
  const MemoryDataset written = four_fields();
  write_dataset(written, folder.path() + "/sub/set");
  const auto read = open_dataset(folder.path() + "/sub/set");
  EXPECT_EQ(read->name(), "four");
  EXPECT_EQ(read->samples(), 2);
  ASSERT_EQ(read->fields().size(), written.fields().size());
  for (std::size_t f = 0; f < written.fields().size(); ++f) {
    const Field& expected = written.fields()[f];
    const Field& found = read->fields()[f];
    EXPECT_EQ(found.name, expected.name);
    EXPECT_EQ(found.dtype, expected.dtype) << found.name;
    EXPECT_EQ(found.shape, expected.shape) << found.name;
    EXPECT_EQ(std::memcmp(found.data, expected.data,
                          static_cast<std::size_t>(2 * expected.bytes_per_sample())),
              0)
        << found.name;
  }
}

TEST(OpenDataset, HasTheSplitThatWasWritten) {
  const TestFolder folder;
  const Split split{{0}, {1}, {2}};
  write_dataset(SplitSet(split), folder.path());
  EXPECT_EQ(open_dataset(folder.path())->split(), split);
  const TestFolder another;
  write_dataset(four_fields(), another.path());
  EXPECT_EQ(open_dataset(another.path())->split(), std::nullopt);
}

TEST(OpenDataset, FilesAreLittleEndianAndRowMajor) {
  const TestFolder folder;
  write_file(folder.path() + "/manifest.json", R"({"format": "graphpipe-dataset", "version": 1,
      "name": "d", "samples": 2,
      "fields": [{"name": "id", "dtype": "int64", "shape": [], "file": "ids.raw"}]})");
  using namespace std::string_literals;
  write_file(folder.path() + "/ids.raw", "\x01\x02\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"s);
  const auto dataset = open_dataset(folder.path());
  EXPECT_EQ(element<std::int64_t>(dataset->fields()[0].data, 0), 513);
  EXPECT_EQ(element<std::int64_t>(dataset->fields()[0].data, 1), -1);
}

TEST(OpenDataset, SaysWhatIsWrongWithAFile) {
  const TestFolder folder;
  const std::string path = folder.path();
  const auto open = [&] { open_dataset(path); };
  EXPECT_EQ(input_fault(open), path + "/manifest.json: cannot read: No such file or directory");
  write_dataset(four_fields(), path);
  write_file(path + "/x.bin", "abc");
  EXPECT_EQ(input_fault(open), path +
                                   "/x.bin: has 3 bytes, expected 16 (2 samples of 8 bytes); "
                                   "fetch or write the data set again");
  std::filesystem::remove(path + "/x.bin");
  EXPECT_EQ(input_fault(open), path + "/x.bin: cannot read: No such file or directory");
}

TEST(WriteDataset, SaysWhereItCannotWrite) {
  const TestFolder folder;
  write_file(folder.path() + "/taken", "");
  EXPECT_EQ(input_fault([&] { write_dataset(four_fields(), folder.path() + "/taken/set"); }),
            folder.path() + "/taken/set: cannot make the folder: Not a directory");
}

}  // namespace
}  // namespace graphpipe
