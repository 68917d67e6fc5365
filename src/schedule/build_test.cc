#include "schedule/build.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "schedule/owner_map.h"
#include "schedule/shift.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

// A grid without its indentation, as to_text() writes it.
std::string grid(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) result += line.substr(begin) + "\n";
  }
  return result;
}

std::string built(const PlanSpec& spec) {
  const TestPlan t = make_plan(spec);
  return to_text(build_schedule(t.plan, t.graph, spec.samples), t.plan);
}

TEST(BuildSchedule, ChainOfFourRuns1F1B) {
  EXPECT_EQ(built({.edges = "0>1 1>2 2>3", .in_flight = {4, 3, 2, 1}, .samples = 6}), grid(R"(
      0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0B3 0B4 0B5
      1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1B4 1B5
      2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2B5
      3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5)"));
}

TEST(BuildSchedule, BranchesRunSideBySide) {
  EXPECT_EQ(built({.edges = "0>2 1>2", .in_flight = {2, 2, 1}, .samples = 3}), grid(R"(
      0F0 0F1 0B0 0F2 0B1 0B2
      1F0 1F1 1B0 1F2 1B1 1B2
      2F0 2B0 2F1 2B1 2F2 2B2)"));
}

TEST(BuildSchedule, StagesHaveTheirOwnMicroBatches) {
  EXPECT_EQ(built({.edges = "0>1 1>2", .in_flight = {10, 8, 4}, .samples = 12, .sizes = {1, 2, 4}}),
            grid(R"(
      0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 0F8 0F9 0B0 0F10 0B1 0F11 0B2 0B3 0B4 0B5 0B6 0B7 0B8 0B9 0B10 0B11
      1F0 1F1 1F2 1F3 1B0 1F4 1B1 1F5 1B2 1B3 1B4 1B5
      2F0 2B0 2F1 2B1 2F2 2B2)"));
}

TEST(BuildSchedule, KForwardsAndBackwardsInARow) {
  EXPECT_EQ(built({.edges = "0>1", .in_flight = {4, 2}, .samples = 7, .in_a_row = {2, 2}}), grid(R"(
      0F0 0F1 0F2 0F3 0B0 0B1 0F4 0F5 0B2 0B3 0F6 0B4 0B5 0B6
      1F0 1F1 1B0 1B1 1F2 1F3 1B2 1B3 1F4 1F5 1B4 1B5 1F6 1B6)"));
}

TEST(BuildSchedule, SplitReplicasAllRunEveryMicroBatch) {
  EXPECT_EQ(
      built({.edges = "0>1", .in_flight = {4, 2}, .samples = 5, .sizes = {2, 2}, .widths = {2, 1}}),
      grid(R"(
      0F0 0F1 0B0 0F2 0B1 0B2
      0F0 0F1 0B0 0B1
      1F0 1B0 1F1 1B1 1F2 1B2)"));
}

TEST(BuildSchedule, RoundRobinReplicasRunTheirs) {
  EXPECT_EQ(built({.edges = "0>1",
                   .in_flight = {4, 1},
                   .samples = 7,
                   .widths = {2, 1},
                   .in_turn = {true, false}}),
            grid(R"(
      0F0 0F2 0B0 0F4 0B2 0F6 0B4 0B6
      0F1 0F3 0B1 0F5 0B3 0B5
      1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4 1F5 1B5 1F6 1B6)"));
}

TEST(BuildSchedule, AStageWithNothingToTrainRunsForwardsOnly) {
  EXPECT_EQ(built({.edges = "0>1", .in_flight = {2, 1}, .samples = 4, .untrained = {0}}), grid(R"(
      0F0 0F1 0F2 0F3
      1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3)"));
}

TEST(BuildSchedule, AMetricHasNoBackward) {
  EXPECT_EQ(built({.edges = "0>1 0>2", .in_flight = {2, 1, 1}, .samples = 3, .metrics = {2}}),
            grid(R"(
      0F0 0F1 0B0 0F2 0B1 0B2
      1F0 1B0 1F1 1B1 1F2 1B2
      2F0 2F1 2F2)"));
}

TEST(BuildSchedule, GpipeRunsAllForwardsFirst) {
  EXPECT_EQ(built({.edges = "0>1",
                   .in_flight = {6, 6},
                   .samples = 6,
                   .sizes = {2, 2},
                   .kind = ScheduleKind::kGpipe}),
            grid(R"(
      0F0 0F1 0F2 0B0 0B1 0B2
      1F0 1F1 1F2 1B0 1B1 1B2)"));
}

TEST(BuildSchedule, RecomputesRightBeforeTheBackward) {
  EXPECT_EQ(built({.edges = "0>1", .in_flight = {2, 1}, .samples = 3, .recompute = {0}}), grid(R"(
      0F0 0F1 0R0 0B0 0F2 0R1 0B1 0R2 0B2
      1F0 1B0 1F1 1B1 1F2 1B2)"));
}

TEST(BuildSchedule, AStageWithoutABackwardDoesNotRecompute) {
  EXPECT_EQ(built({.edges = "0>1",
                   .in_flight = {2, 1},
                   .samples = 2,
                   .untrained = {0},
                   .recompute = {0, 1}}),
            grid(R"(
      0F0 0F1
      1F0 1R0 1B0 1F1 1R1 1B1)"));
}

TEST(BuildSchedule, RanksOfSeveralStagesInterleaveThem) {
  EXPECT_EQ(
      built({.edges = "0>1 1>2 2>3", .in_flight = {4, 4, 4, 4}, .samples = 4, .on = {0, 1, 0, 1}}),
      grid(R"(
      0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3 2B0 2B1 0B0 0B1 2B2 2B3 0B2 0B3
      1F0 1F1 1F2 1F3 3F0 3B0 3F1 3B1 1B0 1B1 3F2 3B2 3F3 3B3 1B2 1B3)"));
}

TEST(BuildSchedule, AForkAndItsJoinOnTwoRanks) {
  EXPECT_EQ(built({.edges = "0>1 0>2 1>3 2>3",
                   .in_flight = {4, 4, 4, 4},
                   .samples = 3,
                   .on = {0, 0, 1, 1}}),
            grid(R"(
      0F0 0F1 0F2 1F0 1F1 1F2 1B0 0B0 1B1 0B1 1B2 0B2
      2F0 2F1 2F2 3F0 3B0 2B0 3F1 3B1 2B1 3F2 3B2 2B2)"));
}

TEST(BuildSchedule, BackwardsInHalves) {
  EXPECT_EQ(
      built(
          {.edges = "0>1 1>2", .in_flight = {3, 3, 3}, .samples = 6, .kind = ScheduleKind::kZbH1}),
      grid(R"(
      0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0F4 0I2 0W2 0F5 0I3 0W3 0I4 0W4 0I5 0W5
      1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1F4 1I3 1W2 1F5 1I4 1W3 1I5 1W4 1W5
      2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2F4 2I4 2W2 2F5 2I5 2W3 2W4 2W5)"));
}

TEST(BuildSchedule, BackwardsInHalvesWithTheLeastInFlightAreNeverLate) {
  EXPECT_EQ(built({.edges = "0>1",
                   .in_flight = {2, 1},
                   .samples = 3,
                   .recompute = {0},
                   .kind = ScheduleKind::kZbH1}),
            grid(R"(
      0F0 0F1 0R0 0I0 0W0 0F2 0R1 0I1 0W1 0R2 0I2 0W2
      1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2)"));
}

TEST(BuildSchedule, BackwardsInHalvesHaveAPeriod) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {2, 2}, .samples = 20, .kind = ScheduleKind::kZbH1});
  const Schedule schedule = build_schedule(t.plan, t.graph, 20);
  EXPECT_EQ(schedule.repeats, 18);
  const auto texts = [&](const std::vector<Action>& actions) {
    std::string text;
    for (const Action& action : actions) text += to_text(action, t.plan) + " ";
    return text;
  };
  EXPECT_EQ(texts(schedule.ranks[0].prologue), "0F0 0F1 ");
  EXPECT_EQ(texts(schedule.ranks[0].period), "0I0 0W0 0F2 ");
  EXPECT_EQ(texts(schedule.ranks[1].prologue), "1F0 1I0 1F1 ");
  EXPECT_EQ(texts(schedule.ranks[1].period), "1I1 1W0 1F2 ");
}

TEST(BuildSchedule, FewerMicroBatchesThanStages) {
  EXPECT_EQ(built({.edges = "0>1 1>2", .in_flight = {3, 2, 1}, .samples = 1}), grid(R"(
      0F0 0B0
      1F0 1B0
      2F0 2B0)"));
}

TEST(BuildSchedule, AShortMiniBatchKeepsThePlansOrder) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {4, 2}, .samples = 64, .sizes = {2, 2}});
  const Schedule schedule = build_schedule(t.plan, t.graph, 5);
  EXPECT_EQ(to_text(schedule, t.plan), grid(R"(
      0F0 0F1 0B0 0F2 0B1 0B2
      1F0 1B0 1F1 1B1 1F2 1B2)"));
  EXPECT_EQ(schedule.ranks[0].prologue.back().samples, (SampleRange{4, 5}));
}

TEST(BuildForwardSchedule, EveryStageRunsForwardsOnly) {
  const TestPlan t = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 3});
  const Schedule schedule = build_forward_schedule(t.plan, t.graph, 3);
  EXPECT_FALSE(schedule.training);
  EXPECT_EQ(to_text(schedule, t.plan), grid(R"(
      0F0 0F1 0F2
      1F0 1F1 1F2)"));
  validate(schedule, t.plan, t.graph, "s");
}

TEST(BuildSchedule, PeriodIsTheSteadyState) {
  const TestPlan t =
      make_plan({.edges = "0>1", .in_flight = {4, 2}, .samples = 15, .sizes = {1, 2}});
  const Schedule schedule = build_schedule(t.plan, t.graph, 15);
  EXPECT_EQ(schedule.period_samples, 2);
  EXPECT_EQ(schedule.repeats, 5);
  const auto texts = [&](const std::vector<Action>& actions) {
    std::string text;
    for (const Action& action : actions) text += to_text(action, t.plan) + " ";
    return text;
  };
  EXPECT_EQ(texts(schedule.ranks[0].prologue), "0F0 0F1 0F2 0F3 ");
  EXPECT_EQ(texts(schedule.ranks[0].period), "0B0 0F4 0B1 0F5 ");
  EXPECT_EQ(texts(schedule.ranks[0].epilogue), "0B10 0F14 0B11 0B12 0B13 0B14 ");
  EXPECT_EQ(texts(schedule.ranks[1].period), "1B0 1F1 ");
  EXPECT_EQ(texts(schedule.ranks[1].epilogue), "1B5 1F6 1B6 1F7 1B7 ");
}

TEST(BuildSchedule, SizeDoesNotGrowWithTheNumberOfMicroBatches) {
  const TestPlan t = make_plan({.edges = "0>1 0>2 1>3 2>3",
                                .samples = 4096,
                                .sizes = {1, 2, 1, 4},
                                .in_a_row = {1, 1, 2, 1},
                                .widths = {1, 2, 2, 1},
                                .in_turn = {false, true, true, false},
                                .stages = 4});
  const Schedule few = build_schedule(t.plan, t.graph, 256);
  const Schedule many = build_schedule(t.plan, t.graph, 16 * 256);
  EXPECT_GE(few.repeats, 2);
  EXPECT_EQ(action_count(few), action_count(many));
}

TEST(BuildSchedule, FewerRepetitionsAreAShorterMiniBatch) {
  const TestPlan t = make_plan({.edges = "0>1 0>2 1>3 2>3",
                                .samples = 509,
                                .sizes = {1, 2, 1, 4},
                                .widths = {1, 2, 2, 1},
                                .in_turn = {false, true, false, false},
                                .stages = 4});
  const Schedule schedule = build_schedule(t.plan, t.graph, 509);
  ASSERT_GT(schedule.repeats, 10);
  const std::int64_t left_out = schedule.repeats - 5;
  EXPECT_EQ(with_repeats(schedule, t.plan, 5),
            build_schedule(t.plan, t.graph, 509 - left_out * schedule.period_samples));
}

// The order of one replica by its definition, without periods: the plain version.
std::vector<Action> plain_order(const Stage& stage, StageId id, int replica, bool backward,
                                bool gpipe, std::int64_t samples) {
  std::vector<Action> forwards;
  for (std::int64_t i = 0; i < micro_batch_count(stage, samples); ++i) {
    const SampleRange x = replica_samples(stage, replica, i, samples);
    if (x.empty()) continue;
    forwards.push_back({.kind = ActionKind::kForward,
                        .stage = id,
                        .replica = replica,
                        .micro_batch = i,
                        .samples = x});
  }
  if (!backward) return forwards;
  std::size_t warm_up = 0;
  for (const Action& f : forwards) {
    if (gpipe || f.micro_batch < stage.in_flight_samples / stage.micro_batch ||
        stage.in_flight_samples >= samples) {
      ++warm_up;
    }
  }
  warm_up = std::min(std::max<std::size_t>(warm_up, 1), forwards.size());
  const std::size_t k =
      std::min(static_cast<std::size_t>(stage.kfkb), std::max<std::size_t>(1, warm_up));
  std::vector<Action> order(forwards.begin(),
                            forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  std::size_t f = warm_up;
  std::size_t b = 0;
  const auto add_backward = [&] {
    if (stage.recompute) {
      order.push_back(forwards[b]);
      order.back().kind = ActionKind::kRecompute;
    }
    order.push_back(forwards[b++]);
    order.back().kind = ActionKind::kBackward;
  };
  while (b < forwards.size()) {
    for (std::size_t i = 0; i < k && b < forwards.size(); ++i) add_backward();
    for (std::size_t i = 0; i < k && f < forwards.size(); ++i) order.push_back(forwards[f++]);
  }
  return order;
}

TEST(BuildSchedule, FollowsTheDefinitionOnRandomPlans) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const PlanSpec spec = random_spec(seed, seed % 7 == 0);
    const TestPlan t = make_plan(spec);
    const std::vector<bool> backward = stages_with_backward(t.plan, t.graph);
    const Schedule schedule = build_schedule(t.plan, t.graph, spec.samples);
    std::size_t rank = 0;
    for (std::size_t s = 0; s < t.plan.stages.size(); ++s) {
      const Stage& stage = t.plan.stages[s];
      for (std::size_t d = 0; d < stage.devices.size(); ++d, ++rank) {
        std::vector<Action> found;
        for (ActionCursor at(schedule, t.plan, RankId(rank)); !at.done(); at.next()) {
          ASSERT_EQ(at.position(), static_cast<std::int64_t>(found.size()));
          found.push_back(at.action());
        }
        ASSERT_EQ(found, plain_order(stage, StageId(s), static_cast<int>(d), backward[s],
                                     spec.kind == ScheduleKind::kGpipe, spec.samples))
            << "seed " << seed << ", stage " << s << ", replica " << d;
      }
    }
  }
}

TEST(BuildSchedule, IsValidOnRandomPlansOfSharedRanks) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const TestPlan t = make_plan(random_shared_spec(seed, seed % 7 == 0));
    for (std::int64_t samples = 1; samples <= t.plan.mini_batch; samples += 1 + samples / 2) {
      const std::string where = fmt::format("seed {}, {} samples", seed, samples);
      validate(build_schedule(t.plan, t.graph, samples), t.plan, t.graph, where);
      validate(build_forward_schedule(t.plan, t.graph, samples), t.plan, t.graph, where);
    }
  }
}

TEST(BuildSchedule, IsValidOnRandomPlansInHalves) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const TestPlan t = make_plan(random_halves_spec(seed, seed % 3 == 0));
    for (std::int64_t samples = 1; samples <= t.plan.mini_batch; samples += 1 + samples / 2) {
      validate(build_schedule(t.plan, t.graph, samples), t.plan, t.graph,
               fmt::format("seed {}, {} samples", seed, samples));
    }
  }
}

TEST(BuildSchedule, IsValidOnRandomPlans) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const TestPlan t = make_plan(random_spec(seed, seed % 7 == 0));
    for (std::int64_t samples = 1; samples <= t.plan.mini_batch; samples += 1 + samples / 3) {
      validate(build_schedule(t.plan, t.graph, samples), t.plan, t.graph,
               fmt::format("seed {}, {} samples", seed, samples));
    }
  }
}

}  // namespace
}  // namespace graphpipe
