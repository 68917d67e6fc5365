#include "schedule/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/stage_memory.h"
#include "schedule/build.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

using testing::ElementsAre;

Schedule lowered(const TestPlan& t, std::int64_t samples) {
  return lower(build_schedule(t.plan, t.graph, samples), t.plan, t.graph);
}

std::vector<Action> all_actions(const Schedule& schedule, const Plan& plan, std::size_t rank) {
  std::vector<Action> actions;
  for (ActionCursor at(schedule, plan, RankId(rank)); !at.done(); at.next()) {
    actions.push_back(at.action());
  }
  return actions;
}

std::vector<std::string> texts(const TestPlan& t, const Schedule& schedule, std::size_t rank) {
  std::vector<std::string> result;
  for (const Action& a : all_actions(schedule, t.plan, rank)) result.push_back(to_text(a, t.plan));
  return result;
}

// The same schedule with all repetitions written out: what lowering must not depend on.
Schedule written_out(const Schedule& schedule, const Plan& plan) {
  Schedule result = schedule;
  result.repeats = 0;
  result.period_samples = 0;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    result.ranks[r] = {.device = schedule.ranks[r].device,
                       .prologue = all_actions(schedule, plan, r)};
  }
  return result;
}

TEST(Lower, ChainOfTwo) {
  const TestPlan t = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 3});
  ASSERT_EQ(channel_window_samples(t.plan, t.plan.edges[0]), 2);
  const Schedule schedule = lowered(t, 3);
  EXPECT_TRUE(schedule.lowered);
  EXPECT_THAT(texts(t, schedule, 0), ElementsAre("post 0>1 B [0,1)", "post 0>1 B [1,2)",         //
                                                 "0F0", "send 0>1 F [0,1)",                      //
                                                 "0F1", "send 0>1 F [1,2)",                      //
                                                 "recv 0>1 B [0,1)", "post 0>1 B [2,3)", "0B0",  //
                                                 "free 0 [0,1)", "free 0>1 B [0,1)",             //
                                                 "0F2", "sent 0>1 F [0,1)", "send 0>1 F [2,3)",  //
                                                 "recv 0>1 B [1,2)", "0B1",                      //
                                                 "free 0 [1,2)", "free 0>1 B [1,2)",             //
                                                 "recv 0>1 B [2,3)", "0B2",                      //
                                                 "free 0 [2,3)", "free 0>1 B [2,3)",             //
                                                 "sent 0>1 F [1,2)", "sent 0>1 F [2,3)", "step 0"));
  EXPECT_THAT(texts(t, schedule, 1), ElementsAre("post 0>1 F [0,1)", "post 0>1 F [1,2)",         //
                                                 "recv 0>1 F [0,1)", "post 0>1 F [2,3)", "1F0",  //
                                                 "free 0>1 F [0,1)",                             //
                                                 "1B0", "send 0>1 B [0,1)", "free 1 [0,1)",      //
                                                 "recv 0>1 F [1,2)", "1F1", "free 0>1 F [1,2)",  //
                                                 "1B1", "send 0>1 B [1,2)", "free 1 [1,2)",      //
                                                 "recv 0>1 F [2,3)", "1F2", "free 0>1 F [2,3)",  //
                                                 "1B2", "sent 0>1 B [0,1)", "send 0>1 B [2,3)",  //
                                                 "free 1 [2,3)",                                 //
                                                 "sent 0>1 B [1,2)", "sent 0>1 B [2,3)", "step 1"));
}

TEST(Lower, ARecomputeStandsBeforeTheWaitForItsBackwardsMessages) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {1, 1}, .samples = 1, .recompute = {0, 1}});
  const Schedule schedule = lowered(t, 1);
  EXPECT_THAT(texts(t, schedule, 0),
              ElementsAre("post 0>1 B [0,1)", "0F0", "send 0>1 F [0,1)", "0R0", "recv 0>1 B [0,1)",
                          "0B0", "free 0 [0,1)", "free 0>1 B [0,1)", "sent 0>1 F [0,1)", "step 0"));
  EXPECT_THAT(texts(t, schedule, 1),
              ElementsAre("post 0>1 F [0,1)", "recv 0>1 F [0,1)", "1F0", "free 0>1 F [0,1)", "1R0",
                          "1B0", "send 0>1 B [0,1)", "free 1 [0,1)", "sent 0>1 B [0,1)", "step 1"));
}

TEST(Lower, StagesOnARankHandValuesOverWithoutAMessage) {
  const TestPlan t = make_plan({.edges = "0>1", .in_flight = {1, 1}, .samples = 1, .on = {0, 0}});
  EXPECT_THAT(texts(t, lowered(t, 1), 0), ElementsAre("0F0", "1F0", "1B0", "free 1 [0,1)", "0B0",
                                                      "free 0 [0,1)", "step 0", "step 1"));
}

