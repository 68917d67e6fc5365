// Emulated runs of plans of every kind, ranks as threads: what they do and hold is what the
// programs say. Nothing here depends on how long it takes.

#include "runtime/emulation/emulate_loop.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "job/test_folder.h"
#include "runtime/thread_ranks.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/task_seconds.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

struct Emulated {
  std::vector<std::string> lines;
  std::vector<std::vector<std::string>> actions;  // [rank]
};

Emulated emulate(const TestPlan& made, std::int64_t iterations = 1,
                 TransportKind transport = TransportKind::kAuto) {
  constexpr double kTimeoutS = 20;
  const int ranks = devices_used(made.plan);
  const TestFolder folder;
  TrainOptions options;
  options.iterations = iterations;
  options.timeout_s = kTimeoutS;
  Emulated result;
  result.actions.resize(static_cast<std::size_t>(ranks));
  auto transports = connect_threads(ranks, kTimeoutS, transport);
  run_thread_ranks(transports, [&](Transport& own) {
    std::vector<std::string>& actions = result.actions[static_cast<std::size_t>(own.rank())];
    run_emulation(
        {.options = options,
         .plan = made.plan,
         .graph = made.graph,
         .cluster = made.cluster,
         .costs = made.costs,
         .transport = own,
         .folder = folder.path(),
         .ranks_as = "threads",
         .on_action = [&](const Action& action, std::int64_t, std::int64_t,
                          const char*) { actions.push_back(to_text(action, made.plan)); }},
        [&](const std::string& line) { result.lines.push_back(line); });
  });
  return result;
}

std::vector<std::vector<std::string>> programs(const TestPlan& made) {
  const Schedule lowered = lower(build_schedule(made.plan, made.graph, schedule_samples(made.plan)),
                                 made.plan, made.graph);
  std::vector<std::vector<std::string>> result;
  for (std::size_t r = 0; r < lowered.ranks.size(); ++r) {
    std::vector<std::string>& program = result.emplace_back();
    for (ActionCursor at(lowered, made.plan, RankId(r)); !at.done(); at.next()) {
      program.push_back(to_text(at.action(), made.plan));
    }
  }
  return result;
}

// The numbers under a key of a line, as often as it comes.
std::vector<double> numbers_in(const std::string& line, const std::string& key) {
  const std::string quoted = "\"" + key + "\":";
  std::vector<double> numbers;
  for (auto at = line.find(quoted); at != std::string::npos; at = line.find(quoted, at + 1)) {
    numbers.push_back(std::strtod(line.c_str() + at + quoted.size(), nullptr));
  }
  return numbers;
}

class EmulatedPlans : public testing::TestWithParam<PlanSpec> {};

TEST_P(EmulatedPlans, DoWhatTheirProgramsSayAndHoldWhatTheVerifierCounts) {
  const TestPlan made = make_plan(GetParam());
  const Emulated emulated = emulate(made);
  EXPECT_EQ(emulated.actions, programs(made));
  ASSERT_EQ(emulated.lines.size(), 2);
  const std::vector<double> held = numbers_in(emulated.lines.back(), "measured_peak_bytes");
  ASSERT_EQ(held.size(), made.plan.stages.size());
  for (const double bytes : held) EXPECT_GT(bytes, 0);
  EXPECT_EQ(held, numbers_in(emulated.lines.back(), "predicted_peak_bytes"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EmulatedPlans,
    testing::Values(
        PlanSpec{.edges = "0>1 1>2", .samples = 4, .stages = 3},
        PlanSpec{.edges = "0>2 1>2 0>3 2>3", .samples = 3, .stages = 4},
        PlanSpec{.edges = "0>1 1>2", .samples = 4, .chain_order = true, .stages = 3},
        PlanSpec{.edges = "0>1", .samples = 6, .sizes = {2, 3}, .widths = {2, 3}, .stages = 2},
        PlanSpec{
            .edges = "0>1", .samples = 5, .widths = {2, 1}, .in_turn = {true, false}, .stages = 2},
        PlanSpec{
            .edges = "0>1 1>2", .samples = 3, .tied = {0, 2}, .recompute = {0, 1}, .stages = 3},
        PlanSpec{.edges = "0>1 1>2", .samples = 3, .kind = ScheduleKind::kZbH1, .stages = 3},
        PlanSpec{.edges = "0>1 1>2 2>3", .samples = 2, .on = {0, 1, 0, 1}, .stages = 4}),
    [](const auto& one) { return "Plan" + std::to_string(one.index); });

// One run of all mini-batches, of which the steady ones are measured.
TEST(EmulateLoop, RunsAStreamOfAnAsynchronousPlan) {
  const TestPlan made = make_plan({.edges = "0>1",
                                   .widths = {2, 1},
                                   .in_turn = {true, false},
                                   .weights = WeightPolicy::kStash,
                                   .stages = 2});
  const Emulated emulated = emulate(made);
  EXPECT_EQ(emulated.actions, programs(made));
  ASSERT_EQ(emulated.lines.size(), 2);
  const std::string& done = emulated.lines.back();
  EXPECT_EQ(numbers_in(done, "measured_peak_bytes"), numbers_in(done, "predicted_peak_bytes"));
  EXPECT_EQ(numbers_in(done, "iterations"),
            std::vector{static_cast<double>(schedule_samples(made.plan))});
  ASSERT_EQ(numbers_in(done, "measured_iteration_s").size(), 1);
  EXPECT_GT(numbers_in(done, "measured_iteration_s")[0], 0);
}

TEST(EmulateLoop, SaysHowFarTimesAreStretched) {
  const TestPlan made = make_plan({.edges = "0>1", .samples = 2, .stages = 2});
  const Emulated emulated = emulate(made, 2);
  ASSERT_EQ(emulated.lines.size(), 3);
  EXPECT_EQ(numbers_in(emulated.lines[1], "iteration"), std::vector<double>{1});
  const std::string& done = emulated.lines.back();
  EXPECT_EQ(numbers_in(done, "shortest_task_s"), std::vector<double>{1});
  ASSERT_EQ(numbers_in(done, "stretch").size(), 1);
  EXPECT_GE(numbers_in(done, "stretch")[0], kShortestEmulatedTaskS);
  EXPECT_NE(done.find(R"("ranks_as":"threads")"), std::string::npos);
}

TEST(EmulateLoop, RunsOverSocketsToo) {
  const TestPlan made = make_plan({.edges = "0>1", .samples = 3, .stages = 2});
  EXPECT_EQ(emulate(made, 1, TransportKind::kGloo).actions, programs(made));
}

}  // namespace
}  // namespace graphpipe
