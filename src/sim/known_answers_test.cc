// Iterations worked out by hand or by exhaustive search, with forward 1 s and backward
// 2 s a sample: the tables of docs/papers.md.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/simulator.h"
#include "sim/test_pipelines.h"

namespace graphpipe {
namespace {

double iteration_s(const Pipeline& p) {
  validate(p.plan, p.graph, p.cluster, "plan");
  return simulate_plan(p.plan, p.graph, p.cluster, p.costs).iteration_s;
}

double iteration_s(const PipelineSpec& spec) { return iteration_s(make_pipeline(spec)); }

const char* const kChainOf4 = "0>1 1>2 2>3";
const char* const kThreeJoin = "0>3 1>3 2>3";

TEST(KnownAnswers, ChainOf4TakesMicroBatchesPlusDepthMinusOneTasks) {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 8, 16, 100}) {
    EXPECT_DOUBLE_EQ(iteration_s({kChainOf4, {4, 3, 2, 1}, m}), 3.0 * static_cast<double>(m + 3))
        << m << " micro-batches";
  }
}

// A forward more for each micro-batch on each rank: the last stage is busy for 4 m. Before it
// works p - 1 forwards run; after its last backward the others have run theirs again already,
// while they waited for its gradient, and p - 1 backwards remain.
TEST(KnownAnswers, RecomputationAddsAForwardAMicroBatchAndNoneToTheDrain) {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 8, 16, 100}) {
    EXPECT_DOUBLE_EQ(
        iteration_s(
            {.edges = kChainOf4, .in_flight = {4, 3, 2, 1}, .samples = m, .recompute = true}),
        4.0 * static_cast<double>(m) + 3 * (1 + 2))
        << m << " micro-batches";
  }
}

// F = I = W = 1. The first stage starts its last task, a weight half, when everything else is
// done: 3 m tasks, and the gap before its first input half, which waits for p forwards down and
// p - 1 input halves up, of which it fills p with forwards. So with p or more micro-batches, and
// p in flight to the weight halves on every stage, 3 m + p - 1; 1F1B takes 3 (m + p - 1).
TEST(KnownAnswers, HalvesTakeAThirdOfTheBubbleOf1F1B) {
  const std::vector<std::string> chains = {"0>1", "0>1 1>2", kChainOf4};
  for (std::int64_t p = 2; p <= 4; ++p) {
    const std::string& edges = chains[static_cast<std::size_t>(p - 2)];
    for (const std::int64_t m : {p, p + 1, 2 * p, 4 * p, std::int64_t{100}}) {
      const std::string about = fmt::format("{} stages, {} micro-batches", p, m);
      PipelineSpec spec;
      spec.edges = edges;
      spec.in_flight.assign(static_cast<std::size_t>(p), p);
      spec.samples = m;
      spec.kind = ScheduleKind::kZbH1;
      EXPECT_DOUBLE_EQ(iteration_s(spec), static_cast<double>(3 * m + p - 1)) << about;
      for (std::int64_t s = 0; s < p; ++s) spec.in_flight[static_cast<std::size_t>(s)] = p - s;
      spec.kind = ScheduleKind::k1F1B;
      EXPECT_DOUBLE_EQ(iteration_s(spec), static_cast<double>(3 * (m + p - 1))) << about;
    }
  }
}

// With fewer micro-batches than stages nothing hides the way there and back: p forwards, p
// input halves, and on the first stage two tasks for each further micro-batch and a weight half.
TEST(KnownAnswers, HalvesOfFewMicroBatches) {
  for (const std::int64_t m : {1, 2, 3}) {
    EXPECT_DOUBLE_EQ(iteration_s({.edges = kChainOf4,
                                  .in_flight = {4, 4, 4, 4},
                                  .samples = m,
                                  .kind = ScheduleKind::kZbH1}),
                     static_cast<double>(2 * 4 + 2 * m - 1))
        << m << " micro-batches";
  }
}

// With 1F1B's own counts no weight half is late, and only the drain is shorter.
TEST(KnownAnswers, HalvesWithoutRoomToBeLate) {
  EXPECT_DOUBLE_EQ(iteration_s({.edges = kChainOf4,
                                .in_flight = {4, 3, 2, 1},
                                .samples = 8,
                                .kind = ScheduleKind::kZbH1}),
                   30);
}

TEST(KnownAnswers, HalvesOnAGraph) {
  for (const std::int64_t m : {2, 8, 16}) {
    EXPECT_DOUBLE_EQ(iteration_s({.edges = kThreeJoin,
                                  .in_flight = {2, 2, 2, 2},
                                  .samples = m,
                                  .kind = ScheduleKind::kZbH1}),
                     static_cast<double>(3 * m + 1))
        << m << " micro-batches";
  }
}

// Two ranks with two stages each (1 and 3, 2 and 4 of a chain) fill in one task where two
// stages of twice the length take two: 6 m + 3 instead of 6 m + 6.
TEST(KnownAnswers, TwoStagesARankHalveTheBubble) {
  for (const std::int64_t m : {2, 4, 8}) {
    EXPECT_DOUBLE_EQ(
        iteration_s(
            {.edges = kChainOf4, .in_flight = {4, 4, 4, 4}, .samples = m, .on = {0, 1, 0, 1}}),
        6.0 * static_cast<double>(m) + 3)
        << m << " micro-batches";
    EXPECT_DOUBLE_EQ(
        iteration_s({.edges = "0>1", .in_flight = {2, 1}, .samples = m, .forward_s = {2, 2}}),
        6.0 * static_cast<double>(m + 1))
        << m << " micro-batches";
  }
}