// Stage 0 has no backward, and what it made is read until 1B0.
TEST(Lower, AValueEndsAfterTheLastPassOfItsReadersOnTheRank) {
  const TestPlan t = make_plan({.edges = "0>1 0>2",
                                .in_flight = {2, 1, 1},
                                .samples = 2,
                                .sizes = {2, 1, 1},
                                .untrained = {0},
                                .on = {0, 0, 1}});
  EXPECT_THAT(texts(t, lowered(t, 2), 0),
              ElementsAre("0F0", "send 0>2 F [0,1)", "send 0>2 F [1,2)",  //
                          "1F0", "1B0", "free 1 [0,1)",                   //
                          "1F1", "1B1", "free 1 [1,2)", "free 0 [0,2)",   //
                          "sent 0>2 F [0,1)", "sent 0>2 F [1,2)", "step 1"));
}

TEST(Lower, OfABackwardInHalvesTheFirstSendsAndTheSecondFrees) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {1, 1}, .samples = 1, .kind = ScheduleKind::kZbH1});
  const Schedule schedule = lowered(t, 1);
  EXPECT_THAT(texts(t, schedule, 0),
              ElementsAre("post 0>1 B [0,1)", "0F0", "send 0>1 F [0,1)", "recv 0>1 B [0,1)", "0I0",
                          "0W0", "free 0 [0,1)", "free 0>1 B [0,1)", "sent 0>1 F [0,1)", "step 0"));
  EXPECT_THAT(texts(t, schedule, 1),
              ElementsAre("post 0>1 F [0,1)", "recv 0>1 F [0,1)", "1F0", "free 0>1 F [0,1)", "1I0",
                          "send 0>1 B [0,1)", "1W0", "free 1 [0,1)", "sent 0>1 B [0,1)", "step 1"));
}

TEST(Lower, MessagesKnowTheirEnds) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {4, 4}, .samples = 4, .sizes = {2, 4}});
  const std::vector<Action> actions = all_actions(lowered(t, 4), t.plan, 0);
  const Action* send = nullptr;
  for (const Action& a : actions) {
    if (a.kind == ActionKind::kStartSend && a.samples.lo == 2) send = &a;
  }
  ASSERT_NE(send, nullptr);
  EXPECT_EQ(*send, (Action{.kind = ActionKind::kStartSend,
                           .stage = StageId(0),
                           .replica = 0,
                           .micro_batch = 1,
                           .samples = {2, 4},
                           .edge = EdgeId(0),
                           .direction = Direction::kForward,
                           .peer = RankId(1),
                           .bytes = message_bytes(t.graph, t.plan.edges[0], 2, false)}));
}

TEST(Lower, MessagesAreTheIntersectionsOfTheEndsTasks) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {6, 6}, .samples = 6, .sizes = {3, 2}});
  EXPECT_THAT(texts(t, lowered(t, 6), 1),
              testing::IsSupersetOf({"recv 0>1 F [0,2)", "recv 0>1 F [2,3)", "recv 0>1 F [3,4)",
                                     "recv 0>1 F [4,6)", "free 0>1 F [2,3)", "send 0>1 B [3,4)"}));
}

TEST(Lower, ForwardOnlyProgramsFreeAtOnce) {
  const TestPlan t = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 2});
  const Schedule schedule = lower(build_forward_schedule(t.plan, t.graph, 2), t.plan, t.graph);
  EXPECT_THAT(texts(t, schedule, 0), ElementsAre("0F0", "send 0>1 F [0,1)", "free 0 [0,1)",  //
                                                 "0F1", "send 0>1 F [1,2)", "free 0 [1,2)",  //
                                                 "sent 0>1 F [0,1)", "sent 0>1 F [1,2)"));
  EXPECT_THAT(texts(t, schedule, 1),
              ElementsAre("post 0>1 F [0,1)", "post 0>1 F [1,2)",                         //
                          "recv 0>1 F [0,1)", "1F0", "free 0>1 F [0,1)", "free 1 [0,1)",  //
                          "recv 0>1 F [1,2)", "1F1", "free 0>1 F [1,2)", "free 1 [1,2)"));
}

TEST(Lower, NothingGoesBackToAStageWithNothingToTrain) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {1, 1}, .samples = 1, .untrained = {0}});
  const Schedule schedule = lowered(t, 1);
  EXPECT_THAT(texts(t, schedule, 0),
              ElementsAre("0F0", "send 0>1 F [0,1)", "free 0 [0,1)", "sent 0>1 F [0,1)"));
  EXPECT_THAT(texts(t, schedule, 1),
              ElementsAre("post 0>1 F [0,1)", "recv 0>1 F [0,1)", "1F0", "free 0>1 F [0,1)", "1B0",
                          "free 1 [0,1)", "step 1"));
}

