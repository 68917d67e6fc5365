// Every fault that the verifier must find, seeded into a good schedule, with the whole of
// what it says. Messages are for people: each names a place and what is wrong with it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/test_plans.h"
#include "schedule/verify.h"

namespace graphpipe {

static void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.rule << " | " << fault.where << " | " << fault.message;
}

namespace {

using testing::ElementsAre;

// A chain of two stages over three micro-batches of 2, all in the prologues:
//   rank 0: 0F0 0F1 0B0 0F2 0B1 0B2
//   rank 1: 1F0 1B0 1F1 1B1 1F2 1B2
class VerifyFaults : public testing::Test {
 protected:
  void use(const PlanSpec& spec) {
    t_ = make_plan(spec);
    schedule_ = lower(build_schedule(t_.plan, t_.graph, spec.samples), t_.plan, t_.graph);
  }
  void SetUp() override {
    use({.edges = "0>1", .in_flight = {4, 2}, .samples = 6, .sizes = {2, 2}});
    ASSERT_EQ(schedule_.repeats, 0);
    ASSERT_THAT(faults(), ElementsAre());
  }

  std::vector<Fault> faults() const {
    return verify(schedule_, t_.plan, t_.graph, t_.cluster, t_.costs).faults;
  }

  struct Place {
    std::vector<Action>* section = nullptr;
    std::ptrdiff_t index = 0;
  };
  // The action of the rank that reads `text`, in whichever section it stands.
  Place find(std::size_t rank, const std::string& text) {
    RankProgram& program = schedule_.ranks[rank];
    for (auto* section : {&program.prologue, &program.period, &program.epilogue}) {
      for (std::size_t i = 0; i < section->size(); ++i) {
        if (to_text((*section)[i], t_.plan) == text) {
          return {section, static_cast<std::ptrdiff_t>(i)};
        }
      }
    }
    ADD_FAILURE() << "rank " << rank << " has no " << text;
    return {&program.prologue, 0};
  }
  Action& action(std::size_t rank, const std::string& text) {
    const Place at = find(rank, text);
    return (*at.section)[static_cast<std::size_t>(at.index)];
  }
  void drop(std::size_t rank, const std::string& text) {
    const Place at = find(rank, text);
    at.section->erase(at.section->begin() + at.index);
  }
  void repeat(std::size_t rank, const std::string& text) {
    const Place at = find(rank, text);
    const Action copy = (*at.section)[static_cast<std::size_t>(at.index)];
    at.section->insert(at.section->begin() + at.index, copy);
  }
  void swap(std::size_t rank, const std::string& a, const std::string& b) {
    std::swap(action(rank, a), action(rank, b));
  }
  // To stand right before `text`.
  void move_before(std::size_t rank, const std::string& moved, const std::string& text) {
    const Action copy = action(rank, moved);
    drop(rank, moved);
    const Place at = find(rank, text);
    at.section->insert(at.section->begin() + at.index, copy);
  }

  TestPlan t_;
  Schedule schedule_;
};

TEST_F(VerifyFaults, V1ASendIsMissing) {
  drop(0, "send 0>1 F [2,4)");
  drop(0, "sent 0>1 F [2,4)");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V1", "rank 1, action 1: post 0>1 F [2,4)",
                                          "rank 0 never sends it"}));
}

TEST_F(VerifyFaults, V1AReceiveIsMissing) {
  drop(1, "post 0>1 F [4,6)");
  drop(1, "recv 0>1 F [4,6)");
  drop(1, "free 0>1 F [4,6)");
  EXPECT_THAT(
      faults(),
      ElementsAre(
          Fault{"V1", "rank 0, action 13: send 0>1 F [4,6)", "rank 1 never posts a receive for it"},
          Fault{"V7", "rank 1, action 14: 1F2",
                "needs 0>1 F [4,6) from rank 0, and no receive before it brings them"},
          Fault{"V7", "rank 1, action 15: 1B2",
                "needs 0>1 F [4,6) from rank 0, and no receive before it brings them"}));
}

