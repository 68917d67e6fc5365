#include "cli/progress.h"

#include <gtest/gtest.h>

namespace graphpipe {
namespace {

Pace::Clock::time_point at(double seconds) {
  return Pace::Clock::time_point(
      std::chrono::duration_cast<Pace::Clock::duration>(std::chrono::duration<double>(seconds)));
}

TEST(Pace, LeftIsWhatThePaceSinceTheStartComesTo) {
  Pace pace;
  pace.reach(0.25, at(10));
  pace.reach(0.5, at(12));
  EXPECT_DOUBLE_EQ(pace.left_s(at(12)), 4);
  EXPECT_DOUBLE_EQ(pace.left_s(at(13)), 3);  // and so much less since
  EXPECT_LT(pace.left_s(at(30)), 0);         // a step that takes longer than all were to take
  pace.reach(0.5, at(30));                   // not a step
  EXPECT_DOUBLE_EQ(pace.left_s(at(12.5)), 3.5);
}

TEST(Pace, IsNotKnownBeforeAStepNorWithinTheFirstSecond) {
  Pace pace;
  pace.reach(0, at(10));
  EXPECT_LT(pace.left_s(at(15)), 0);
  pace.reach(0.25, at(10.5));
  EXPECT_LT(pace.left_s(at(10.75)), 0);
  EXPECT_GE(pace.left_s(at(11.5)), 0);
  pace.reach(1, at(12));
  EXPECT_LT(pace.left_s(at(12)), 0);
}

TEST(Pace, BeginsAnewWhereLessIsDone) {
  Pace pace;
  pace.reach(0, at(0));
  pace.reach(0.75, at(100));
  pace.reach(0, at(101));
  pace.reach(0.5, at(103));
  EXPECT_DOUBLE_EQ(pace.left_s(at(103)), 2);
}

TEST(ProgressBar, HasWhatIsKnown) {
  EXPECT_EQ(progress_bar("epoch 3", 0.5, "loss 0.7", 12),
            "epoch 3 [############............]  50 %  loss 0.7  12 s left");
  EXPECT_EQ(progress_bar("graphpipe, partitions", 0, "", -1),
            "graphpipe, partitions [........................]   0 %");
  EXPECT_EQ(progress_bar("x", 2, "", 7200), "x [########################] 100 %  2.0 h left");
}

}  // namespace
}  // namespace graphpipe
