#include "schedule/owner_map.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace graphpipe {
namespace {

Stage stage_of(std::int64_t micro_batch, int width, Replication replication) {
  Stage stage;
  stage.micro_batch = micro_batch;
  stage.replication = replication;
  for (int d = 0; d < width; ++d) stage.devices.push_back(DeviceId(d));
  return stage;
}

TEST(OwnerMap, SplitReplicasShareEachMicroBatch) {
  const Stage stage = stage_of(4, 2, Replication::kSplit);
  EXPECT_EQ(owners(stage, 1, 8), (std::vector<SampleOwner>{{0, {4, 6}}, {1, {6, 8}}}));
}

TEST(OwnerMap, LastSharesOfASplitAreShortOrEmpty) {
  const Stage stage = stage_of(4, 3, Replication::kSplit);
  EXPECT_EQ(owners(stage, 0, 9), (std::vector<SampleOwner>{{0, {0, 2}}, {1, {2, 4}}, {2, {4, 4}}}));
  EXPECT_EQ(owners(stage, 2, 9), (std::vector<SampleOwner>{{0, {8, 9}}, {1, {9, 9}}, {2, {9, 9}}}));
}

TEST(OwnerMap, RoundRobinReplicasTakeTurns) {
  const Stage stage = stage_of(4, 3, Replication::kRoundRobin);
  EXPECT_EQ(owners(stage, 4, 20), (std::vector<SampleOwner>{{1, {16, 20}}}));
}

TEST(OwnerMap, LastMicroBatchIsShort) {
  const Stage stage = stage_of(4, 1, Replication::kSplit);
  EXPECT_EQ(micro_batch_count(stage, 10), 3);
  EXPECT_EQ(micro_batch_samples(stage, 2, 10), (SampleRange{8, 10}));
}

TEST(OwnerMap, PartsOfARangeComeBySample) {
  const Stage stage = stage_of(4, 2, Replication::kSplit);
  EXPECT_EQ(
      owned_parts(stage, {1, 7}, 10),
      (std::vector<OwnedPart>{{0, 0, {1, 2}}, {0, 1, {2, 4}}, {1, 0, {4, 6}}, {1, 1, {6, 7}}}));
  EXPECT_EQ(owned_parts(stage, {9, 14}, 10), (std::vector<OwnedPart>{{2, 1, {9, 10}}}));
  EXPECT_TRUE(owned_parts(stage, {3, 3}, 10).empty());
}

// Every sample of a mini-batch has exactly one owner, whatever the sizes.
TEST(OwnerMap, OwnersPartitionEveryMiniBatch) {
  for (const Replication replication : {Replication::kSplit, Replication::kRoundRobin}) {
    for (int width = 1; width <= 4; ++width) {
      for (std::int64_t size = 1; size <= 5; ++size) {
        for (std::int64_t samples = 1; samples <= 23; ++samples) {
          const Stage stage = stage_of(size, width, replication);
          std::int64_t next = 0;
          for (std::int64_t i = 0; i < micro_batch_count(stage, samples); ++i) {
            for (const SampleOwner& owner : owners(stage, i, samples)) {
              EXPECT_EQ(replica_samples(stage, owner.replica, i, samples), owner.samples);
              if (owner.samples.empty()) continue;
              ASSERT_EQ(owner.samples.lo, next);
              next = owner.samples.hi;
            }
          }
          ASSERT_EQ(next, samples) << size << " a micro-batch on " << width;
        }
      }
    }
  }
}

// The parts of a range are the owners' samples, cut to it: nothing twice, nothing left out.
TEST(OwnerMap, PartsCoverEveryRange) {
  for (const Replication replication : {Replication::kSplit, Replication::kRoundRobin}) {
    const std::int64_t samples = 17;
    const Stage stage = stage_of(5, 3, replication);
    for (std::int64_t lo = 0; lo < samples; ++lo) {
      for (std::int64_t hi = lo; hi <= samples; ++hi) {
        std::int64_t next = lo;
        for (const OwnedPart& part : owned_parts(stage, {lo, hi}, samples)) {
          const SampleRange own = replica_samples(stage, part.replica, part.micro_batch, samples);
          ASSERT_EQ(part.samples.lo, next);
          ASSERT_TRUE(own.lo <= part.samples.lo && part.samples.hi <= own.hi);
          ASSERT_FALSE(part.samples.empty());
          next = part.samples.hi;
        }
        ASSERT_EQ(next, hi);
      }
    }
  }
}

}  // namespace
}  // namespace graphpipe