TEST_F(VerifyFaults, V1BytesDiffer) {
  action(1, "post 0>1 F [2,4)").bytes = 100;
  EXPECT_THAT(faults(), ElementsAre(Fault{"V1", "rank 1, action 1: post 0>1 F [2,4)",
                                          "expects 100 bytes, and rank 0 sends 208"}));
}

TEST_F(VerifyFaults, V1BytesAreNotTheMessages) {
  action(0, "send 0>1 F [2,4)").bytes = 100;
  action(1, "post 0>1 F [2,4)").bytes = 100;
  EXPECT_THAT(faults(), ElementsAre(Fault{
                            "V1", "rank 0, action 5: send 0>1 F [2,4)",
                            "has 100 bytes, where a message of 2 samples over this edge has 208"}));
}

TEST_F(VerifyFaults, V1AnEdgeOrAPeerThatDoesNotFit) {
  action(0, "send 0>1 F [0,2)").peer = RankId(0);
  EXPECT_THAT(faults(), ElementsAre(Fault{"V1", "rank 0, action 3: send 0>1 F [0,2)",
                                          "its other end is rank 0, which does not run stage 1"}));
  SetUp();
  action(0, "send 0>1 F [0,2)").direction = Direction::kBackward;
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V1", "rank 0, action 3: send 0>1 B [0,2)",
                                "stage 0 does not send over this edge in this direction"}));
  SetUp();
  action(0, "send 0>1 F [0,2)").edge = EdgeId(3);
  EXPECT_THAT(faults(), ElementsAre(Fault{"V1", "rank 0, action 3: send over edge 3",
                                          "there is no edge 3; the plan has 1"}));
}

TEST_F(VerifyFaults, V2MessagesAreSwapped) {
  // Two on the way at once, sent in the other order.
  move_before(0, "send 0>1 F [2,4)", "send 0>1 F [0,2)");
  move_before(0, "0F1", "send 0>1 F [2,4)");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V2", "rank 1, action 0: post 0>1 F [0,2)",
                                "is message 0 of its channel here (counted from 0), but rank 0 "
                                "sends [2,4) in that place; both ends must keep one order"}));
}

TEST_F(VerifyFaults, V2ReceivesAreSwapped) {
  swap(1, "post 0>1 F [0,2)", "post 0>1 F [2,4)");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V2", "rank 1, action 0: post 0>1 F [2,4)",
                                "is message 0 of its channel here (counted from 0), but rank 0 "
                                "sends [0,2) in that place; both ends must keep one order"}));
}

// Receives in order and sends that block: every chain with two micro-batches stops.
TEST_F(VerifyFaults, V3ReceivesAreNotPostedAhead) {
  for (const std::string samples : {"[0,2)", "[2,4)", "[4,6)"}) {
    move_before(0, "post 0>1 B " + samples, "recv 0>1 B " + samples);
    move_before(1, "post 0>1 F " + samples, "recv 0>1 F " + samples);
  }
  move_before(0, "sent 0>1 F [0,2)", "0F1");
  move_before(0, "sent 0>1 F [2,4)", "post 0>1 B [0,2)");
  move_before(1, "sent 0>1 B [0,2)", "free 1 [0,2)");
  EXPECT_THAT(
      faults(),
      ElementsAre(Fault{"V3", "rank 0, action 5: sent 0>1 F [2,4)",
                        "ranks 0, 1 wait for each other\n"
                        "  rank 0, action 5: sent 0>1 F [2,4) (until rank 1 posts its receive)\n"
                        "  rank 1, action 5: sent 0>1 B [0,2) (until rank 0 posts its receive)"}));
}

TEST_F(VerifyFaults, V3AStageWaitsForMoreThanItIsGiven) {
  use({.edges = "0>1", .in_flight = {1, 2}, .samples = 3});
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V3", "rank 0, action 4: recv 0>1 B [0,1)",
                                "ranks 0, 1 wait for each other\n"
                                "  rank 0, action 4: recv 0>1 B [0,1) (until rank 1 sends it)\n"
                                "  rank 1, action 5: recv 0>1 F [1,2) (until rank 0 sends it)"}));
}

