// Every fault that the verifier must find in values, tasks and updates (V4 to V8), seeded into a
// good schedule, with the whole of what it says. Messages are for people: each names a place and
// what is wrong.

#include "schedule/test_faults.h"

namespace graphpipe {
namespace {

using testing::ElementsAre;

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
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 1, action 12: free 0>1 F [2,4)",
                                          "is freed a second time"}));
}

TEST_F(VerifyFaults, V4AFreeComesEarly) {
  move_before(0, "free 0 [2,4)", "0B1");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 0, action 15: free 0 [2,4)",
                                          "is freed before 0B1, which needs it"},
                                    Fault{"V4", "rank 0, action 16: 0B1",
                                          "uses what its forward saved, which was freed before"}));
  SetUp();
  move_before(1, "free 0>1 F [2,4)", "1F1");
  EXPECT_THAT(faults(), ElementsAre(Fault{"V4", "rank 1, action 10: free 0>1 F [2,4)",
                                          "is freed before the last task that needs it"},
                                    Fault{"V4", "rank 1, action 11: 1F1",
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
                                    Fault{"V4", "rank 1, action 21: free 1 [4,6)",
                                          "is freed before 1B2, which needs it"},
                                    Fault{"V7", "rank 1, action 20: send 0>1 B [4,6)",
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
  EXPECT_THAT(faults(), ElementsAre(Fault{"V7", "rank 1, action 13: 1B1", "runs a second time"}));
  action(1, "1B1").micro_batch = 5;
  EXPECT_THAT(faults(), testing::Contains(
                            Fault{"V7", "rank 1, action 12: 1B5",
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
                                "steps stage 1 (action 18) before its last backward (action 19)"}));
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

// No action of a program can be left out, and none can come twice.
TEST_F(VerifyFaults, EveryActionCounts) {
  for (const PlanSpec& spec :
       {PlanSpec{.edges = "0>1 0>2 1>2", .in_flight = {3, 2, 1}, .samples = 4, .tied = {0, 2}},
        PlanSpec{
            .edges = "0>1", .in_flight = {4, 2}, .samples = 5, .sizes = {2, 1}, .widths = {2, 1}},
        PlanSpec{.edges = "0>1",
        .in_flight = {4, 2},
        .samples = 64,
        .widths = {1, 2},
        .in_turn = {false, true}}}) {
    use(spec);
    const Schedule good = schedule_;
    ASSERT_THAT(faults(), ElementsAre());
    for (RankProgram& program : schedule_.ranks) {
      for (auto* section : {&program.prologue, &program.period, &program.epilogue}) {
        for (std::size_t i = 0; i < section->size(); ++i) {
          const auto at = section->begin() + static_cast<std::ptrdiff_t>(i);
          const Action action = *at;
          section->erase(at);
          EXPECT_FALSE(faults().empty()) << "without " << to_text(action, t_.plan);
          section->insert(section->begin() + static_cast<std::ptrdiff_t>(i), 2, action);
          EXPECT_FALSE(faults().empty()) << "with twice " << to_text(action, t_.plan);
          section->erase(section->begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
    }
    EXPECT_EQ(schedule_, good);
  }
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
  breaks("P5", [](Plan& plan) { plan.stages[1].devices = {DeviceId(1), DeviceId(1)}; });
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

// 0F0 1F0 1B0 free 1, 0B0 free 0, 0F1 ... on one rank.
class VerifySharedRank : public VerifyFaults {
 protected:
  void SetUp() override {
    use({.edges = "0>1", .in_flight = {1, 1}, .samples = 2, .on = {0, 0}});
    ASSERT_THAT(faults(), testing::ElementsAre());
  }
};

TEST_F(VerifySharedRank, V7ATaskBeforeTheOneThatMakesItsInput) {
  swap(0, "0F0", "1F0");
  EXPECT_THAT(faults(),
              testing::Contains(Fault{"V7", "rank 0, action 0: 1F0",
                                      "needs what 0F0 makes on this rank, and it has not run"}));
}

TEST_F(VerifySharedRank, V7ABackwardBeforeTheOneThatMakesItsGradients) {
  swap(0, "0B0", "1B0");
  EXPECT_THAT(faults(), testing::Contains(
                            Fault{"V7", "rank 0, action 2: 0B0",
                                  "needs the gradients of 1B0 on this rank, and it has not run"}));
}

TEST_F(VerifySharedRank, V4AValueThatIsFreedBeforeItIsReadOnTheRank) {
  move_before(0, "free 0 [0,1)", "1F0");
  EXPECT_THAT(faults(),
              testing::IsSupersetOf({Fault{"V4", "rank 0, action 1: free 0 [0,1)",
                                           "is freed before 0B0, which needs it"},
                                     Fault{"V4", "rank 0, action 1: free 0 [0,1)",
                                           "is freed before 1B0, which reads it on this rank"},
                                     Fault{"V4", "rank 0, action 2: 1F0",
                                           "uses what 0F0 made on this rank, which was freed"}}));
}

class VerifyHalves : public VerifyFaults {
 protected:
  void SetUp() override {
    use({.edges = "0>1", .in_flight = {2, 2}, .samples = 2, .kind = ScheduleKind::kZbH1});
    ASSERT_THAT(faults(), testing::ElementsAre());
  }
};

TEST_F(VerifyHalves, V4AWeightHalfBeforeItsInputHalf) {
  swap(1, "1I0", "1W0");
  EXPECT_THAT(faults(),
              testing::Contains(testing::Field(
                  &Fault::message, "runs before its input half, which makes its gradients")));
}

TEST_F(VerifyHalves, V4AFreeBetweenTheHalves) {
  move_before(0, "free 0 [0,1)", "0W0");
  EXPECT_THAT(faults(),
              testing::IsSupersetOf(
                  {testing::Field(&Fault::message, "is freed before 0W0, which needs it"),
                   testing::Field(&Fault::message,
                                  "uses what its forward saved, which was freed before")}));
}

TEST_F(VerifyHalves, V7AHalfThatIsMissing) {
  drop(0, "0W1");
  EXPECT_THAT(faults(),
              testing::Contains(Fault{"V7", "rank 0",
                                      "stage 0 never runs micro-batch 1 backward, samples [1,2)"}));
}

TEST_F(VerifyHalves, V7AWholeBesideItsHalves) {
  repeat(0, "0I0");
  action(0, "0I0").kind = ActionKind::kBackward;
  EXPECT_THAT(faults(),
              testing::Contains(Fault{
                  "V7", "rank 0", "stage 0 runs micro-batch 0 backward as a whole and in halves"}));
}

TEST_F(VerifyHalves, V8AStepBeforeTheLastWeightHalf) {
  move_before(0, "step 0", "0W1");
  EXPECT_THAT(faults(), testing::Contains(testing::Field(&Fault::rule, "V8")));
}

class VerifySharedParameter : public VerifyFaults {
 protected:
  void SetUp() override {
    use({.edges = "0>1", .in_flight = {1, 1}, .samples = 1, .tied = {0, 1}, .on = {0, 0}});
    ASSERT_THAT(faults(), testing::ElementsAre());
  }
};

TEST_F(VerifySharedParameter, V8AStepBeforeTheLastBackwardOfAnotherStageOfTheRank) {
  move_before(0, "step 1", "0B0");
  EXPECT_THAT(faults(),
              testing::ElementsAre(
                  Fault{"V8", "rank 0",
                        "steps stage 1 (action 4) before the last backward of stage 0 (action 5), "
                        "which shares a parameter"}));
}

class VerifyRecompute : public VerifyFaults {
 protected:
  void SetUp() override {
    use({.edges = "0>1", .in_flight = {2, 1}, .samples = 2, .recompute = {0}});
    ASSERT_THAT(faults(), testing::ElementsAre());
  }
};

TEST_F(VerifyRecompute, V7ABackwardWithoutItsRecompute) {
  drop(0, "0R0");
  EXPECT_THAT(
      faults(),
      testing::ElementsAre(
          Fault{"V4", "rank 0, action 7: 0B0",
                "runs before its forward has run again, so its values are not there"},
          Fault{"V7", "rank 0", "stage 0 never runs micro-batch 0 forward again, samples [0,1)"}));
}

TEST_F(VerifyRecompute, V4ARecomputeAfterItsValuesAreFreed) {
  move_before(0, "0R0", "0R1");
  EXPECT_THAT(faults(),
              testing::ElementsAre(
                  Fault{"V4", "rank 0, action 7: 0B0",
                        "runs before its forward has run again, so its values are not there"},
                  Fault{"V4", "rank 0, action 10: 0R0",
                        "uses what its forward saved, which was freed before"}));
}

TEST_F(VerifyRecompute, V7ARecomputeThatThePlanDoesNotWant) {
  t_.plan.stages[0].recompute = false;
  EXPECT_THAT(
      faults(),
      testing::ElementsAre(
          Fault{"V7", "rank 0, action 6: 0R0", "the stage does not recompute in this schedule"},
          Fault{"V7", "rank 0, action 11: 0R1", "the stage does not recompute in this schedule"}));
}

}  // namespace
}  // namespace graphpipe
