// What a good schedule is, and what the verifier costs. Faults: verify_messages_test.cc,
// verify_values_test.cc.

#include "schedule/verify.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/stage_memory.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/placement.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

std::string faults_text(const Verification& verification) {
  std::string text;
  for (const Fault& fault : verification.faults) {
    text += fault.rule + " at " + fault.where + ": " + fault.message + "\n";
  }
  return text;
}

Verification verified(const TestPlan& t, std::int64_t samples) {
  return verify(lower(build_schedule(t.plan, t.graph, samples), t.plan, t.graph), t.plan, t.graph,
                t.cluster, t.costs);
}

TEST(VerifyPlan, AcceptsRandomPlans) {
  int periodic = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const PlanSpec spec = random_spec(seed, seed % 7 == 0);
    const TestPlan t = make_plan(spec);
    ASSERT_EQ(faults_text(verify_plan(t.plan, t.graph, t.cluster, t.costs)), "")
        << "seed " << seed << "\n"
        << to_text(build_schedule(t.plan, t.graph, spec.samples), t.plan);
    const Schedule schedule = build_schedule(t.plan, t.graph, spec.samples);
    periodic += lower(schedule, t.plan, t.graph).repeats > 4 ? 1 : 0;
  }
  EXPECT_GT(periodic, 10);
}

TEST(VerifyPlan, AcceptsRandomPlansOfSharedRanks) {
  int shared = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const PlanSpec spec = random_shared_spec(seed, seed % 7 == 0);
    const TestPlan t = make_plan(spec);
    shared += shares_devices(t.plan) ? 1 : 0;
    ASSERT_EQ(faults_text(verify_plan(t.plan, t.graph, t.cluster, t.costs)), "")
        << "seed " << seed << "\n"
        << to_text(build_schedule(t.plan, t.graph, spec.samples), t.plan);
  }
  EXPECT_GT(shared, 200);
}

TEST(VerifyPlan, AcceptsRandomPlansInHalves) {
  int periodic = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const PlanSpec spec = random_halves_spec(seed, seed % 4 == 0);
    const TestPlan t = make_plan(spec);
    const Schedule schedule = build_schedule(t.plan, t.graph, spec.samples);
    ASSERT_EQ(faults_text(verify_plan(t.plan, t.graph, t.cluster, t.costs)), "")
        << "seed " << seed << "\n"
        << to_text(schedule, t.plan);
    periodic += lower(schedule, t.plan, t.graph).repeats > 4 ? 1 : 0;
  }
  EXPECT_GT(periodic, 10);
}

TEST(Verify, AcceptsShortMiniBatchesOfRandomPlans) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const TestPlan t = make_plan(random_spec(seed));
    for (std::int64_t samples = 1; samples < t.plan.mini_batch; samples += 1 + samples / 2) {
      ASSERT_EQ(faults_text(verified(t, samples)), "") << "seed " << seed << ", " << samples;
    }
  }
}

TEST(Verify, CostsTheDepthNotTheNumberOfMicroBatches) {
  for (const std::string edges : {"0>1 1>2 2>3", "0>1 0>2 1>3 2>3 0>3"}) {
    const TestPlan t = make_plan({.edges = edges, .samples = 1024, .stages = 4});
    const Verification few = verified(t, 4 * 4);
    const Verification many = verified(t, 16 * 4);
    EXPECT_EQ(faults_text(few) + faults_text(many), "");
    EXPECT_GT(few.steps, 0);
    EXPECT_EQ(few.steps, many.steps);
    EXPECT_EQ(many.steps, verified(t, 1024).steps);
  }
}

TEST(Verify, PeakMemoryIsFlatInTheNumberOfMicroBatches) {
  const TestPlan t = make_plan({.edges = "0>1 0>2 1>3 2>3", .samples = 1024, .stages = 4});
  const Verification few = verified(t, 4 * 4);
  const Verification many = verified(t, 16 * 16);
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(few.memory[r].peak_bytes, many.memory[r].peak_bytes) << "rank " << r;
  }
}