TEST_F(VerifyFaults, V3ACycleOfThreeIsFollowed) {
  use({.edges = "0>1 1>2", .in_flight = {1, 2, 2}, .samples = 3});
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V3", "rank 0, action 4: recv 0>1 B [0,1)",
                                "ranks 0, 1 wait for each other\n"
                                "  rank 0, action 4: recv 0>1 B [0,1) (until rank 1 sends it)\n"
                                "  rank 1, action 8: recv 0>1 F [1,2) (until rank 0 sends it)"}));
  use({.edges = "0>1 1>2", .in_flight = {1, 1, 2}, .samples = 3});
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V3", "rank 1, action 8: recv 1>2 B [0,1)",
                                "ranks 1, 2 wait for each other\n"
                                "  rank 1, action 8: recv 1>2 B [0,1) (until rank 2 sends it)\n"
                                "  rank 2, action 5: recv 1>2 F [1,2) (until rank 1 sends it)"}));
}

TEST_F(VerifyFaults, V3IsFoundInAPeriodicScheduleToo) {
  use({.edges = "0>1", .in_flight = {3, 4}, .samples = 64});
  ASSERT_GT(schedule_.repeats, 4);
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V3", "rank 0, action 9: recv 0>1 B [0,1)",
                                "ranks 0, 1 wait for each other\n"
                                "  rank 0, action 9: recv 0>1 B [0,1) (until rank 1 sends it)\n"
                                "  rank 1, action 11: recv 0>1 F [3,4) (until rank 0 sends it)"}));
}

TEST_F(VerifyFaults, V4AFreeIsMissing) {
  drop(0, "free 0 [2,4)");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V4", "rank 0, action 4: 0F1", "what it saves is never freed"}));
}

TEST_F(VerifyFaults, V4AMessagesFreeIsMissing) {
  drop(1, "free 0>1 F [2,4)");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 1, action 1: post 0>1 F [2,4)",
                                          "its buffer is never freed"}));
}

TEST_F(VerifyFaults, V4AFreeComesTwice) {
  repeat(0, "free 0 [2,4)");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 0, action 17: free 0 [2,4)",
                                          "is freed a second time"}));
  SetUp();
  repeat(1, "free 0>1 F [2,4)");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 1, action 15: free 0>1 F [2,4)",
                                          "is freed a second time"}));
}

TEST_F(VerifyFaults, V4AFreeComesEarly) {
  move_before(0, "free 0 [2,4)", "0B1");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 0, action 15: free 0 [2,4)",
                                          "is freed before 0B1, which needs it"},
                                    Fault{"V4", "rank 0, action 16: 0B1",
                                          "uses what its forward saved, which was freed before"}));
  SetUp();
  move_before(1, "free 0>1 F [2,4)", "1B1");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 1, action 11: free 0>1 F [2,4)",
                                          "is freed before the last task that needs it"},
                                    Fault{"V4", "rank 1, action 12: 1B1",
                                          "uses 0>1 F [2,4), which was freed before"}));
}

TEST_F(VerifyFaults, V4AFreeNamesOtherSamples) {
  action(0, "free 0 [2,4)").samples = {2, 3};
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 0, action 16: free 0 [2,3)",
                                          "frees samples [2,3), where the forward saved [2,4)"}));
}

TEST_F(VerifyFaults, V4NothingIsThereToFree) {
  move_before(0, "free 0 [0,2)", "0F0");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V4", "rank 0, action 2: free 0 [0,2)",
                                "is freed before its forward has run"},
                          Fault{"V4", "rank 0, action 3: 0F0", "what it saves is never freed"}));
}

TEST_F(VerifyFaults, V4ASendIsNeverWaitedFor) {
  drop(0, "sent 0>1 F [2,4)");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 0, action 5: send 0>1 F [2,4)",
                                          "nothing waits for it, so its buffer never ends"}));
}

TEST_F(VerifyFaults, V4AWaitForNothing) {
  repeat(0, "sent 0>1 F [2,4)");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 0, action 23: sent 0>1 F [2,4)",
                                          "waits for a send that is not on its way"}));
}

