// The rule for in-flight counts against every choice of counts, where messages take no time and
// all stages take the same a sample: on small graphs no choice is faster.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "in_flight/even_pipeline.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

constexpr int kMiniBatch = 16;
constexpr int kMostTried = 12;

std::string case_name(const std::string& graph, const std::vector<Turn>& turns) {
  std::string text = graph + ", sizes and k";
  for (const Turn& turn : turns) text += fmt::format(" {}x{}", turn.size, turn.in_a_row);
  return text;
}

TEST(LeastInFlight, NoOtherCountsAreFasterOnGraphsOfUpToFourStages) {
  int cases = 0;
  for (const auto& [name, before] : small_stage_graphs()) {
    const TestProblem test = even_pipeline_problem(before, kMiniBatch);
    for (const std::vector<Turn>& turns :
         all_choices(std::vector<Turn>{{1, 1}, {2, 1}, {4, 1}}, before.size())) {
      const Plan plan = even_pipeline_plan(test, turns);
      EvenPipeline pipeline(before, turns, kMiniBatch);
      const int rule_s = pipeline.iteration_s(counts_of(plan));
      EXPECT_EQ(rule_s, best_of_all_counts_s(pipeline, turns, kMostTried, kMiniBatch))
          << case_name(name, turns);
      const double simulated_s =
          simulate_plan(plan, test.graph, test.cluster, test.costs).iteration_s;
      EXPECT_NEAR(simulated_s, rule_s, 1e-6) << case_name(name, turns);
      ++cases;
    }
  }
  EXPECT_EQ(cases, 9 + 4 * 27 + 6 * 81);
}

TEST(LeastInFlight, NoOtherCountsAreFasterOnGraphsOfUpToThreeStagesWithSeveralInARow) {
  for (const auto& [name, before] : small_stage_graphs()) {
    if (before.size() > 3) continue;
    const TestProblem test = even_pipeline_problem(before, kMiniBatch);
    for (const std::vector<Turn>& turns :
         all_choices(std::vector<Turn>{{1, 1}, {1, 2}, {2, 1}, {2, 2}}, before.size())) {
      EvenPipeline pipeline(before, turns, kMiniBatch);
      EXPECT_EQ(pipeline.iteration_s(counts_of(even_pipeline_plan(test, turns))),
                best_of_all_counts_s(pipeline, turns, kMostTried, kMiniBatch))
          << case_name(name, turns);
    }
  }
}

// What the list of exceptions of bench/in_flight is made with.
TEST(EvenPipeline, TakesWhatTheSimulatorTakesForSeveralForwardsInARow) {
  const std::vector<Turn> choices = {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}};
  for (const auto& [name, before] : small_stage_graphs()) {
    if (before.size() > 3) continue;
    const TestProblem test = even_pipeline_problem(before, kMiniBatch);
    for (const std::vector<Turn>& turns : all_choices(choices, before.size())) {
      const Plan plan = even_pipeline_plan(test, turns);
      EvenPipeline pipeline(before, turns, kMiniBatch);
      const int plain_s = pipeline.iteration_s(counts_of(plan));
      ASSERT_NE(plain_s, EvenPipeline::kStalls) << case_name(name, turns);
      const double simulated_s =
          simulate_plan(plan, test.graph, test.cluster, test.costs).iteration_s;
      EXPECT_NEAR(simulated_s, plain_s, 1e-6) << case_name(name, turns);
    }
  }
}

}  // namespace
}  // namespace graphpipe
