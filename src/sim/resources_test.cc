// What holds what, and for how long: every case is small enough to be worked out.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "plan/stage_memory.h"
#include "sim/simulator.h"
#include "sim/test_pipelines.h"

namespace graphpipe {
namespace {

Trace run(const Pipeline& p) {
  validate(p.plan, p.graph, p.cluster, "plan");
  return simulate_plan(p.plan, p.graph, p.cluster, p.costs, {.events = true});
}

bool computes(const TraceEvent& event) {
  return event.action.kind == ActionKind::kForward || event.action.kind == ActionKind::kBackward;
}

// "0F0 0-1, 0B0 1-3": what is computed, by start, then rank.
std::string computed(const Trace& trace) {
  std::string text;
  for (const TraceEvent& event : trace.events) {
    if (!computes(event)) continue;
    text += fmt::format("{}{}{}{} {:g}-{:g}", text.empty() ? "" : ", ", event.action.stage.value,
                        event.action.kind == ActionKind::kForward ? "F" : "B",
                        event.action.micro_batch, event.start_s, event.end_s);
  }
  return text;
}

// "0>1 1-2": messages forward, from their start to their arrival.
std::string sent_forward(const Trace& trace) {
  std::string text;
  for (const TraceEvent& event : trace.events) {
    if (event.action.kind != ActionKind::kStartSend) continue;
    if (event.action.direction == Direction::kBackward) continue;
    text += fmt::format("{}{}>{} {:g}-{:g}", text.empty() ? "" : ", ", event.rank.value,
                        event.action.peer.value, event.start_s, event.end_s);
  }
  return text;
}

// So that a message of one sample over any edge of these pipelines takes so long.
void set_transfer(Pipeline& p, std::size_t level, double seconds) {
  const std::int64_t bytes = message_bytes(p.graph, p.plan.edges.at(0), 1, false);
  p.cluster.levels.at(level).link.bandwidth_bytes_per_s = static_cast<double>(bytes) / seconds;
}

TEST(Resources, ARankComputesOneTaskAtATime) {
  EXPECT_EQ(computed(run(make_pipeline({"", {1}, 2}))), "0F0 0-1, 0B0 1-3, 0F1 3-4, 0B1 4-6");
}

TEST(Resources, RanksThatShareACoreTakeItInTheOrderOfAsking) {
  Pipeline p = make_pipeline({"", {1, 1}, 1});
  p.cluster.cores_per_node = 1;
  EXPECT_EQ(computed(run(p)), "0F0 0-1, 1F0 1-2, 0B0 2-4, 1B0 4-6");
}

TEST(Resources, RanksWithACoreEachDoNotWait) {
  Pipeline p = make_pipeline({"", {1, 1}, 1});
  p.cluster.cores_per_node = 2;
  EXPECT_EQ(computed(run(p)), "0F0 0-1, 1F0 0-1, 0B0 1-3, 1B0 1-3");
}

TEST(Resources, CoresAreSharedWithinANodeOnly) {
  Pipeline p = make_pipeline({"", {1, 1, 1, 1}, 1});
  p.cluster.levels = {{.name = "node", .group_size = 2, .link = {kFreeBandwidth, 0}},
                      {.name = "cluster", .group_size = 2, .link = {kFreeBandwidth, 0}}};
  p.cluster.cores_per_node = 1;
  EXPECT_EQ(computed(run(p)),
            "0F0 0-1, 2F0 0-1, 1F0 1-2, 3F0 1-2, 0B0 2-4, 2B0 2-4, 1B0 4-6, 3B0 4-6");
}

TEST(Resources, WaitingForACoreIsNotBusy) {
  Pipeline p = make_pipeline({"", {1, 1}, 1});
  p.cluster.cores_per_node = 1;
  const Trace trace = run(p);
  EXPECT_DOUBLE_EQ(trace.iteration_s, 6);
  EXPECT_DOUBLE_EQ(trace.ranks[0].busy_s, 3);
  EXPECT_DOUBLE_EQ(trace.ranks[1].busy_s, 3);
}

TEST(Resources, AMessageTakesLatencyAndBytesOverBandwidth) {
  Pipeline p = make_pipeline({"0>1", {1, 1}, 1});
  set_transfer(p, 0, 0.5);
  p.cluster.levels[0].link.latency_s = 0.25;
  EXPECT_EQ(sent_forward(run(p)), "0>1 1-1.75");
}

TEST(Resources, ARankSendsOneMessageAtATime) {
  Pipeline p = make_pipeline({"0>1 0>2", {1, 1, 1}, 1});
  set_transfer(p, 0, 1);
  EXPECT_EQ(sent_forward(run(p)), "0>1 1-2, 0>2 2-3");
}

TEST(Resources, LatencyHoldsNoPort) {
  Pipeline p = make_pipeline({"0>1 0>2", {1, 1, 1}, 1});
  set_transfer(p, 0, 1);
  p.cluster.levels[0].link.latency_s = 5;
  EXPECT_EQ(sent_forward(run(p)), "0>1 1-7, 0>2 2-8");
}

TEST(Resources, ARankReceivesOneMessageAtATime) {
  Pipeline p = make_pipeline({"0>2 1>2", {1, 1, 1}, 1});
  set_transfer(p, 0, 1);
  EXPECT_EQ(sent_forward(run(p)), "0>2 1-2, 1>2 2-3");
}

TEST(Resources, OfTwoThatWaitTheMessageReadyFirstGoesFirst) {
  // 0 sends first; meanwhile 2 is ready before 1.
  Pipeline p = make_pipeline({.edges = "0>3 1>3 2>3",
                              .in_flight = {1, 1, 1, 1},
                              .samples = 1,
                              .forward_s = {0.25, 1, 0.5, 1}});
  set_transfer(p, 0, 1);
  EXPECT_EQ(sent_forward(run(p)), "0>3 0.25-1.25, 2>3 1.25-2.25, 1>3 2.25-3.25");
}

TEST(Resources, DirectionsDoNotDisturbEachOther) {
  // While 0 sends micro-batch 1, 1 sends the gradient of micro-batch 0 back.
  Pipeline p = make_pipeline({"0>1", {3, 1}, 3});
  set_transfer(p, 0, 2);
  const Trace trace = run(p);
  double both_s = 0;
  for (const TraceEvent& there : trace.events) {
    for (const TraceEvent& back : trace.events) {
      if (there.action.kind != ActionKind::kStartSend || there.rank.value != 0) continue;
      if (back.action.kind != ActionKind::kStartSend || back.rank.value != 1) continue;
      both_s +=
          std::max(0.0, std::min(there.end_s, back.end_s) - std::max(there.start_s, back.start_s));
    }
  }
  EXPECT_GT(both_s, 0);
}

// Devices 0 and 1 on one node, 2 and 3 on another.
Pipeline two_pairs(bool shared) {
  Pipeline p = make_pipeline({"0>2 1>3", {1, 1, 1, 1}, 1});
  p.cluster.levels = {
      {.name = "node", .group_size = 2, .link = {kFreeBandwidth, 0}},
      {.name = "cluster", .group_size = 2, .link = {kFreeBandwidth, 0}, .shared = shared}};
  set_transfer(p, 1, 1);
  return p;
}

TEST(Resources, ASharedPortCarriesOneMessageAtATime) {
  EXPECT_EQ(sent_forward(run(two_pairs(true))), "0>2 1-2, 1>3 2-3");
}

TEST(Resources, PortsThatAreNotSharedCarryThemTogether) {
  EXPECT_EQ(sent_forward(run(two_pairs(false))), "0>2 1-2, 1>3 1-2");
}

TEST(Resources, ASharedPortIsNotNeededInsideTheNode) {
  Pipeline p = make_pipeline({"0>1 2>3", {1, 1, 1, 1}, 1});
  p.cluster.levels = two_pairs(true).cluster.levels;
  set_transfer(p, 0, 1);
  EXPECT_EQ(sent_forward(run(p)), "0>1 1-2, 2>3 1-2");
}

TEST(Resources, EveryNodeHasItsOwnSharedPort) {
  Pipeline p = make_pipeline({"0>2 4>6", {1, 1, 1, 1, 1, 1, 1}, 1});
  p.cluster.levels = two_pairs(true).cluster.levels;
  p.cluster.levels[1].group_size = 4;
  EXPECT_EQ(sent_forward(run(p)), "0>2 1-2, 4>6 1-2");
}

TEST(Resources, FartherMessagesPassTheNearerSharedPortsToo) {
  // Two nodes of two to a rack: 0 sends to the other rack, 1 to the other node.
  Pipeline p = make_pipeline({"1>3 0>4", {1, 1, 1, 1, 1}, 1});
  p.cluster.levels = two_pairs(true).cluster.levels;
  p.cluster.levels.push_back(p.cluster.levels[1]);
  p.cluster.levels[2].shared = false;
  EXPECT_EQ(sent_forward(run(p)), "0>4 1-2, 1>3 2-3");
}

// As a measured profile does: the link's own figures count for nothing.
class MeasuredTransfers : public LinearCosts {
 public:
  explicit MeasuredTransfers(const LinearCosts& costs) : LinearCosts(costs) {}
  double transfer_s(std::int64_t bytes, const Link& /*link*/) const override {
    return bytes > 0 ? 0.75 : 0.5;
  }
};

TEST(Resources, ACostModelMayPriceTransfersItself) {
  Pipeline p = make_pipeline({"0>1 0>2", {1, 1, 1}, 1});
  p.cluster.levels[0].link = {1, 7};
  const Trace trace =
      simulate_plan(p.plan, p.graph, p.cluster, MeasuredTransfers(p.costs), {.events = true});
  EXPECT_EQ(sent_forward(trace), "0>1 1-1.75, 0>2 1.25-2");
}

TEST(Resources, ASplitReplicaTakesAsLongAsItsShare) {
  // Of 5 samples on 2 devices the first has 3.
  const Trace trace = run(
      make_pipeline({.edges = "", .in_flight = {5}, .samples = 5, .sizes = {5}, .widths = {2}}));
  EXPECT_EQ(computed(trace), "0F0 0-3, 0F0 0-2, 0B0 2-6, 0B0 3-9");
}

TEST(Resources, RoundRobinReplicasWorkInTurn) {
  const Trace trace = run(make_pipeline({.edges = "",
                                         .in_flight = {2},
                                         .samples = 4,
                                         .widths = {2},
                                         .replication = Replication::kRoundRobin}));
  EXPECT_EQ(computed(trace),
            "0F0 0-1, 0F1 0-1, 0B0 1-3, 0B1 1-3, 0F2 3-4, 0F3 3-4, 0B2 4-6, 0B3 4-6");
}

TEST(Resources, AReductionStartsWhenAllHaveStartedIt) {
  Pipeline p =
      make_pipeline({.edges = "", .in_flight = {5}, .samples = 5, .sizes = {5}, .widths = {2}});
  const std::int64_t bytes =
      stage_static_memory(p.graph, p.plan.stages[0].ops, OptimizerKind::kSgd).weights_bytes;
  // A ring of two sends the bucket once in all.
  p.cluster.levels[0].link.bandwidth_bytes_per_s = static_cast<double>(bytes) / 4;
  const Trace trace = run(p);
  EXPECT_DOUBLE_EQ(trace.iteration_s, 9 + 4);
  EXPECT_DOUBLE_EQ(trace.ranks[1].busy_s, 6);
}

// T1 and T2, over a pipeline where everything is in use.
TEST(Resources, TracesKeepTheirInvariants) {
  Pipeline p = make_pipeline({.edges = "0>2 1>2 2>3 1>3",
                              .in_flight = {16, 16, 8, 4},
                              .samples = 42,
                              .sizes = {1, 2, 4, 4},
                              .forward_s = {0.5, 0.75, 1, 0.125},
                              .widths = {1, 2, 2, 1}});
  p.cluster.levels[0].link.latency_s = 0.125;
  set_transfer(p, 0, 0.25);
  p.cluster.cores_per_node = 4;
  const Trace trace = run(p);
  std::map<RankId, double> busy_until;
  std::map<RankId, double> busy_s;
  for (const TraceEvent& event : trace.events) {
    EXPECT_LE(event.start_s, event.end_s) << "T2";
    EXPECT_LE(event.end_s, trace.iteration_s) << "T2";
    if (!computes(event)) continue;
    EXPECT_GE(event.start_s, busy_until[event.rank]) << "T1";
    busy_until[event.rank] = event.end_s;
    busy_s[event.rank] += event.end_s - event.start_s;
  }
  ASSERT_EQ(busy_s.size(), 6U);
  for (const auto& [rank, seconds] : busy_s) {
    EXPECT_NEAR(seconds, trace.ranks[rank.index()].busy_s, 1e-9);
  }
}

TEST(Resources, TwoRunsGiveTheSameTrace) {
  Pipeline p =
      make_pipeline({.edges = "0>2 1>2 2>3 1>3", .in_flight = {5, 6, 3, 1}, .samples = 30});
  set_transfer(p, 0, 0.3);
  const Trace a = run(p);
  const Trace b = run(p);
  ASSERT_EQ(a.events.size(), b.events.size());
  for (std::size_t i = 0; i < a.events.size(); ++i) {
    EXPECT_EQ(a.events[i].action, b.events[i].action);
    EXPECT_EQ(a.events[i].start_s, b.events[i].start_s);
    EXPECT_EQ(a.events[i].end_s, b.events[i].end_s);
  }
}

TEST(Resources, EventsDoNotChangeTheTimes) {
  Pipeline p =
      make_pipeline({.edges = "0>2 1>2 2>3 1>3", .in_flight = {5, 6, 3, 1}, .samples = 30});
  set_transfer(p, 0, 0.3);
  const Trace without = simulate_plan(p.plan, p.graph, p.cluster, p.costs);
  EXPECT_EQ(without.iteration_s, run(p).iteration_s);
  EXPECT_TRUE(without.events.empty());
  EXPECT_TRUE(without.memory.empty());
}

}  // namespace
}  // namespace graphpipe