TEST_F(VerifyFaults, V4ABackwardRunsBeforeItsForward) {
  move_before(1, "1B2", "1F2");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 1, action 16: 1B2",
                                          "runs before its forward, so nothing is saved for it"},
                                    Fault{"V4", "rank 1, action 20: free 1 [4,6)",
                                          "is freed before 1B2, which needs it"},
                                    Fault{"V7", "rank 1, action 19: send 0>1 B [4,6)",
                                          "sends what 1B2 makes before it runs"}));
}

TEST_F(VerifyFaults, V5MemoryIsShort) {
  // On rank 0: 160 bytes of weights and gradients, two micro-batches saved (64 each), and
  // messages of 208: two on the way out, a gradient that came and two posted.
  const std::int64_t needed = 160 + 2 * 64 + 5 * 208;
  const Verification good = verify(schedule_, t_.plan, t_.graph, t_.cluster, t_.costs);
  ASSERT_EQ(good.memory[0].peak_bytes, needed);
  t_.cluster.types[0].name = "small";
  t_.cluster.types[0].memory_bytes = needed;
  EXPECT_THAT(faults(), ElementsAre());
  t_.cluster.types[0].memory_bytes = needed - 24;
  EXPECT_THAT(faults(), ElementsAre(Fault{
                            "V5", "rank 0, action 7: post 0>1 B [4,6)",
                            "stage 0 needs 1.30 KiB on device 0, a small with 1.27 KiB: 24 B are "
                            "missing (160 B of it are weights, gradients and optimiser state); use "
                            "more devices, a smaller micro-batch or fewer samples in flight"}));
}

TEST_F(VerifyFaults, V6AnActionOfAForeignStage) {
  action(0, "0F1").stage = StageId(1);
  EXPECT_THAT(faults(), ElementsAre(Fault{"V6", "rank 0, action 4: 1F1",
                                          "replica 0 of stage 1 does not run on device 0, which "
                                          "is this rank's"}));
  action(0, "1F1").stage = StageId(7);
  EXPECT_THAT(faults(), ElementsAre(Fault{"V6", "rank 0, action 4: 7F1",
                                          "there is no stage 7; the plan has 2"}));
}

TEST_F(VerifyFaults, V6ARankIsUsedTwiceAtOneTime) {
  schedule_.ranks[1].device = DeviceId(0);
  EXPECT_THAT(faults(), ElementsAre(Fault{"V6", "ranks 0 and 1",
                                          "both run on device 0, at the same time; give each "
                                          "device one program"}));
}

TEST_F(VerifyFaults, V6RanksAreNotThePlans) {
  schedule_.ranks.pop_back();
  EXPECT_THAT(faults(), ElementsAre(Fault{"V6", "schedule",
                                          "its 1 ranks are not the 2 devices that the plan uses, "
                                          "ascending"}));
}

TEST_F(VerifyFaults, V6TheScheduleIsNotLowered) {
  schedule_ = build_schedule(t_.plan, t_.graph, 6);
  EXPECT_THAT(faults(), ElementsAre(Fault{
                            "V6", "schedule",
                            "the schedule is not lowered: it has no messages, frees or steps"}));
}

TEST_F(VerifyFaults, V7ATaskHasOtherSamples) {
  action(1, "1F1").samples = {2, 3};
  EXPECT_THAT(faults(), testing::Contains(Fault{
                            "V7", "rank 1, action 10: 1F1",
                            "computes samples [2,3), where the owner map gives this rank [2,4)"}));
}

TEST_F(VerifyFaults, V7ATaskIsMissingOrRunsTwice) {
  drop(1, "1B1");
  EXPECT_THAT(faults(),
              testing::Contains(Fault{"V7", "rank 1",
                                      "stage 1 never runs micro-batch 1 backward, samples "
                                      "[2,4)"}));
  SetUp();
  repeat(1, "1B1");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V7", "rank 1, action 12: 1B1", "runs a second time"}));
  action(1, "1B1").micro_batch = 5;
  EXPECT_THAT(faults(), testing::Contains(
                            Fault{"V7", "rank 1, action 11: 1B5",
                                  "there is no micro-batch 5; the stage has 3, counted from 0"}));
}

