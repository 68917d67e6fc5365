#include "report/headline.h"

#include <gtest/gtest.h>

namespace graphpipe {
namespace {

ComparedPlan compared(const std::string& planner, int depth, std::int64_t micro_batch,
                      double iteration_s, double bubble) {
  Plan plan;
  plan.planner = planner;
  for (int s = 0; s < depth; ++s) {
    Stage stage;
    stage.micro_batch = micro_batch;
    plan.stages.push_back(stage);
    if (s > 0) plan.edges.push_back({.from = StageId(s - 1), .to = StageId(s), .tensors = {}});
  }
  plan.estimate.iteration_s = iteration_s;
  plan.estimate.bubble_fraction = bubble;
  return {planner, "ok", "", plan};
}

TEST(Headline, SaysWhoIsFasterAndWhatDiffers) {
  EXPECT_EQ(headline({compared("gpipe", 4, 4, 3, 0.4), compared("pipedream", 4, 4, 2, 0.3),
                      compared("graphpipe", 2, 16, 1, 0.125)}),
            "graphpipe is 2.00x as fast as pipedream: depth 2 instead of 4; micro-batch 16 instead "
            "of 4; bubble 12.5 % instead of 30.0 %");
}

TEST(Headline, SaysWhatTheGainCosts) {
  EXPECT_EQ(
      headline({compared("graphpipe", 4, 4, 1, 0.4), compared("gpipe", 2, 8, 2, 0.3)}),
      "graphpipe is 2.00x as fast as gpipe at the cost of depth 4 instead of 2; micro-batch 4 "
      "instead of 8; bubble 40.0 % instead of 30.0 %");
}

TEST(Headline, DoesNotTakeATieForAGain) {
  EXPECT_EQ(
      headline({compared("graphpipe", 4, 4, 1, 0.1), compared("pipedream", 4, 4, 1.001, 0.1)}),
      "graphpipe, pipedream are equally fast");
  EXPECT_EQ(headline({compared("graphpipe", 4, 4, 1, 0.1), compared("piper", 4, 4, 1.001, 0.1),
                      compared("gpipe", 4, 4, 1.5, 0.1)}),
            "graphpipe is 1.50x as fast as gpipe (so is piper)");
}

TEST(Headline, NeedsTwoPlans) {
  ComparedPlan none{"piper", "infeasible", "no", {}};
  EXPECT_EQ(headline({compared("graphpipe", 4, 4, 1, 0.1), none}), "");
}

}  // namespace
}  // namespace graphpipe
