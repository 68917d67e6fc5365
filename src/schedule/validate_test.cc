#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

std::string fault_of(const Schedule& schedule, const TestPlan& t) {
  try {
    validate(schedule, t.plan, t.graph, "s");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Of a chain of two with two samples in flight on the first stage, over two micro-batches.
std::string fault(const std::string& grid) {
  const TestPlan t = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 2});
  return fault_of(parse_schedule(grid, t.plan, "grid"), t);
}

TEST(ScheduleValidate, Accepts1F1B) {
  EXPECT_EQ(fault(R"(
      0F0 0F1 0B0 0B1
      1F0 1B0 1F1 1B1)"),
            "");
}

TEST(ScheduleValidate, AcceptsBackwardsInHalves) {
  EXPECT_EQ(fault(R"(
      0F0 0F1 0I0 0W0 0I1 0W1
      1F0 1I0 1W0 1F1 1B1)"),
            "");
}

TEST(ScheduleValidate, AcceptsForwardsOnly) {
  EXPECT_EQ(fault(R"(
      0F0 0F1
      1F0 1F1)"),
            "");
}

// As fault(), where the first stage recomputes.
std::string recompute_fault(const std::string& grid) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 2, .recompute = {0}});
  return fault_of(parse_schedule(grid, t.plan, "grid"), t);
}

TEST(ScheduleValidate, S6ARecomputeStandsRightBeforeItsBackward) {
  const std::string last = "\n      1F0 1B0 1F1 1B1";
  EXPECT_EQ(recompute_fault("0F0 0F1 0R0 0B0 0R1 0B1" + last), "");
  EXPECT_EQ(recompute_fault("0F0 0F1 0R0 0I0 0W0 0R1 0B1" + last), "");
  EXPECT_EQ(recompute_fault("0F0 0F1 0B0 0R1 0B1" + last),
            "s: S6: stage 0, micro-batch 0: its forward must run again right before\n"
            "  rank 0: 0F0 0F1 0B0 0R1 0B1\n"
            "                  ^ here\n"
            "  rank 1: 1F0 1B0 1F1 1B1");
  EXPECT_EQ(recompute_fault("0F0 0R0 0F1 0B0 0R1 0B1" + last),
            "s: S6: stage 0, micro-batch 0: its backward must stand right behind\n"
            "  rank 0: 0F0 0R0 0F1 0B0 0R1 0B1\n"
            "              ^ here\n"
            "  rank 1: 1F0 1B0 1F1 1B1");
  EXPECT_EQ(recompute_fault("0R0 0F0 0F1 0B0 0R1 0B1" + last),
            "s: S2: a recompute before its forward\n"
            "  rank 0: 0R0 0F0 0F1 0B0 0R1 0B1\n"
            "          ^ here\n"
            "  rank 1: 1F0 1B0 1F1 1B1");
}

TEST(ScheduleValidate, S6OtherStagesDoNotRecompute) {
  EXPECT_EQ(recompute_fault("0F0 0F1 0R0 0B0 0R1 0B1\n      1F0 1R0 1B0 1F1 1B1"),
            "s: S6: stage 1 does not recompute in this plan\n"
            "  rank 0: 0F0 0F1 0R0 0B0 0R1 0B1\n"
            "  rank 1: 1F0 1R0 1B0 1F1 1B1\n"
            "              ^ here");
}

TEST(ScheduleValidate, S1RanksAreThePlansDevices) {
  const TestPlan t = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 2});
  Schedule schedule = build_schedule(t.plan, t.graph, 2);
  schedule.ranks[1].device = DeviceId(4);
  EXPECT_EQ(fault_of(schedule, t),
            "s: S1: rank 1 is on device 4; ranks are the devices that the plan uses, ascending, so "
            "expected 1");
  schedule.ranks.pop_back();
  EXPECT_EQ(fault_of(schedule, t), "s: S1: the schedule has 1 ranks, the plan uses 2 devices");
}

TEST(ScheduleValidate, S1StagesRunOnTheirDevices) {
  EXPECT_EQ(fault(R"(
      0F0 0F1 1B0 0B1
      1F0 1B0 1F1 1B1)"),
            "s: S1: stage 1 does not run on device 0\n"
            "  rank 0: 0F0 0F1 1B0 0B1\n"
            "                  ^ here\n"
            "  rank 1: 1F0 1B0 1F1 1B1");
}

TEST(ScheduleValidate, S2BackwardFollowsForward) {
  EXPECT_EQ(fault(R"(
      0F0 0B0 0F1 0B1
      1F0 1B1 1F1 1B0)"),
            "s: S2: a backward before its forward\n"
            "  rank 0: 0F0 0B0 0F1 0B1\n"
            "  rank 1: 1F0 1B1 1F1 1B0\n"
            "              ^ here");
}

TEST(ScheduleValidate, S2WeightHalfFollowsInputHalf) {
  EXPECT_EQ(fault(R"(
      0F0 0F1 0W0 0I0 0B1
      1F0 1B0 1F1 1B1)"),
            "s: S2: a weight half before its input half\n"
            "  rank 0: 0F0 0F1 0W0 0I0 0B1\n"
            "                  ^ here\n"
            "  rank 1: 1F0 1B0 1F1 1B1");
}