TEST_F(VerifyFaults, V7AMessageCarriesOtherSamples) {
  action(0, "send 0>1 F [2,4)").samples = {2, 3};
  action(0, "sent 0>1 F [2,4)").samples = {2, 3};
  EXPECT_THAT(
      faults(),
      ElementsAre(
          Fault{"V1", "rank 0, action 5: send 0>1 F [2,3)",
                "has 208 bytes, where a message of 1 samples over this edge has "
                "200"},
          Fault{"V1", "rank 0, action 5: send 0>1 F [2,3)", "rank 1 never posts a receive for it"},
          Fault{"V1", "rank 1, action 1: post 0>1 F [2,4)", "rank 0 never sends it"},
          Fault{"V7", "rank 0, action 5: send 0>1 F [2,3)",
                "carries samples [2,3), but micro-batch 1 of stage 0 and the tasks "
                "of rank 1 have [2,4) in common"}));
}

TEST_F(VerifyFaults, V7AMessageIsSentBeforeItsTaskRuns) {
  move_before(0, "send 0>1 F [2,4)", "0F1");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V7", "rank 0, action 4: send 0>1 F [2,4)",
                                          "sends what 0F1 makes before it runs"}));
}

TEST_F(VerifyFaults, V7APeriodCutsMicroBatches) {
  use({.edges = "0>1", .in_flight = {4, 2}, .samples = 64, .sizes = {2, 2}});
  ASSERT_GT(schedule_.repeats, 0);
  schedule_.period_samples = 3;
  EXPECT_THAT(faults(), ElementsAre(Fault{"V7", "schedule",
                                          "its period of 3 samples is not a multiple of the 2 "
                                          "that stage 0 takes at once"}));
}

TEST_F(VerifyFaults, V8AStepIsMissing) {
  drop(1, "step 1");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V8", "rank 1", "never steps the parameters of stage 1"}));
}

TEST_F(VerifyFaults, V8AStepComesTwiceOrEarly) {
  repeat(1, "step 1");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V8", "rank 1, action 25: step 1", "comes a second time"}));
  SetUp();
  move_before(1, "step 1", "1B2");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V8", "rank 1",
                                "steps stage 1 (action 17) before its last backward (action 18)"}));
}

TEST_F(VerifyFaults, V8AStepWithoutParameters) {
  use({.edges = "0>1", .in_flight = {1, 1}, .samples = 1, .untrained = {0}});
  schedule_.ranks[0].epilogue.push_back({.kind = ActionKind::kStep, .stage = StageId(0)});
  EXPECT_THAT(faults(), ElementsAre(Fault{"V8", "rank 0, action 4: step 0",
                                          "the stage has no parameter that this schedule trains"}));
}

TEST_F(VerifyFaults, V8ReductionsOfReplicas) {
  const PlanSpec spec = {.edges = "", .in_flight = {2}, .samples = 4, .sizes = {2}, .widths = {2}};
  use(spec);
  ASSERT_THAT(faults(), ElementsAre());
  drop(0, "reduce #0");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V8", "rank 0", "never starts the reduction of bucket 0"}));
  use(spec);
  move_before(0, "reduce #0", "0B1");
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V8", "rank 0",
                                "starts the reduction of bucket 0 (action 4) before the last "
                                "backward of stage 0 (action 5), which adds to its gradients"}));
  use(spec);
  move_before(0, "step 0", "reduced #0");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V8", "rank 0",
                                          "steps stage 0 (action 7) before the reduction of "
                                          "bucket 0 is there (action 8)"}));
}

TEST_F(VerifyFaults, V8BucketsHoldEveryParameterOnce) {
  use({.edges = "", .in_flight = {2}, .samples = 4, .sizes = {2}, .widths = {2}});
  schedule_.buckets[0].params.pop_back();
  EXPECT_THAT(faults(),
              ElementsAre(Fault{"V8", "bucket 0", "has 80 bytes, and its parameters 64"},
                          Fault{"V8", "parameter 'op0.bias'",
                                "is held by ranks 0, 1, and no bucket sums its gradients"}));
  schedule_.buckets[0].params.push_back(ParamId(0));
  EXPECT_THAT(faults(), testing::Contains(
                            Fault{"V8", "bucket 0", "parameter 'op0.weight' is in bucket 0 too"}));
}