TEST(KnownAnswers, ThreeParallelStagesAndAJoinHaveDepthTwo) {
  for (const std::int64_t m : {1, 2, 8, 16}) {
    EXPECT_DOUBLE_EQ(iteration_s({kThreeJoin, {2, 2, 2, 1}, m}), 3.0 * static_cast<double>(m + 1))
        << m << " micro-batches";
  }
}

TEST(KnownAnswers, ImposedChainOrderCostsItsDepth) {
  EXPECT_DOUBLE_EQ(
      iteration_s(
          {.edges = kThreeJoin, .in_flight = {4, 3, 2, 1}, .samples = 8, .chain_order = true}),
      33);
  EXPECT_DOUBLE_EQ(iteration_s({kThreeJoin, {4, 3, 2, 1}, 8}), 27);
  EXPECT_DOUBLE_EQ(iteration_s({kThreeJoin, {2, 2, 2, 1}, 8}), 27);
}

TEST(KnownAnswers, SizesOfOneTwoFourBeatFours) {
  const auto chain = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> in_flight,
                        std::int64_t samples) {
    return iteration_s({"0>1 1>2", std::move(in_flight), samples, std::move(sizes)});
  };
  EXPECT_DOUBLE_EQ(chain({1, 2, 4}, {10, 8, 4}, 16), 66);
  EXPECT_DOUBLE_EQ(chain({1, 2, 4}, {10, 8, 4}, 32), 114);
  EXPECT_DOUBLE_EQ(chain({1, 2, 4}, {10, 8, 4}, 64), 210);
  EXPECT_DOUBLE_EQ(chain({4, 4, 4}, {12, 8, 4}, 16), 72);
  EXPECT_DOUBLE_EQ(chain({4, 4, 4}, {12, 8, 4}, 32), 120);
  EXPECT_DOUBLE_EQ(chain({4, 4, 4}, {12, 8, 4}, 64), 216);
  EXPECT_DOUBLE_EQ(chain({2, 1, 1}, {6, 2, 1}, 32), 105);
  EXPECT_DOUBLE_EQ(chain({2, 1, 1}, {4, 2, 1}, 32), 147);
}

TEST(KnownAnswers, TwoBranchesOfFourThatMeetInTheLastStageOfTheFirst) {
  // Stages in an order in which they can run: A 0 1 2, B 3 4 5 6, then the last of A.
  const char* const branches = "0>1 1>2 3>4 4>5 5>6 2>7 6>7";
  EXPECT_DOUBLE_EQ(iteration_s({branches, {4, 3, 2, 5, 4, 3, 2, 1}, 8}), 36);
  EXPECT_DOUBLE_EQ(iteration_s({branches, {4, 3, 2, 4, 3, 2, 1, 1}, 8}), 57);
  EXPECT_DOUBLE_EQ(iteration_s({"0>1 1>2 2>3 3>4 4>5 5>6 6>7", {8, 7, 6, 5, 4, 3, 2, 1}, 8}), 45);
}

TEST(KnownAnswers, BranchesOfFourStagesAndOneBeforeTwoShared) {
  const char* const edges = "0>1 1>2 2>3 3>5 4>5 5>6";
  EXPECT_DOUBLE_EQ(iteration_s({edges, {6, 5, 4, 3, 3, 2, 1}, 16}), 63);
  EXPECT_DOUBLE_EQ(iteration_s({edges, {6, 5, 4, 3, 2, 2, 1}, 16}), 105);
}

double iteration_with_latency_s(double latency_s, std::vector<std::int64_t> in_flight) {
  Pipeline p = make_pipeline({kChainOf4, std::move(in_flight), 32});
  p.cluster.levels[0].link.latency_s = latency_s;
  return iteration_s(p);
}

// A hop's latency is a quarter of a forward to two forwards, beside what is computed.
TEST(KnownAnswers, CommunicationRaisesTheCounts) {
  EXPECT_DOUBLE_EQ(iteration_with_latency_s(0.25, {4, 3, 2, 1}), 118);
  EXPECT_DOUBLE_EQ(iteration_with_latency_s(0.25, {7, 5, 3, 1}), 106.5);  // 11 % less
  EXPECT_DOUBLE_EQ(iteration_with_latency_s(2, {4, 3, 2, 1}), 209);
  EXPECT_DOUBLE_EQ(iteration_with_latency_s(2, {10, 7, 4, 1}), 117);  // 79 % longer without
  for (const double latency_s : {0.25, 0.5, 1.0, 2.0}) {
    // The hops there and back are all that is added.
    EXPECT_DOUBLE_EQ(iteration_with_latency_s(latency_s, {10, 7, 4, 1}),
                     3.0 * (32 + 3) + 6 * latency_s);
  }
}

TEST(KnownAnswers, UnequalStagesWantOtherCounts) {
  const auto chain = [](std::vector<std::int64_t> in_flight) {
    return iteration_s({.edges = kChainOf4,
                        .in_flight = std::move(in_flight),
                        .samples = 64,
                        .forward_s = {1, 0.5, 0.5, 0.5}});
  };
  EXPECT_DOUBLE_EQ(chain({6, 3, 2, 1}), 3 * 64);  // the slowest stage never waits
  EXPECT_DOUBLE_EQ(chain({5, 3, 2, 1}), 3 * 64 + 0.5);
  EXPECT_DOUBLE_EQ(chain({4, 3, 2, 1}), 3 * 64 + 1.5);
}

}  // namespace
}  // namespace graphpipe
