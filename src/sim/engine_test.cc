// Programs written out by hand, to look at what lowered plans do not show.

#include <gtest/gtest.h>

#include "base/error.h"
#include "sim/program.h"
#include "sim/simulator.h"
#include "sim/test_pipelines.h"

namespace graphpipe {
namespace {

// Two stages joined by an edge, on ranks 0 and 1; programs are written by the test.
class Programming : public ::testing::Test {
 protected:
  Programming() : p_(make_pipeline({"0>1", {4, 4}, 4})) {
    schedule_.lowered = true;
    schedule_.samples = 4;
    for (int r = 0; r < 2; ++r) schedule_.ranks.push_back({DeviceId(r), {}, {}, {}});
  }

  static Action task(ActionKind kind, int rank, std::int64_t i) {
    Action action;
    action.kind = kind;
    action.stage = StageId(rank);
    action.micro_batch = i;
    action.samples = {i, i + 1};
    return action;
  }
  Action message(ActionKind kind, int rank, std::int64_t i) const {
    Action action = task(kind, rank, i);
    action.edge = EdgeId(0);
    action.peer = RankId(1 - rank);
    action.bytes = 100;
    return action;
  }
  void add(int rank, const Action& action) {
    schedule_.ranks[static_cast<std::size_t>(rank)].prologue.push_back(action);
  }
  Trace run() {
    return simulate(schedule_, p_.plan, p_.graph, p_.cluster, p_.costs, {.events = true});
  }

  Pipeline p_;
  Schedule schedule_;
};

TEST_F(Programming, AMessageStartsWhenItsReceiveIsPosted) {
  add(0, message(ActionKind::kStartSend, 0, 0));
  add(0, message(ActionKind::kWaitSend, 0, 0));
  add(0, task(ActionKind::kForward, 0, 0));
  add(1, task(ActionKind::kForward, 1, 0));
  add(1, message(ActionKind::kPostReceive, 1, 0));
  add(1, message(ActionKind::kWaitReceive, 1, 0));
  p_.cluster.levels[0].link = {.bandwidth_bytes_per_s = 50, .latency_s = 10};
  const Trace trace = run();
  ASSERT_EQ(trace.events.size(), 3U);
  // Posted at 1, when rank 1's forward has ended; it leaves at 3 and arrives at 13.
  EXPECT_EQ(trace.events[1].action.kind, ActionKind::kStartSend);
  EXPECT_DOUBLE_EQ(trace.events[1].start_s, 1);
  EXPECT_DOUBLE_EQ(trace.events[1].end_s, 13);
  // The sender waits until it has left, not until it has arrived.
  EXPECT_EQ(trace.events[2].rank, RankId(0));
  EXPECT_DOUBLE_EQ(trace.events[2].start_s, 3);
  EXPECT_DOUBLE_EQ(trace.iteration_s, 13);
}

TEST_F(Programming, ReductionsOfARankFollowOneAnother) {
  for (int b = 0; b < 2; ++b) schedule_.buckets.push_back({{}, {RankId(0), RankId(1)}, 100});
  p_.cluster.levels[0].link.bandwidth_bytes_per_s = 50;  // a ring of two: 2 s a bucket
  for (int rank = 0; rank < 2; ++rank) {
    for (const ActionKind kind : {ActionKind::kStartReduce, ActionKind::kWaitReduce}) {
      for (int b = 0; b < 2; ++b) {
        Action action = task(kind, rank, 0);
        action.bucket = b;
        add(rank, action);
        // Rank 1 computes between the starts: beside the first reduction.
        if (rank == 1 && b == 0 && kind == ActionKind::kStartReduce) {
          add(1, task(ActionKind::kForward, 1, 0));
        }
      }
    }
  }
  EXPECT_DOUBLE_EQ(run().iteration_s, 4);
}

TEST_F(Programming, AStallNamesRanksAndActions) {
  add(0, task(ActionKind::kForward, 0, 0));
  add(0, message(ActionKind::kPostReceive, 0, 0));
  add(0, message(ActionKind::kWaitReceive, 0, 0));
  add(1, message(ActionKind::kWaitSend, 1, 2));
  try {
    run();
    FAIL() << "no stall";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(),
                 "the programs stall 1 s into the iteration\n"
                 "  rank 0 waits at action 2: recv 0>1 F [0,1)\n"
                 "  rank 1 waits at action 0: sent 0>1 F [2,3)");
  }
}

TEST_F(Programming, AnEmptyProgramTakesNoTime) {
  const Trace trace = run();
  EXPECT_EQ(trace.iteration_s, 0);
  EXPECT_EQ(trace.ranks.size(), 2U);
}

TEST(Clock, HoldsDecimalDurationsExactly) {
  const Clock clock(2);
  EXPECT_EQ(clock.ticks(0.1) + clock.ticks(0.2), clock.ticks(0.3));
  EXPECT_EQ(clock.seconds(clock.ticks(0.3)), 0.3);
  EXPECT_EQ(clock.seconds(clock.ticks(2)), 2);
}

TEST(Clock, CoversShortAndLongDurations) {
  EXPECT_EQ(Clock(3e-7).ticks(3e-7), 3000000000);
  EXPECT_EQ(Clock(3e15).ticks(3e15), 3000000000);
  EXPECT_EQ(Clock(3e15).seconds(3000000000), 3e15);
  EXPECT_EQ(Clock(0).ticks(0), 0);
}

}  // namespace
}  // namespace graphpipe