TEST_F(VerifyFaults, V8TiedWeightsAreSummedOverTheirStages) {
  use({.edges = "0>1 1>2", .in_flight = {3, 2, 1}, .samples = 2, .tied = {0, 2}});
  ASSERT_THAT(faults(), ElementsAre());
  schedule_.buckets[0].ranks = {RankId(0), RankId(1), RankId(2)};
  EXPECT_THAT(faults(), testing::Contains(
                            Fault{"V8", "parameter 'shared'",
                                  "is held by ranks 0, 2, but bucket 0 sums over ranks 0, 1, 2"}));
}

TEST_F(VerifyFaults, OfOneRuleAFewAreToldAndTheRestCounted) {
  use({.edges = "0>1", .in_flight = {2, 1}, .samples = 64});
  ASSERT_GT(schedule_.repeats, 16);
  std::vector<Action>& period = schedule_.ranks[0].period;
  const std::int64_t removed = std::erase_if(
      period, [](const Action& a) { return a.kind == ActionKind::kFree && !a.edge.valid(); });
  ASSERT_EQ(removed, 1);
  const std::vector<Fault> found = faults();
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found.back(),
            (Fault{"V4", "elsewhere", fmt::format("{} more", schedule_.repeats - 5)}));
  EXPECT_EQ(found[0].message, "what it saves is never freed");
}

// Faults of the plan come with the rule, place and words of plan/plan.h.
TEST(VerifyPlanFaults, PlansAreValidatedFirst) {
  const auto breaks = [](const std::string& rule, auto change) {
    TestPlan t = make_plan({.edges = "0>1 0>2 1>3 2>3", .samples = 8, .stages = 4});
    change(t.plan);
    std::string where;
    std::string message;
    try {
      validate(t.plan, t.graph, t.cluster, "plan");
    } catch (const InputError& error) {
      where = error.where();
      message = error.message();
    }
    const Verification verification = verify_plan(t.plan, t.graph, t.cluster, t.costs);
    ASSERT_EQ(verification.faults.size(), 1U) << rule;
    EXPECT_EQ(verification.faults[0].rule, rule);
    EXPECT_EQ(verification.faults[0].where, where);
    EXPECT_EQ(rule + ": " + verification.faults[0].message, message);
    EXPECT_TRUE(verification.memory.empty());
  };
  breaks("P1", [](Plan& plan) { plan.stages[1].ops.clear(); });
  breaks("P1", [](Plan& plan) { plan.stages[1].ops.insert(plan.stages[1].ops.begin(), OpId(0)); });
  breaks("P2", [](Plan& plan) {  // 0 and 3 together, around 1 and 2
    plan.stages[0].ops.insert(plan.stages[0].ops.end(), plan.stages[3].ops.begin(),
                              plan.stages[3].ops.end());
    plan.stages.pop_back();
    plan.edges.clear();
  });
  breaks("P3", [](Plan& plan) {
    plan.edges.push_back({StageId(3), StageId(0), EdgeKind::kOrder, {}, true});
  });
  breaks("P4", [](Plan& plan) { plan.edges[0].gradient = false; });
  breaks("P5", [](Plan& plan) { plan.stages[1].devices = plan.stages[0].devices; });
  breaks("P6", [](Plan& plan) { plan.stages[1].micro_batch = 9; });
  breaks("P7", [](Plan& plan) { plan.graph_hash += 1; });
}

TEST(VerifyPlanFaults, EvaluationIsVerifiedToo) {
  TestPlan t = make_plan({.edges = "0>1", .in_flight = {2, 1}, .samples = 8});
  t.cluster.types[0].memory_bytes = 100;
  const Verification verification = verify_plan(t.plan, t.graph, t.cluster, t.costs);
  std::vector<std::string> places;
  for (const Fault& fault : verification.faults) places.push_back(fault.where);
  EXPECT_THAT(places, ElementsAre(testing::StartsWith("rank 0, "), testing::StartsWith("rank 1, "),
                                  testing::StartsWith("evaluation, rank 0, "),
                                  testing::StartsWith("evaluation, rank 1, ")));
}

}  // namespace
}  // namespace graphpipe
