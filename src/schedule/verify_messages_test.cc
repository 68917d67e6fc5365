// Every fault that the verifier must find in messages and waits (V1 to V3), seeded into a good
// schedule, with the whole of what it says. Messages are for people: each names a place and what is
// wrong.

#include "schedule/test_faults.h"

namespace graphpipe {
namespace {

using testing::ElementsAre;

TEST_F(VerifyFaults, V1ASendIsMissing) {
  drop(0, "send 0>1 F [2,4)");
  drop(0, "sent 0>1 F [2,4)");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V1", "rank 1, action 1: post 0>1 F [2,4)",
                                          "rank 0 never sends it"}));
}

TEST_F(VerifyFaults, V1AReceiveIsMissing) {
  drop(1, "post 0>1 F [4,6)");
  drop(1, "recv 0>1 F [4,6)");
  drop(1, "free 0>1 F [4,6)");
  EXPECT_THAT(
      faults(),
      ElementsAre(
          Fault{"V1", "rank 0, action 13: send 0>1 F [4,6)", "rank 1 never posts a receive for it"},
          Fault{"V7", "rank 1, action 14: 1F2",
                "needs 0>1 F [4,6) from rank 0, and no receive before it brings them"}));
}

TEST_F(VerifyFaults, V1BytesDiffer) {
  action(1, "post 0>1 F [2,4)").bytes = 100;
  EXPECT_THAT(faults(), ElementsAre(Fault{"V1", "rank 1, action 1: post 0>1 F [2,4)",
                                          "expects 100 bytes, and rank 0 sends 208"}));
}

TEST_F(VerifyFaults, V1BytesAreNotTheMessages) {
  action(0, "send 0>1 F [2,4)").bytes = 100;
  action(1, "post 0>1 F [2,4)").bytes = 100;
  EXPECT_THAT(faults(), ElementsAre(Fault{
                            "V1", "rank 0, action 5: send 0>1 F [2,4)",
                            "has 100 bytes, where a message of 2 samples over this edge has 208"}));
}

TEST_F(VerifyFaults, V1AnEdgeOrAPeerThatDoesNotFit) {
  action(0, "send 0>1 F [0,2)").peer = RankId(0);
  EXPECT_THAT(faults(), ElementsAre(Fault{"V1", "rank 0, action 3: send 0>1 F [0,2)",
                                          "its other end is rank 0, which does not run stage 1"}));
  SetUp();
  action(0, "send 0>1 F [0,2)").direction = Direction::kBackward;
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V1", "rank 0, action 3: send 0>1 B [0,2)",
                                "stage 0 does not send over this edge in this direction"}));
  SetUp();
  action(0, "send 0>1 F [0,2)").edge = EdgeId(3);
  EXPECT_THAT(faults(), ElementsAre(Fault{"V1", "rank 0, action 3: send over edge 3",
                                          "there is no edge 3; the plan has 1"}));
}

TEST_F(VerifyFaults, V2MessagesAreSwapped) {
  // Two on the way at once, sent in the other order.
  move_before(0, "send 0>1 F [2,4)", "send 0>1 F [0,2)");
  move_before(0, "0F1", "send 0>1 F [2,4)");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V2", "rank 1, action 0: post 0>1 F [0,2)",
                                "is message 0 of its channel here (counted from 0), but rank 0 "
                                "sends [2,4) in that place; both ends must keep one order"}));
}

TEST_F(VerifyFaults, V2ReceivesAreSwapped) {
  swap(1, "post 0>1 F [0,2)", "post 0>1 F [2,4)");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V2", "rank 1, action 0: post 0>1 F [2,4)",
                                "is message 0 of its channel here (counted from 0), but rank 0 "
                                "sends [0,2) in that place; both ends must keep one order"}));
}

// Receives in order and sends that block: every chain with two micro-batches stops.
TEST_F(VerifyFaults, V3ReceivesAreNotPostedAhead) {
  for (const std::string samples : {"[0,2)", "[2,4)", "[4,6)"}) {
    move_before(0, "post 0>1 B " + samples, "recv 0>1 B " + samples);
    move_before(1, "post 0>1 F " + samples, "recv 0>1 F " + samples);
  }
  move_before(0, "sent 0>1 F [0,2)", "0F1");
  move_before(0, "sent 0>1 F [2,4)", "post 0>1 B [0,2)");
  move_before(1, "sent 0>1 B [0,2)", "free 1 [0,2)");
  EXPECT_THAT(
      faults(),
      ElementsAre(Fault{"V3", "rank 0, action 5: sent 0>1 F [2,4)",
                        "ranks 0, 1 wait for each other\n"
                        "  rank 0, action 5: sent 0>1 F [2,4) (until rank 1 posts its receive)\n"
                        "  rank 1, action 6: sent 0>1 B [0,2) (until rank 0 posts its receive)"}));
}

TEST_F(VerifyFaults, V3AStageWaitsForMoreThanItIsGiven) {
  use({.edges = "0>1", .in_flight = {1, 2}, .samples = 3});
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V3", "rank 0, action 4: recv 0>1 B [0,1)",
                                "ranks 0, 1 wait for each other\n"
                                "  rank 0, action 4: recv 0>1 B [0,1) (until rank 1 sends it)\n"
                                "  rank 1, action 6: recv 0>1 F [1,2) (until rank 0 sends it)"}));
}

TEST_F(VerifyFaults, V3ACycleOfThreeIsFollowed) {
  use({.edges = "0>1 1>2", .in_flight = {1, 2, 2}, .samples = 3});
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V3", "rank 0, action 4: recv 0>1 B [0,1)",
                                "ranks 0, 1 wait for each other\n"
                                "  rank 0, action 4: recv 0>1 B [0,1) (until rank 1 sends it)\n"
                                "  rank 1, action 9: recv 0>1 F [1,2) (until rank 0 sends it)"}));
  use({.edges = "0>1 1>2", .in_flight = {1, 1, 2}, .samples = 3});
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V3", "rank 1, action 9: recv 1>2 B [0,1)",
                                "ranks 1, 2 wait for each other\n"
                                "  rank 1, action 9: recv 1>2 B [0,1) (until rank 2 sends it)\n"
                                "  rank 2, action 6: recv 1>2 F [1,2) (until rank 1 sends it)"}));
}

TEST_F(VerifyFaults, V3IsFoundInAPeriodicScheduleToo) {
  use({.edges = "0>1", .in_flight = {3, 4}, .samples = 64});
  ASSERT_GT(schedule_.repeats, 4);
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V3", "rank 0, action 9: recv 0>1 B [0,1)",
                                "ranks 0, 1 wait for each other\n"
                                "  rank 0, action 9: recv 0>1 B [0,1) (until rank 1 sends it)\n"
                                "  rank 1, action 14: recv 0>1 F [3,4) (until rank 0 sends it)"}));
}

}  // namespace
}  // namespace graphpipe