// A chain of two, two samples in flight on the first stage. What a sample's forward saves:
// stage 0 the input x and op0 (4 floats each), stage 1 op0, op1, target and the loss.
TEST(Verify, PeakMemoryByHand) {
  TestPlan t = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 8});
  t.plan.optimizer = OptimizerKind::kSgdMomentum;
  const std::int64_t message = message_bytes(t.graph, t.plan.edges[0], 1, false);
  ASSERT_EQ(message, 128 + 8 + 64);
  ASSERT_EQ(channel_window_samples(t.plan, t.plan.edges[0]), 2);
  const Verification verification = verified(t, 8);
  ASSERT_EQ(faults_text(verification), "");
  const std::int64_t static_bytes = 3 * 4 * (16 + 4);
  EXPECT_EQ(verification.memory[0].static_bytes, static_bytes);
  EXPECT_EQ(verification.memory[1].static_bytes, static_bytes);
  // Rank 0: two samples saved, two messages on the way out, and on the way in the gradient that
  // came, until it is freed, beside two that are posted.
  EXPECT_EQ(verification.memory[0].peak_bytes, static_bytes + 2 * (16 + 16) + 5 * message);
  EXPECT_EQ(verification.memory[0].peak_at, "post 0>1 B [2,3)");
  // Rank 1 at the end of its backward: its message, of which the tensor is what it read, two
  // that are posted and two gradients on the way out; target, loss and its seed; op1, whose
  // gradient has come to be that of op0.
  EXPECT_EQ(verification.memory[1].peak_bytes,
            static_bytes + (16 + 16 + 4 + 4) + 16 + 3 * message + 2 * message);
  EXPECT_EQ(verification.memory[1].peak_at, "1B2");
}

// A chain of four, 4, 3, 2, 1 samples in flight, all recomputing. A sample's input is 16 bytes,
// and so is what a stage makes; the last stage also has the target (16), and the loss (4).
TEST(Verify, PeakMemoryWithRecomputationByHand) {
  PlanSpec spec = {.edges = "0>1 1>2 2>3", .in_flight = {4, 3, 2, 1}, .samples = 8};
  spec.recompute = {0, 1, 2, 3};
  const TestPlan t = make_plan(spec);
  const Verification verification = verified(t, 8);
  ASSERT_EQ(faults_text(verification), "");
  const std::int64_t static_bytes = 2 * 4 * (16 + 4);
  const std::int64_t message = message_bytes(t.graph, t.plan.edges[0], 1, false);
  // Rank 0: four inputs and the one output that its forward made again; two sends on the way;
  // of gradients the one that came and two that are posted.
  EXPECT_EQ(verification.memory[0].peak_bytes,
            static_bytes + 4 * 16 + 16 + 2 * message + 3 * message);
  EXPECT_EQ(verification.memory[0].peak_at, "post 0>1 B [2,3)");
  // Rank 3 at the end of its backward: its message, which is its input, two that are posted and
  // two gradients on the way out; target, loss and its seed; the output, whose gradient has come
  // to be the input's.
  EXPECT_EQ(verification.memory[3].peak_bytes,
            static_bytes + (16 + 16 + 4 + 4) + 16 + 3 * message + 2 * message);
  EXPECT_EQ(verification.memory[3].peak_at, "3B2");
}

TEST(Verify, RecomputationSavesWhatLiesBetweenInputsAndOutputs) {
  PlanSpec spec = {.edges = "0>2 1>2", .in_flight = {4, 4, 2}, .samples = 16};
  const Verification kept = verified(make_plan(spec), 16);
  spec.recompute = {0};
  const Verification again = verified(make_plan(spec), 16);
  // Four outputs of 16 bytes are kept; one is made again.
  EXPECT_EQ(kept.memory[0].peak_bytes - again.memory[0].peak_bytes, 3 * 16);
  EXPECT_EQ(kept.memory[1].peak_bytes, again.memory[1].peak_bytes);
}

TEST(Verify, PeakMemoryOfAdamIsAtTheStepWhereLittleIsSaved) {
  TestPlan t = make_plan({.edges = "", .in_flight = {1}, .samples = 8, .stages = 1});
  t.plan.optimizer = OptimizerKind::kAdam;
  const Verification verification = verified(t, 8);
  ASSERT_EQ(faults_text(verification), "");
  // Value, gradient and two of state; then two temporaries of the larger parameter.
  EXPECT_EQ(verification.memory[0].peak_bytes, 4 * 4 * (16 + 4) + 2 * 4 * 16 + 64);
  EXPECT_EQ(verification.memory[0].peak_at, "step 0");
}

TEST(Verify, EvaluationHoldsWeightsOnly) {
  const TestPlan t = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 8});
  const Schedule forward = lower(build_forward_schedule(t.plan, t.graph, 8), t.plan, t.graph);
  const Verification verification = verify(forward, t.plan, t.graph, t.cluster, t.costs);
  EXPECT_EQ(faults_text(verification), "");
  EXPECT_EQ(verification.memory[0].static_bytes, 4 * (16 + 4));
}

