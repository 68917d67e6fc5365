#include "report/idle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "schedule/build.h"
#include "schedule/drawing.h"
#include "schedule/in_flight.h"
#include "schedule/lower.h"
#include "sim/simulator.h"
#include "sim/test_pipelines.h"

namespace graphpipe {
namespace {

struct SimulatedRun {
  Pipeline pipeline;
  Schedule programs;
  Trace trace;
  TraceLinks links;
};

SimulatedRun simulated(Pipeline pipeline) {
  SimulatedRun r{std::move(pipeline), {}, {}, {}};
  const Pipeline& p = r.pipeline;
  r.programs = lower(build_schedule(p.plan, p.graph, p.plan.mini_batch), p.plan, p.graph);
  r.trace = simulate(r.programs, p.plan, p.graph, p.cluster, p.costs, {.events = true});
  r.links = link_trace(r.trace, r.programs, p.plan, p.cluster);
  return r;
}

std::string event_text(const SimulatedRun& r, int event) {
  if (event < 0) return "";
  return " " + to_text(r.trace.events[static_cast<std::size_t>(event)].action, r.pipeline.plan);
}

// "rank 1: 0-1 waits for the sender, 0F0".
std::string idle_text(const SimulatedRun& r) {
  std::string text = "\n";
  for (const IdleSpan& span : idle_spans(r.trace, r.links)) {
    text += fmt::format("rank {}: {:g}-{:g} {}{}\n", span.rank.value, span.start_s, span.end_s,
                        idle_reason_text(span.reason), event_text(r, span.task));
  }
  return text;
}

std::string path_text(const SimulatedRun& r) {
  std::string text = "\n";
  for (const PathStep& step : critical_path(r.trace, r.links)) {
    text += fmt::format("{:g}-{:g}{}{}\n", step.start_s, step.end_s,
                        step.kind == PathStep::Kind::kWait ? " wait of" : "",
                        event_text(r, step.event));
  }
  return text;
}

TEST(IdleSpans, NameWhoIsWaitedFor) {
  EXPECT_EQ(
      idle_text(simulated(make_pipeline({.edges = "0>1", .in_flight = {2, 1}, .samples = 2}))), R"(
rank 0: 2-4 waits for the sender 1B0
rank 0: 6-7 waits for the sender 1B1
rank 1: 0-1 waits for the sender 0F0
rank 1: 7-9 has nothing left to do
)");
}

TEST(IdleSpans, TellMessagesOnTheirWayFromSendersThatCompute) {
  Pipeline slow = make_pipeline({.edges = "0>1", .in_flight = {1, 1}, .samples = 1});
  slow.cluster.levels[0].link.latency_s = 0.5;
  EXPECT_EQ(idle_text(simulated(std::move(slow))), R"(
rank 0: 1-4.5 waits for the sender 1B0
rank 0: 4.5-5 waits for a message on its way
rank 1: 0-1 waits for the sender 0F0
rank 1: 1-1.5 waits for a message on its way
rank 1: 4.5-7 has nothing left to do
)");
}

TEST(CriticalPath, LeadsThroughTheTasksThatSetTheTime) {
  EXPECT_EQ(
      path_text(simulated(make_pipeline({.edges = "0>1", .in_flight = {2, 1}, .samples = 2}))), R"(
0-1 0F0
1-2 1F0
2-4 1B0
4-5 1F1
5-7 1B1
7-9 0B1
)");
}

// Between two branches it follows the longer one.
TEST(CriticalPath, TakesTheLongerBranch) {
  EXPECT_EQ(
      path_text(simulated(make_pipeline(
          {.edges = "0>2 1>2", .in_flight = {1, 1, 1}, .samples = 1, .forward_s = {1, 3, 1}}))),
      R"(
0-3 1F0
3-4 2F0
4-6 2B0
6-12 1B0
)");
}

// I1 and K1, on whatever random pipelines do: links that are busy, cores that are shared,
// replicas that sum their gradients, ranks of several stages.
TEST(IdleSpans, CoverTheTimeOfRandomPipelines) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const SimulatedRun r = simulated(random_pipeline(seed, seed % 4 == 0));
    const double all_s = r.trace.iteration_s;
    std::vector<double> now_s(r.trace.ranks.size(), 0);
    std::vector<double> idle_s(r.trace.ranks.size(), 0);
    for (const IdleSpan& span : idle_spans(r.trace, r.links)) {
      EXPECT_LT(span.start_s, span.end_s);
      EXPECT_GE(span.start_s, now_s[span.rank.index()] - 1e-9 * all_s);
      now_s[span.rank.index()] = span.end_s;
      idle_s[span.rank.index()] += span.end_s - span.start_s;
      for (const TraceEvent& event : r.trace.events) {
        if (event.rank != span.rank || !is_compute(event.action.kind)) continue;
        EXPECT_FALSE(event.start_s < span.end_s - 1e-9 * all_s &&
                     span.start_s < event.end_s - 1e-9 * all_s);
      }
    }
    for (std::size_t rank = 0; rank < idle_s.size(); ++rank) {
      EXPECT_NEAR(idle_s[rank] + r.trace.ranks[rank].busy_s, all_s, 1e-6 * all_s);
    }
    double path_s = 0;
    for (const PathStep& step : critical_path(r.trace, r.links)) {
      EXPECT_NEAR(step.start_s, path_s, 1e-6 * all_s);
      EXPECT_LT(step.start_s, step.end_s);
      path_s = step.end_s;
    }
    EXPECT_NEAR(path_s, all_s, 1e-6 * all_s);
  }
}

TEST(InFlight, StaysWithinThePlanAndEndsAtNone) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const SimulatedRun r = simulated(random_pipeline(seed));
    const auto limits = in_flight_limits(r.programs, r.pipeline.plan);
    std::vector<std::int64_t> last(limits.size(), 0);
    for (const InFlightSample& sample : in_flight_over_time(r.trace)) {
      EXPECT_LE(sample.samples, limits[sample.rank.index()]);
      last[sample.rank.index()] = sample.samples;
    }
    EXPECT_EQ(last, std::vector<std::int64_t>(limits.size(), 0));
  }
}

}  // namespace
}  // namespace graphpipe