TEST(Lower, OrderEdgesCarryEmptyMessagesBothWays) {
  const TestPlan t = make_plan({.edges = "", .in_flight = {1, 1}, .samples = 1, .order = "0>1"});
  const Schedule schedule = lowered(t, 1);
  EXPECT_THAT(texts(t, schedule, 0),
              ElementsAre("post 0>1 B [0,1)", "0F0", "send 0>1 F [0,1)", "recv 0>1 B [0,1)", "0B0",
                          "free 0 [0,1)", "free 0>1 B [0,1)", "sent 0>1 F [0,1)", "step 0"));
  for (const Action& a : all_actions(schedule, t.plan, 0)) {
    if (a.kind != ActionKind::kStartSend) continue;
    EXPECT_EQ(a.bytes, kMessageHeaderBytes + 8);
  }
}

TEST(Lower, ASkipGoesStraightToItsReader) {
  const TestPlan t = make_plan({.edges = "0>1 0>2 1>2", .in_flight = {3, 2, 1}, .samples = 1});
  EXPECT_THAT(texts(t, lowered(t, 1), 0),
              ElementsAre("post 0>1 B [0,1)", "post 0>2 B [0,1)", "0F0", "send 0>1 F [0,1)",
                          "send 0>2 F [0,1)", "recv 0>1 B [0,1)", "recv 0>2 B [0,1)", "0B0",
                          "free 0 [0,1)", "free 0>1 B [0,1)", "free 0>2 B [0,1)",
                          "sent 0>1 F [0,1)", "sent 0>2 F [0,1)", "step 0"));
}

TEST(Lower, ReplicasShareABucket) {
  const TestPlan t = make_plan(
      {.edges = "0>1", .in_flight = {4, 2}, .samples = 4, .sizes = {2, 2}, .widths = {2, 1}});
  const Schedule schedule = lowered(t, 4);
  ASSERT_EQ(schedule.buckets.size(), 1U);
  EXPECT_EQ(schedule.buckets[0], (Bucket{.params = {ParamId(0), ParamId(1)},
                                         .ranks = {RankId(0), RankId(1)},
                                         .bytes = (16 + 4) * 4}));
  const std::vector<std::string> end = texts(t, schedule, 1);
  EXPECT_THAT(
      std::vector(end.end() - 5, end.end()),
      ElementsAre("reduce #0", "reduced #0", "sent 0>1 F [1,2)", "sent 0>1 F [3,4)", "step 0"));
  EXPECT_THAT(texts(t, schedule, 2), testing::Not(testing::Contains("reduce #0")));
}

TEST(Lower, StagesWithTiedWeightsShareABucket) {
  const TestPlan t =
      make_plan({.edges = "0>1 1>2", .in_flight = {3, 2, 1}, .samples = 2, .tied = {0, 2}});
  const Schedule schedule = lowered(t, 2);
  ASSERT_EQ(schedule.buckets.size(), 1U);
  EXPECT_EQ(schedule.buckets[0].ranks, (std::vector{RankId(0), RankId(2)}));
  EXPECT_EQ(schedule.buckets[0].bytes, 16 * 4);
}

TEST(Lower, SizeDoesNotGrowWithTheNumberOfMicroBatches) {
  const TestPlan t = make_plan({.edges = "0>1 0>2 1>3 2>3",
                                .samples = 4096,
                                .sizes = {1, 2, 1, 4},
                                .in_a_row = {1, 1, 2, 1},
                                .widths = {1, 2, 2, 1},
                                .in_turn = {false, true, true, false},
                                .stages = 4});
  const Schedule few = lowered(t, 256);
  const Schedule many = lowered(t, 16 * 256);
  EXPECT_GE(few.repeats, 2);
  EXPECT_EQ(action_count(few), action_count(many));
}

TEST(Lower, DoesNotDependOnThePeriodOnRandomPlans) {
  int periodic = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const PlanSpec spec = seed % 3 == 0 ? random_halves_spec(seed, false) : random_spec(seed);
    const TestPlan t = make_plan(spec);
    for (const bool training : {true, false}) {
      const Schedule schedule = training ? build_schedule(t.plan, t.graph, spec.samples)
                                         : build_forward_schedule(t.plan, t.graph, spec.samples);
      const Schedule folded = lower(schedule, t.plan, t.graph);
      const Schedule plain = lower(written_out(schedule, t.plan), t.plan, t.graph);
      periodic += folded.repeats > 0 ? 1 : 0;
      ASSERT_EQ(folded.buckets, plain.buckets);
      ASSERT_EQ(folded.samples, spec.samples);
      for (std::size_t r = 0; r < folded.ranks.size(); ++r) {
        ASSERT_EQ(all_actions(folded, t.plan, r), all_actions(plain, t.plan, r))
            << "seed " << seed << ", rank " << r << (training ? "" : ", forwards only");
      }
    }
  }
  EXPECT_GT(periodic, 100);
}

}  // namespace
}  // namespace graphpipe