// A sample's input x is 16 bytes, and so is what each stage makes. On one rank both stages save
// x, op0, op1, the target (16) and the loss (4): op0, which 0 makes and 1 reads, once. In 1B0
// comes its gradient, beside the loss's seed (4).
TEST(Verify, ASharedRankHoldsWhatItsStagesHandOverOnce) {
  const TestPlan t = make_plan({.edges = "0>1", .in_flight = {1, 1}, .samples = 1, .on = {0, 0}});
  const Verification verification = verified(t, 1);
  ASSERT_EQ(faults_text(verification), "");
  ASSERT_EQ(verification.memory.size(), 1U);
  EXPECT_EQ(verification.memory[0].static_bytes, 2 * 2 * 4 * (16 + 4));
  EXPECT_EQ(verification.memory[0].peak_bytes,
            verification.memory[0].static_bytes + 4 * 16 + 4 + 16 + 4);
  EXPECT_EQ(verification.memory[0].peak_at, "1B0");
}

TEST(Verify, ASharedRankHoldsASharedParameterOnce) {
  const TestPlan t = make_plan(
      {.edges = "0>1 1>2", .in_flight = {3, 2, 1}, .samples = 4, .tied = {0, 2}, .on = {0, 1, 0}});
  const Verification verification = verified(t, 4);
  ASSERT_EQ(faults_text(verification), "");
  EXPECT_EQ(verification.memory[0].static_bytes, 2 * 4 * 16);
}

// The paper's claim for a chain: with as many in flight on every stage as 1F1B has on the first,
// no rank holds more values than that rank with 1F1B. A middle stage saves a sample's input and
// output, 32 bytes; the last also target and loss.
TEST(Verify, HalvesHoldNoMoreThanTheFirstStageWith1F1B) {
  PlanSpec spec = {.edges = "0>1 1>2 2>3", .in_flight = {4, 3, 2, 1}, .samples = 16};
  const auto saved = [&](std::size_t rank) {
    const TestPlan t = make_plan(spec);
    std::int64_t now = 0;
    std::int64_t most = 0;
    const Schedule schedule = build_schedule(t.plan, t.graph, 16);
    for (ActionCursor at(schedule, t.plan, RankId(rank)); !at.done(); at.next()) {
      const ActionKind kind = at.action().kind;
      if (kind == ActionKind::kForward) most = std::max(most, ++now);
      if (kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight) --now;
    }
    return most;
  };
  EXPECT_EQ(saved(0), 4);
  spec.kind = ScheduleKind::kZbH1;
  spec.in_flight = {4, 4, 4, 4};
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(saved(rank), 4) << "rank " << rank;
}

// The planner's estimate is an upper bound: it may refuse what fits, never accept what does not.
TEST(StageMemory, IsAnUpperBoundOfWhatTheVerifierCounts) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    TestPlan t = make_plan(seed % 5 == 0 ? random_halves_spec(seed, false)
                                         : random_spec(seed, seed % 7 == 0));
    if (seed % 2 == 0) t.plan.optimizer = OptimizerKind::kAdam;
    const Verification verification = verify_plan(t.plan, t.graph, t.cluster, t.costs);
    ASSERT_EQ(faults_text(verification), "");
    std::size_t rank = 0;
    for (std::size_t s = 0; s < t.plan.stages.size(); ++s) {
      const std::int64_t bound =
          stage_memory(t.plan, t.graph, t.costs, t.cluster.types[0], StageId(s)).total();
      for (std::size_t d = 0; d < t.plan.stages[s].devices.size(); ++d, ++rank) {
        EXPECT_LE(verification.memory[rank].peak_bytes, bound)
            << "seed " << seed << ", stage " << s << ", replica " << d << ", at "
            << verification.memory[rank].peak_at;
      }
    }
  }
}

TEST(StageMemory, OfTheStagesOfARankIsAnUpperBoundOfItsOwn) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    TestPlan t = make_plan(seed % 5 == 0 ? random_halves_spec(seed, true)
                                         : random_shared_spec(seed, seed % 7 == 0));
    if (seed % 2 == 0) t.plan.optimizer = OptimizerKind::kAdam;
    const Verification verification = verify_plan(t.plan, t.graph, t.cluster, t.costs);
    ASSERT_EQ(faults_text(verification), "");
    const std::vector<std::vector<Placement>> placed = placements(t.plan);
    for (std::size_t r = 0; r < placed.size(); ++r) {
      std::int64_t bound = 0;
      for (const Placement& own : placed[r]) {
        bound += stage_memory(t.plan, t.graph, t.costs, t.cluster.types[0], own.stage).total();
      }
      EXPECT_LE(verification.memory[r].peak_bytes, bound)
          << "seed " << seed << ", rank " << r << ", at " << verification.memory[r].peak_at;
    }
  }
}

}  // namespace
}  // namespace graphpipe
