#include <gtest/gtest.h>

#include "base/error.h"
#include "report/measured_trace.h"

namespace graphpipe {
namespace {

constexpr std::string_view kTwoRanks = R"json({"traceEvents":[
{"name":"1B0","cat":"backward","ph":"X","pid":1,"tid":0,"ts":3000000,"dur":2000000,
 "args":{"stage":1,"micro_batch":0,"first_sample":0,"samples":4}},
{"name":"recv 0>1 F [0,4)","cat":"wait","ph":"X","pid":1,"tid":1,"ts":0,"dur":1500000},
{"name":"0F0","cat":"forward","ph":"X","pid":0,"tid":0,"ts":0,"dur":1000000,
 "args":{"stage":0,"micro_batch":0,"first_sample":0,"samples":4}},
{"name":"memory","ph":"C","pid":0,"ts":500000,"args":{"bytes":4096}},
{"name":"process_name","ph":"M","pid":0,"args":{"name":"rank 0, device 0"}}
]})json";

TEST(MeasuredTrace, HasTasksWaitsAndMemoryByRank) {
  const MeasuredTrace trace = parse_measured_trace(std::string(kTwoRanks), "T", 2, 2);
  EXPECT_EQ(trace.iteration_s, 5);
  ASSERT_EQ(trace.tasks.size(), 2U);
  EXPECT_EQ(trace.tasks[0].kind, 'F');
  EXPECT_EQ(trace.tasks[1].rank, RankId(1));
  EXPECT_EQ(trace.tasks[1].stage, StageId(1));
  EXPECT_EQ(trace.tasks[1].start_s, 3);
  ASSERT_EQ(trace.waits.size(), 1U);
  EXPECT_EQ(trace.waits[0].action, "recv 0>1 F [0,4)");
  ASSERT_EQ(trace.memory.size(), 1U);
  EXPECT_EQ(trace.memory[0].bytes, 4096);
}

TEST(MeasuredTrace, LeavesOutThePredictionInTheSameFile) {
  std::string text(kTwoRanks);
  text.insert(text.rfind("\n]}"), R"json(,
{"name":"0F0","cat":"forward","ph":"X","pid":7,"tid":0,"ts":0,"dur":2000000,
 "args":{"stage":0,"micro_batch":0,"first_sample":0,"samples":4}},
{"name":"process_name","ph":"M","pid":7,"args":{"name":"rank 0, device 0, predicted"}})json");
  const MeasuredTrace trace = parse_measured_trace(text, "T", 2, 2);
  ASSERT_EQ(trace.tasks.size(), 2U);
  EXPECT_EQ(trace.tasks[0].end_s, 1);
}

std::string fault(std::string_view text, int ranks, int stages) {
  try {
    parse_measured_trace(std::string(text), "T", ranks, stages);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MeasuredTrace, OfAnotherPlanIsRefused) {
  EXPECT_EQ(fault(kTwoRanks, 1, 2),
            "T: /traceEvents/0/pid: expected a rank of the plan, 0 to 0, found 1; is it another "
            "plan's trace?");
  EXPECT_EQ(fault(kTwoRanks, 2, 1),
            "T: /traceEvents/0/args/stage: expected a stage of the plan, 0 to 0, found 1; is it "
            "another plan's trace?");
  EXPECT_EQ(fault(R"({"traceEvents":[]})", 1, 1),
            "T: the trace has no task; expected what train --trace writes");
}

TEST(MeasuredTrace, NothingEndsBeforeItBegins) {
  std::string text(kTwoRanks);
  text.replace(text.find("1500000"), 7, "-150000");
  EXPECT_EQ(fault(text, 2, 2),
            "T: /traceEvents/1/dur: expected a number of at least 0, found -150000");
}

}  // namespace
}  // namespace graphpipe
