#include "schedule/trace_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

using Json = nlohmann::json;

TraceEvent compute(int rank, ActionKind kind, std::int64_t micro_batch, double start_s) {
  TraceEvent event{.rank = RankId(rank), .start_s = start_s, .end_s = start_s + 1};
  event.action = {.kind = kind, .stage = StageId(rank), .micro_batch = micro_batch};
  event.action.samples = {micro_batch, micro_batch + 1};
  return event;
}

TraceEvent message(int from, Direction direction, std::int64_t sample, double start_s,
                   double end_s) {
  TraceEvent event{.rank = RankId(from), .start_s = start_s, .end_s = end_s};
  event.action = {.kind = ActionKind::kStartSend, .stage = StageId(from), .micro_batch = sample};
  event.action.samples = {sample, sample + 1};
  event.action.edge = EdgeId(0);
  event.action.direction = direction;
  event.action.peer = RankId(1 - from);
  event.action.bytes = 100;
  return event;
}

class ChromeTrace : public testing::Test {
 protected:
  // Chain of two, two samples; both forward messages are on the way at once.
  void SetUp() override {
    t_ = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 2});
    trace_.iteration_s = 8;
    trace_.ranks.resize(2);
    trace_.events = {
        compute(0, ActionKind::kForward, 0, 0),    message(0, Direction::kForward, 0, 1, 3),
        compute(0, ActionKind::kForward, 1, 1),    message(0, Direction::kForward, 1, 2, 4),
        compute(1, ActionKind::kForward, 0, 3),    compute(1, ActionKind::kBackward, 0, 4),
        message(1, Direction::kBackward, 0, 5, 6), compute(0, ActionKind::kBackward, 0, 6)};
    trace_.memory = {{RankId(0), 0.5, 4096}};
    const Schedule schedule = build_schedule(t_.plan, t_.graph, 2);
    events_ = Json::parse(to_chrome_trace(trace_, schedule, t_.plan)).at("traceEvents");
  }

  // Events with this "ph" and, where given, "cat".
  std::vector<Json> events(const std::string& phase, const std::string& category = "") const {
    std::vector<Json> found;
    for (const Json& event : events_) {
      if (event.at("ph") != phase) continue;
      if (category.empty() || event.value("cat", "") == category) found.push_back(event);
    }
    return found;
  }

  TestPlan t_;
  Trace trace_;
  Json events_;
};

TEST_F(ChromeTrace, ComputesStandOnTheirRanksTrack) {
  const Json expected = {
      {"name", "1F0"},
      {"cat", "forward"},
      {"ph", "X"},
      {"pid", 1},
      {"tid", 0},
      {"ts", 3e6},
      {"dur", 1e6},
      {"args", {{"stage", 1}, {"micro_batch", 0}, {"first_sample", 0}, {"samples", 1}}}};
  ASSERT_EQ(events("X", "forward").size(), 3U);
  EXPECT_EQ(events("X", "forward")[2], expected);
  EXPECT_EQ(events("X", "backward").size(), 2U);
}

TEST_F(ChromeTrace, MessagesThatOverlapStandSideBySide) {
  const std::vector<Json> messages = events("X", "message");
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].at("name"), "send 0>1 F [0,1)");
  EXPECT_EQ(messages[0].at("tid"), 1);
  EXPECT_EQ(messages[1].at("tid"), 2);
  EXPECT_EQ(messages[2].at("pid"), 1);
  EXPECT_EQ(messages[2].at("tid"), 1);
  EXPECT_EQ(messages[2].at("args").at("bytes"), 100);
}

TEST_F(ChromeTrace, FlowsLeadFromMessagesToTheirReaders) {
  const std::vector<Json> starts = events("s");
  const std::vector<Json> ends = events("f");
  // The message of sample 1 has no reader in this trace.
  ASSERT_EQ(starts.size(), 2U);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(starts[0].at("ts"), 1e6);
  EXPECT_EQ(ends[0].at("pid"), 1);
  EXPECT_EQ(ends[0].at("ts"), 3e6);  // 1F0
  EXPECT_EQ(starts[0].at("id"), ends[0].at("id"));
  EXPECT_EQ(ends[1].at("pid"), 0);
  EXPECT_EQ(ends[1].at("ts"), 6e6);  // 0B0
  EXPECT_NE(starts[0].at("id"), starts[1].at("id"));
}

TEST_F(ChromeTrace, MemoryAndSamplesInFlightAreCounters) {
  std::vector<std::string> counts;
  for (const Json& event : events("C")) {
    counts.push_back(fmt::format("{} {} {:g}: {}", event.at("name").get<std::string>(),
                                 event.at("pid").get<int>(), event.at("ts").get<double>() / 1e6,
                                 event.at("args").dump()));
  }
  EXPECT_EQ(counts, (std::vector<std::string>{
                        "memory 0 0.5: {\"bytes\":4096}", "in flight 0 0: {\"samples\":1}",
                        "in flight 0 1: {\"samples\":2}", "in flight 1 3: {\"samples\":1}",
                        "in flight 1 5: {\"samples\":0}", "in flight 0 7: {\"samples\":1}"}));
}

TEST_F(ChromeTrace, APredictionStandsBesideWhatWasMeasured) {
  const Schedule schedule = build_schedule(t_.plan, t_.graph, 2);
  const std::string measured = to_chrome_trace(trace_, schedule, t_.plan);
  const std::string predicted = to_chrome_trace(trace_, schedule, t_.plan, predicted_processes(10));
  const Json both = Json::parse(join_chrome_traces(measured, predicted)).at("traceEvents");
  ASSERT_EQ(both.size(), 2 * events_.size());
  EXPECT_EQ(both[1], events_[1]);
  Json forward;  // 0F1, a second after the start
  for (std::size_t i = events_.size(); i < both.size(); ++i) {
    if (both[i].at("name") == "0F1") forward = both[i];
  }
  ASSERT_FALSE(forward.is_null());
  EXPECT_EQ(forward.at("pid"), 1'000'000);
  EXPECT_EQ(forward.at("ts"), 1e7);
  EXPECT_NE(both.dump().find("rank 0, device 0, predicted"), std::string::npos);
}

TEST_F(ChromeTrace, TracksHaveNames) {
  std::vector<std::string> names;
  for (const Json& event : events("M")) {
    if (event.at("name") != "process_sort_index") names.push_back(event.at("args").at("name"));
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"rank 0, device 0", "compute", "messages 1", "messages 2",
                                      "rank 1, device 1", "compute", "messages 1"}));
}

TEST(ChromeTraceOfNothing, IsValid) {
  const TestPlan t = make_plan({.edges = "", .in_flight = {1}, .samples = 1});
  const Schedule schedule = build_schedule(t.plan, t.graph, 1);
  EXPECT_EQ(Json::parse(to_chrome_trace({}, schedule, t.plan)).at("traceEvents").size(), 3U);
}

TEST(Trace, BubbleIsTheShareOfIdleTime) {
  Trace trace;
  EXPECT_EQ(trace.bubble_fraction(), 0);
  trace.iteration_s = 10;
  trace.ranks = {{.busy_s = 10}, {.busy_s = 5}};
  EXPECT_DOUBLE_EQ(trace.bubble_fraction(), 0.25);
  trace.samples = 40;
  EXPECT_DOUBLE_EQ(trace.throughput_samples_per_s(), 4);
}

}  // namespace
}  // namespace graphpipe
