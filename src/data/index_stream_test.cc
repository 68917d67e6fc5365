#include "data/index_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace graphpipe {
namespace {

std::vector<std::int64_t> ids(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), std::int64_t{100});
  return all;
}

std::vector<std::int64_t> epoch(const IndexStream& stream, std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < stream.iterations_per_epoch(); ++i) {
    const auto batch = stream.mini_batch(number * stream.iterations_per_epoch() + i);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(IndexStream, TheLastMiniBatchOfAnEpochIsShort) {
  const IndexStream stream(ids(10), 4, 1);
  EXPECT_EQ(stream.iterations_per_epoch(), 3);
  EXPECT_EQ(stream.mini_batch(0).size(), 4U);
  EXPECT_EQ(stream.mini_batch(1).size(), 4U);
  EXPECT_EQ(stream.mini_batch(2).size(), 2U);
  EXPECT_EQ(stream.mini_batch(3).size(), 4U);
  for (std::int64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(stream.mini_batch_samples(i), static_cast<std::int64_t>(stream.mini_batch(i).size()));
  }
}

TEST(IndexStream, AMiniBatchLargerThanTheSamplesHasAll) {
  const IndexStream stream(ids(3), 8, 1);
  EXPECT_EQ(stream.iterations_per_epoch(), 1);
  EXPECT_EQ(stream.mini_batch(5).size(), 3U);
  EXPECT_EQ(stream.mini_batch_samples(5), 3);
}

TEST(IndexStream, AnEpochHasEachSampleOnceInAnOrderOfItsOwn) {
  const IndexStream stream(ids(50), 8, 1);
  std::vector<std::int64_t> first = epoch(stream, 0);
  std::vector<std::int64_t> second = epoch(stream, 1);
  EXPECT_NE(first, second);
  EXPECT_NE(first, ids(50));
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, ids(50));
  EXPECT_EQ(second, ids(50));
}

TEST(IndexStream, DoesNotDependOnWhatWasAskedBefore) {
  const IndexStream forward(ids(50), 8, 1);
  const IndexStream jumping(ids(50), 8, 1);
  jumping.mini_batch(40);
  for (std::int64_t i = 0; i < 21; ++i) {
    EXPECT_EQ(forward.mini_batch(i), jumping.mini_batch(i)) << "iteration " << i;
  }
}

TEST(IndexStream, DependsOnTheSeed) {
  EXPECT_NE(epoch(IndexStream(ids(50), 8, 1), 0), epoch(IndexStream(ids(50), 8, 2), 0));
}

}  // namespace
}  // namespace graphpipe
