// Reductions within the last backward, by hand: four operators of 1 s forward and 2 s backward on
// two devices, the last backward from 4 s on; gradients are there at 6, 8, 10 and 12 s.

#include <gtest/gtest.h>

#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/test_large_chain.h"
#include "schedule/verify.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

Trace trace_of(const LargeChain& large) {
  return simulate_plan(large.plan, large.graph, large.cluster, large.costs, {.events = true});
}

const TraceEvent& event(const Trace& trace, ActionKind kind, int bucket = -1) {
  for (const TraceEvent& one : trace.events) {
    if (one.rank == RankId(0) && one.action.kind == kind && one.action.bucket == bucket) return one;
  }
  ADD_FAILURE() << "no such event";
  return trace.events.front();
}

// Sums from 6 to 9, 9 to 12, 12 to 15, 15 to 18: only the last is asked for after the backward.
TEST(Overlap, SumsBeginWithinTheBackward) {
  const Trace trace = trace_of(LargeChain(3));
  EXPECT_DOUBLE_EQ(trace.iteration_s, 18);
  const double starts[] = {6, 9, 12, 15};
  for (int bucket = 0; bucket < LargeChain::kOps; ++bucket) {
    const TraceEvent& sum = event(trace, ActionKind::kStartReduce, bucket);
    EXPECT_DOUBLE_EQ(sum.start_s, starts[bucket]) << bucket;
    EXPECT_DOUBLE_EQ(sum.end_s, starts[bucket] + 3) << bucket;
  }
}

// From 6 to 11, 11 to 16, ...: the backward stands still from 10 to 11, for two are on the way.
TEST(Overlap, ABackwardWaitsForTheSumBeforeLast) {
  const Trace trace = trace_of(LargeChain(5));
  EXPECT_DOUBLE_EQ(trace.iteration_s, 26);
  EXPECT_DOUBLE_EQ(trace.ranks[0].busy_s, 12);
  const TraceEvent& backward = event(trace, ActionKind::kBackward);
  EXPECT_DOUBLE_EQ(backward.start_s, 4);
  EXPECT_DOUBLE_EQ(backward.end_s, 13);
  int backwards = 0;
  for (const TraceEvent& one : trace.events) backwards += one.action.kind == ActionKind::kBackward;
  EXPECT_EQ(backwards, 2);  // one a rank, though it is computed in parts
}

TEST(Overlap, SumsFasterThanTheBackwardLeaveOnlyTheLast) {
  EXPECT_DOUBLE_EQ(trace_of(LargeChain(0.5)).iteration_s, 12.5);
}

// Half a second a parameter, and SGD keeps no moments.
class StepCosts final : public LinearCosts {
 public:
  explicit StepCosts(const LinearCosts& costs) : LinearCosts(costs) {}
  double step_s(std::int64_t params, std::int64_t bytes, int moments) const override {
    EXPECT_EQ(bytes, params * LargeChain::kWeightBytes);
    EXPECT_EQ(moments, 0);
    return 0.5 * static_cast<double>(params);
  }
};

// Four weights, once the last sum is there: from 18 s on.
TEST(Overlap, AStepTakesItsRankTimeAndIsNotDrawn) {
  const LargeChain large(3);
  const Trace trace = simulate_plan(large.plan, large.graph, large.cluster, StepCosts(large.costs),
                                    {.events = true});
  EXPECT_DOUBLE_EQ(trace.iteration_s, 20);
  EXPECT_DOUBLE_EQ(trace.ranks[0].busy_s, 14);
  for (const TraceEvent& one : trace.events) EXPECT_NE(one.action.kind, ActionKind::kStep);
  EXPECT_EQ(trace.events.size(), trace_of(large).events.size());
}

TEST(Overlap, HoldsWhatTheVerifierCounts) {
  const LargeChain large(3);
  const Trace trace = trace_of(large);
  const Verification proof = verify_plan(large.plan, large.graph, large.cluster, large.costs);
  ASSERT_TRUE(proof.ok());
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(trace.ranks[r].peak_memory_bytes, proof.memory[r].peak_bytes);
    // Two buckets' messages there and back, beside the gradients.
    EXPECT_GT(proof.memory[r].peak_bytes,
              proof.memory[r].static_bytes + 2 * LargeChain::kWeightBytes);
  }
}

TEST(Overlap, RepetitionsThatAreSkippedChangeNothing) {
  LargeChain large(3);
  large.plan.mini_batch = 200;
  const Trace full = simulate_plan(large.plan, large.graph, large.cluster, large.costs);
  const Trace skipped =
      simulate_plan(large.plan, large.graph, large.cluster, large.costs, {}, true);
  EXPECT_EQ(full.iteration_s, skipped.iteration_s);
  EXPECT_DOUBLE_EQ(full.iteration_s, 99 * 12 + 18);
}

}  // namespace
}  // namespace graphpipe
