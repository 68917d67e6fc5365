#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "report/text_report.h"

namespace graphpipe {
namespace {

// A plan whose stage s runs on device s.
Plan plan_of(int stages) {
  Plan plan;
  for (int s = 0; s < stages; ++s) {
    Stage stage;
    stage.devices = {DeviceId(s)};
    plan.stages.push_back(stage);
  }
  return plan;
}

// A line a rank: tasks with their durations in seconds, ". 2" where it idles.
//   F0 1 . 5 B0 2
Trace trace_of(const std::vector<std::string>& lines) {
  Trace trace;
  for (std::size_t r = 0; r < lines.size(); ++r) {
    const std::vector<std::string> words = split_text(lines[r], ' ');
    double now_s = 0;
    for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
      const double duration_s = parse_number(words[i + 1], lines[r]);
      if (words[i] != ".") {
        TraceEvent event{RankId(r), {}, now_s, now_s + duration_s};
        event.action.kind = words[i][0] == 'F' ? ActionKind::kForward : ActionKind::kBackward;
        event.action.stage = StageId(r);
        event.action.micro_batch = parse_integer(words[i].substr(1), lines[r]);
        trace.events.push_back(event);
      }
      now_s += duration_s;
    }
    trace.iteration_s = std::max(trace.iteration_s, now_s);
  }
  return trace;
}

Schedule schedule_of(int ranks) {
  Schedule schedule;
  for (int r = 0; r < ranks; ++r) schedule.ranks.push_back({DeviceId(r), {}, {}, {}});
  return schedule;
}

std::string grid(const std::vector<std::string>& lines, int columns) {
  const auto ranks = static_cast<int>(lines.size());
  return fmt::format("\n{}",
                     schedule_grid(trace_of(lines), schedule_of(ranks), plan_of(ranks), columns));
}

TEST(ScheduleGrid, ShowsEveryTaskWhereItRuns) {
  EXPECT_EQ(grid({"F0 1 F1 1 . 1 B0 2 . 1 B1 2", "F0 0 . 1 F0 1 B0 2 F1 1 B1 2 . 1"}, 100), R"(
                0 s               8.00 s
rank 0 stage 0  F0 F1 ...B0--- ...B1---
rank 1 stage 1  ...F0 B0--- F1 B1--- ...
F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is 333 ms
)");
}

TEST(ScheduleGrid, NarrowsCellsBeforeItCuts) {
  EXPECT_EQ(grid({"F0 1 F1 1 . 1 B0 2 . 1 B1 2"}, 34), R"(
                0 s       8.00 s
rank 0 stage 0  F0F1..B0- ..B1-
F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is 500 ms
)");
}

TEST(ScheduleGrid, CutsAfterTheWarmUpAndShowsTheEnd) {
  std::string line = "F0 1 F1 1 F2 1";
  for (int i = 0; i < 30; ++i) line += fmt::format(" B{} 2 F{} 1", i, i + 3);
  EXPECT_EQ(grid({line, ". 1 " + line}, 80), R"(
                0 s                           9.00 s   88.0 s            94.0 s
rank 0 stage 0  F0- F1- F2- B0----- F3- B1----- F4-  ~ B28 F31 B29---- F32 ....
rank 1 stage 1  ....F0- F1- F2- B0----- F3- B1-----  ~ B28---- F31 B29---- F32
F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is 250 ms
~ stands for the time between that is not shown
)");
}

TEST(ScheduleGrid, DrawsLongLabelsAsTheirLetterWhereTheyDoNotFit) {
  EXPECT_EQ(grid({"F0 1 F100 1 F2 1 F3 1 F4 1 F5 1 F6 1 F7 1 F8 1 B100 4"}, 44), R"(
                0 s                 13.0 s
rank 0 stage 0  F0F F2F3F4F5F6F7F8B100---
F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is 500 ms
)");
}

TEST(ScheduleGrid, SaysWhatIsTooShortToBeDrawn) {
  EXPECT_EQ(grid({"F0 1 F1 1 F2 0.01 B0 2 B1 2 B2 2"}, 80), R"(
                0 s               8.01 s
rank 0 stage 0  F0 F1 B0--- B1--- B2---
F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is 333 ms
1 task is too short to be drawn
)");
}

TEST(ScheduleGrid, NamesTheStageOfEachTaskWhereARankHasSeveral) {
  Plan plan = plan_of(2);
  plan.stages[1].devices = {DeviceId(0)};
  Trace trace = trace_of({"F0 1 F0 1 B0 2 B0 2"});
  trace.events[1].action.stage = StageId(1);
  trace.events[2].action.stage = StageId(1);
  EXPECT_EQ(fmt::format("\n{}", schedule_grid(trace, schedule_of(1), plan, 80)), R"(
                   0 s               6.00 s
rank 0 stages 0,1  0F0 1F0 1B0---- 0B0----
F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is 250 ms
)");
}

TEST(ScheduleGrid, DrawsRanksThatDoTheSameAsOneRowWhereThereAreMany) {
  Plan plan = plan_of(1);
  plan.stages[0].devices.clear();
  for (int device = 0; device < 17; ++device) plan.stages[0].devices.emplace_back(device);
  std::vector<std::string> rows(17, "F0 1 B0 2");
  rows[4] = "F0 1 B0 3";
  Trace trace = trace_of(rows);
  for (TraceEvent& event : trace.events) event.action.stage = StageId(0);
  EXPECT_EQ(fmt::format("\n{}", schedule_grid(trace, schedule_of(17), plan, 80)), R"(
                   0 s   4.00 s
rank 0-3 stage 0   F0 B0--- ...
rank 4 stage 0     F0 B0------
rank 5-16 stage 0  F0 B0--- ...
F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is 333 ms
)");
}

TEST(ScheduleGrid, OfATraceWithoutEventsIsItsRanks) {
  EXPECT_EQ(schedule_grid({}, schedule_of(1), plan_of(1), 80), "\nrank 0 stage 0\n");
}

}  // namespace
}  // namespace graphpipe
