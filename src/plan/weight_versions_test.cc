#include "plan/weight_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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
  EXPECT_EQ(VersionRule(plan).micro_batches_a_mini_batch(), 3);
  EXPECT_EQ(VersionRule(plan).micro_batches_a_step(StageId(0)), 3);
  for (int s = 0; s < 3; ++s) {
    EXPECT_THAT(versions(plan, s, 10), ElementsAre(0, 0, 0, 0, 0, 0, 3, 3, 3, 6)) << s;
  }
  EXPECT_THAT(most_held(plan), ElementsAre(2, 2, 2));
}

TEST(WeightVersions, NaiveKeepsNone) {
  const Plan plan = chain(WeightPolicy::kNaive);
  EXPECT_THAT(most_held(plan), ElementsAre(1, 1, 1));
}

// Stages of 2, 3 and 1 devices that take turns, with 3, 1 and 2 rounds in flight.
Plan in_turns(WeightPolicy policy, std::int64_t mini_batch = 1) {
  Plan plan = chain(policy, mini_batch);
  const int widths[] = {2, 3, 1};
  const std::int64_t rounds[] = {3, 1, 2};
  for (std::size_t s = 0; s < 3; ++s) {
    plan.stages[s].replication = Replication::kRoundRobin;
    for (int d = 0; d < widths[s]; ++d) plan.stages[s].devices.emplace_back(d);
    plan.stages[s].in_flight_samples = rounds[s] * widths[s];
  }
  return plan;
}

// PipeDream's 1F1B-RR: replicas step together, after a micro-batch each.
TEST(WeightVersions, ReplicasInTurnStepByRounds) {
  const Plan plan = in_turns(WeightPolicy::kStash);
  EXPECT_THAT(versions(plan, 0, 10), ElementsAre(0, 0, 0, 0, 0, 0, 2, 2, 4, 4));
  EXPECT_THAT(versions(plan, 1, 10), ElementsAre(0, 0, 0, 3, 3, 3, 6, 6, 6, 9));
  EXPECT_THAT(versions(plan, 2, 5), ElementsAre(0, 0, 1, 2, 3));
  EXPECT_THAT(most_held(plan), ElementsAre(3, 1, 2));
  EXPECT_EQ(VersionRule(plan).steps_late(StageId(0)), 2);
  EXPECT_EQ(VersionRule(plan).steps_late(StageId(1)), 0);
}

// A stage of three has no version of two micro-batches, and takes the one before.
TEST(WeightVersions, WithVerticalSyncAStageTakesItsNewestThatIsNoNewerThanTheFirsts) {
  const Plan plan = in_turns(WeightPolicy::kVerticalSync);
  EXPECT_THAT(versions(plan, 0, 12), ElementsAre(0, 0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6));
  EXPECT_THAT(versions(plan, 1, 12), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 6, 6));
  EXPECT_THAT(versions(plan, 2, 12), ElementsAre(0, 0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6));
}

TEST(WeightVersions, Of2bwReplicasInTurnShareAMiniBatch) {
  const Plan plan = in_turns(WeightPolicy::k2bw, 6);
  for (int s = 0; s < 3; ++s) {
    EXPECT_EQ(versions(plan, s, 14).back(), 6) << s;
    EXPECT_EQ(VersionRule(plan).micro_batches_a_step(StageId(s)), 6);
  }
  EXPECT_TRUE(VersionRule(plan).is_last_of_step(StageId(1), 3, 100));   // 6 is the next
  EXPECT_FALSE(VersionRule(plan).is_last_of_step(StageId(1), 2, 100));  // 5 is
  EXPECT_TRUE(VersionRule(plan).is_last_of_step(StageId(1), 2, 5));
  EXPECT_THAT(most_held(plan), ElementsAre(2, 2, 2));
}

// What is said of delays holds for every micro-batch, and for one of each is met.
TEST(WeightVersions, DelaysAreThoseOfTheMicroBatches) {
  for (const WeightPolicy policy :
       {WeightPolicy::kStash, WeightPolicy::kVerticalSync, WeightPolicy::k2bw}) {
    const Plan plan = in_turns(policy, 6);
    const VersionRule rule(plan);
    for (int s = 0; s < 3; ++s) {
      const StageId stage(s);
      const std::int64_t step = rule.micro_batches_a_step(stage);
      std::int64_t lacks = 0;
      std::int64_t late = 0;
      for (std::int64_t i = 0; i < 60; ++i) {
        const std::int64_t version = rule.version_of(stage, i);
        EXPECT_EQ(version % step, 0);
        lacks = std::max(lacks, i - version);
        late = std::max(late, (i / step * step - version) / step);
      }
      EXPECT_EQ(rule.kept_for(stage), lacks) << s;
      EXPECT_EQ(rule.steps_late(stage), late) << s;
    }
  }
}

}  // namespace
}  // namespace graphpipe
