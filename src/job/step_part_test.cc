#include "job/step_part.h"

#include <gtest/gtest.h>

namespace graphpipe {
namespace {

// Mini-batches of 10 samples, every third of 4.
std::int64_t samples(std::int64_t iteration) { return iteration % 3 == 2 ? 4 : 10; }

TEST(StepPart, AloneAnIterationIsAWholeStep) {
  EXPECT_EQ(step_part(1, 0, 0, samples), (StepPart{0, 10, true, true}));
  EXPECT_EQ(step_part(1, 5, 6, samples), (StepPart{5, 4, true, true}));
}

TEST(StepPart, SeveralIterationsShareAStepAndItsSamples) {
  EXPECT_EQ(step_part(2, 0, 0, samples), (StepPart{0, 20, true, false}));
  EXPECT_EQ(step_part(2, 1, 0, samples), (StepPart{0, 20, false, true}));
  EXPECT_EQ(step_part(2, 2, 0, samples), (StepPart{1, 14, true, false}));
  EXPECT_EQ(step_part(3, 4, 0, samples), (StepPart{1, 24, false, false}));
}

TEST(StepPart, TheLastStepIsMadeOfWhatIsLeft) {
  EXPECT_EQ(step_part(4, 4, 6, samples), (StepPart{1, 14, true, false}));
  EXPECT_EQ(step_part(4, 5, 6, samples), (StepPart{1, 14, false, true}));
  EXPECT_EQ(step_part(4, 4, 5, samples), (StepPart{1, 10, true, true}));
  EXPECT_EQ(step_part(4, 0, 1, samples), (StepPart{0, 10, true, true}));
}

}  // namespace
}  // namespace graphpipe