TEST(ScheduleValidate, S3NothingRunsTwice) {
  EXPECT_EQ(fault(R"(
      0F0 0F1 0B0 0B1
      1F0 1B0 1F1 1B1 1B1)"),
            "s: S3: stage 1, micro-batch 1 runs backward twice\n"
            "  rank 0: 0F0 0F1 0B0 0B1\n"
            "  rank 1: 1F0 1B0 1F1 1B1 1B1\n"
            "                          ^ here");
}

TEST(ScheduleValidate, S3EverythingRuns) {
  EXPECT_EQ(fault(R"(
      0F0 0B0
      1F0 1B0 1F1 1B1)"),
            "s: S3: stage 0, micro-batch 1 never runs forward\n"
            "  rank 0: 0F0 0B0\n"
            "                  ^ here\n"
            "  rank 1: 1F0 1B0 1F1 1B1");
  EXPECT_EQ(fault(R"(
      0F0 0F1 0B0 0B1
      1F0 1B0 1F1 1I1)"),
            "s: S3: stage 1, micro-batch 1 never runs backward\n"
            "  rank 0: 0F0 0F1 0B0 0B1\n"
            "  rank 1: 1F0 1B0 1F1 1I1\n"
            "                          ^ here");
}

TEST(ScheduleValidate, S3SamplesAreTheOwnerMaps) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {4, 2}, .samples = 4, .sizes = {2, 2}});
  Schedule schedule = build_schedule(t.plan, t.graph, 4);
  schedule.ranks[0].prologue[1].samples = {2, 3};
  EXPECT_EQ(fault_of(schedule, t),
            "s: S3: stage 0, micro-batch 1: this rank has samples [2,4), not [2,3)\n"
            "  rank 0: 0F0 0F1 0B0 0B1\n"
            "              ^ here\n"
            "  rank 1: 1F0 1B0 1F1 1B1");
}

TEST(ScheduleValidate, S3RoundRobinReplicasKeepToTheirOwn) {
  const TestPlan t =
      make_plan({.edges = "", .in_flight = {2}, .samples = 2, .widths = {2}, .in_turn = {true}});
  EXPECT_EQ(fault_of(parse_schedule("0F0 0F1 0B0 0B1\n-\n", t.plan, "grid"), t),
            "s: S3: stage 0, micro-batch 1: this rank has no sample of it\n"
            "  rank 0: 0F0 0F1 0B0 0B1\n"
            "              ^ here\n"
            "  rank 1:");
}

TEST(ScheduleValidate, S3NoBackwardWithoutAGradient) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {1, 1}, .samples = 1, .untrained = {0}});
  EXPECT_EQ(fault_of(parse_schedule("0F0 0B0\n1F0 1B0\n", t.plan, "grid"), t),
            "s: S3: stage 0, micro-batch 0: there is nothing to do backward\n"
            "  rank 0: 0F0 0B0\n"
            "              ^ here\n"
            "  rank 1: 1F0 1B0");
}

TEST(ScheduleValidate, S4MicroBatchesAscend) {
  EXPECT_EQ(fault(R"(
      0F0 0F1 0B1 0B0
      1F0 1B0 1F1 1B1)"),
            "s: S4: stage 0 runs micro-batch 0 backward after 1\n"
            "  rank 0: 0F0 0F1 0B1 0B0\n"
            "                      ^ here\n"
            "  rank 1: 1F0 1B0 1F1 1B1");
}

TEST(ScheduleValidate, S5InFlightIsThePlans) {
  EXPECT_EQ(fault(R"(
      0F0 0F1 0B0 0B1
      1F0 1F1 1B0 1B1)"),
            "s: S5: stage 1 has more samples in flight than the 1 of its plan\n"
            "  rank 0: 0F0 0F1 0B0 0B1\n"
            "  rank 1: 1F0 1F1 1B0 1B1\n"
            "              ^ here");
}

TEST(ScheduleValidate, S5CountsTheReplicasOfARoundRobinTogether) {
  const TestPlan t =
      make_plan({.edges = "", .in_flight = {3}, .samples = 4, .widths = {2}, .in_turn = {true}});
  EXPECT_EQ(fault_of(parse_schedule("0F0 0F2 0B0 0B2\n0F1 0B1 0F3 0B3\n", t.plan, "grid"), t), "");
  EXPECT_EQ(fault_of(parse_schedule("0F0 0F2 0B0 0B2\n0F1 0F3 0B1 0B3\n", t.plan, "grid"), t),
            "s: S5: stage 0 has more samples in flight than the 3 of its plan\n"
            "  rank 0: 0F0 0F2 0B0 0B2\n"
            "  rank 1: 0F1 0F3 0B1 0B3\n"
            "              ^ here");
}

TEST(ScheduleValidate, DrawsTheNeighbourhoodOfALargeSchedule) {
  const TestPlan t = make_plan({.edges = "", .in_flight = {1}, .samples = 20});
  Schedule schedule = build_schedule(t.plan, t.graph, 20);
  ASSERT_GE(schedule.repeats, 2);
  schedule.ranks[0].epilogue.push_back(schedule.ranks[0].epilogue.back());
  EXPECT_EQ(fault_of(schedule, t),
            "s: S3: stage 0, micro-batch 19 runs backward twice\n"
            "  rank 0: ... 0F16 0B16 0F17 0B17 0F18 0B18 0F19 0B19 0B19\n"
            "                                                      ^ here");
}

}  // namespace
}  // namespace graphpipe
