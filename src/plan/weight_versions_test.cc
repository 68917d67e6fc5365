#include "plan/weight_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace graphpipe {
namespace {

using testing::ElementsAre;

StageEdge edge(int from, int to) {
  StageEdge result;
  result.from = StageId(from);
  result.to = StageId(to);
  return result;
}

// A chain of three, one sample a micro-batch: in flight 3, 2, 1.
Plan chain(WeightPolicy policy, std::int64_t mini_batch = 1) {
  Plan plan;
  plan.weights = policy;
  plan.mini_batch = mini_batch;
  for (const std::int64_t in_flight : {3, 2, 1}) {
    Stage stage;
    stage.in_flight_samples = in_flight;
    plan.stages.push_back(stage);
  }
  plan.edges = {edge(0, 1), edge(1, 2)};
  return plan;
}

std::vector<std::int64_t> versions(const Plan& plan, int stage, int micro_batches) {
  std::vector<std::int64_t> result;
  for (int i = 0; i < micro_batches; ++i) {
    result.push_back(VersionRule(plan).version_of(StageId(stage), i));
  }
  return result;
}

std::vector<std::int64_t> most_held(const Plan& plan) {
  std::vector<std::int64_t> result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    result.push_back(VersionRule(plan).most_held(StageId(s)));
  }
  return result;
}

// PipeDream, section on weight stashing: on n stages the gradients of stage s are n - s - 1
// steps late.
TEST(WeightVersions, AStashIsAsOldAsTheStageHasInFlight) {
  const Plan plan = chain(WeightPolicy::kStash);
  EXPECT_THAT(versions(plan, 0, 6), ElementsAre(0, 0, 0, 1, 2, 3));
  EXPECT_THAT(versions(plan, 1, 6), ElementsAre(0, 0, 1, 2, 3, 4));
  EXPECT_THAT(versions(plan, 2, 6), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(most_held(plan), ElementsAre(3, 2, 1));
}

TEST(WeightVersions, WithVerticalSyncAllStagesUseWhatTheFirstUsed) {
  const Plan plan = chain(WeightPolicy::kVerticalSync);
  for (int s = 0; s < 3; ++s) {
    EXPECT_THAT(versions(plan, s, 6), ElementsAre(0, 0, 0, 1, 2, 3)) << s;
  }
  EXPECT_THAT(most_held(plan), ElementsAre(3, 3, 3));
}

// The stage that enters last decides: of what each would use the least.
TEST(WeightVersions, WithVerticalSyncTheOldestOfSeveralFirstStagesCounts) {
  Plan plan = chain(WeightPolicy::kVerticalSync);
  plan.edges = {edge(0, 2), edge(1, 2)};
  for (int s = 0; s < 3; ++s) EXPECT_THAT(versions(plan, s, 5), ElementsAre(0, 0, 0, 1, 2)) << s;
}

TEST(WeightVersions, Of2bwTwoAreHeldAndAMiniBatchUsesOne) {
  const Plan plan = chain(WeightPolicy::k2bw, 3);
  EXPECT_EQ(VersionRule(plan).micro_batches_a_step(), 3);
  for (int s = 0; s < 3; ++s) {
    EXPECT_THAT(versions(plan, s, 10), ElementsAre(0, 0, 0, 0, 0, 0, 3, 3, 3, 6)) << s;
  }
  EXPECT_THAT(most_held(plan), ElementsAre(2, 2, 2));
}

TEST(WeightVersions, NaiveKeepsNone) {
  const Plan plan = chain(WeightPolicy::kNaive);
  EXPECT_THAT(most_held(plan), ElementsAre(1, 1, 1));
  EXPECT_FALSE(VersionRule(plan).outlives_its_step(StageId(0), 3, 100));
}

TEST(WeightVersions, NearTheStreamsEndNothingIsKept) {
  const VersionRule rule(chain(WeightPolicy::kStash));
  EXPECT_TRUE(rule.outlives_its_step(StageId(0), 7, 10));  // 9 uses it
  EXPECT_FALSE(rule.outlives_its_step(StageId(0), 8, 10));
  EXPECT_TRUE(rule.outlives_its_step(StageId(0), 0, 2));  // 1 does, from before the step
  EXPECT_FALSE(rule.outlives_its_step(StageId(0), 0, 1));
  EXPECT_FALSE(rule.outlives_its_step(StageId(2), 0, 10));  // one in flight
}

}  // namespace
}  // namespace graphpipe
