// Schedules of asynchronous pipelines: a stream of mini-batches with a step after each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/stage_memory.h"
#include "plan/weight_versions.h"
#include "schedule/build.h"
#include "schedule/drawing.h"
#include "schedule/lower.h"
#include "schedule/stream_updates.h"
#include "schedule/test_faults.h"

namespace graphpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr WeightPolicy kPolicies[] = {WeightPolicy::kStash, WeightPolicy::kVerticalSync,
                                      WeightPolicy::k2bw, WeightPolicy::kNaive};

struct NamedGraph {
  const char* edges;
  int stages;
  std::vector<int> widths = {};  // of replicas in turn; none: one device a stage
};
const NamedGraph kGraphs[] = {
    {"", 1},
    {"0>1", 2},
    {"0>1 1>2", 3},
    {"0>1 1>2 2>3 3>4 4>5", 6},
    {"0>1 0>2 1>3 2>3", 4},          // fork and join
    {"0>2 1>2", 3},                  // join of two that enter
    {"0>1 1>2 2>5 3>4 4>5 0>5", 6},  // branches of unlike lengths and a skip
    {"", 1, {3}},
    {"0>1", 2, {7, 1}},
    {"0>1", 2, {1, 3}},
    {"0>1 1>2", 3, {2, 3, 1}},
    {"0>1 1>2", 3, {1, 3, 1}},
    {"0>1 1>2", 3, {3, 1, 2}},
    {"0>1 0>2 1>3 2>3", 4, {2, 1, 3, 2}},
    {"0>2 1>2", 3, {2, 3, 1}},
};

// Micro-batches of one sample; of 2BW as many to a mini-batch as any stage has in flight.
TestPlan stream_plan(const NamedGraph& graph, WeightPolicy policy, std::int64_t scale = 1) {
  PlanSpec spec{.edges = graph.edges, .in_flight_scale = scale, .weights = policy};
  spec.stages = graph.stages;
  spec.widths = graph.widths;
  for (const int width : graph.widths) spec.in_turn.push_back(width > 1);
  TestPlan test = make_plan(spec);
  if (policy == WeightPolicy::k2bw) {
    for (const Stage& stage : test.plan.stages) {
      test.plan.mini_batch = std::max(test.plan.mini_batch, stage.in_flight_samples);
    }
  }
  return test;
}

std::vector<std::string> updates_of(const Schedule& schedule, const Plan& plan, int rank) {
  std::vector<std::string> result;
  for (ActionCursor at(schedule, plan, RankId(rank)); !at.done(); at.next()) {
    const ActionKind kind = at.action().kind;
    if (is_compute(kind) || kind == ActionKind::kStartReduce || kind == ActionKind::kWaitReduce ||
        kind == ActionKind::kStep || kind == ActionKind::kMakeVersion ||
        kind == ActionKind::kDropVersion) {
      result.push_back(to_text(at.action(), plan));
    }
  }
  return result;
}

TEST(Stream, AStashedChainOfTwo) {
  const TestPlan t = stream_plan({"0>1", 2}, WeightPolicy::kStash);
  const Schedule schedule = lower(build_schedule(t.plan, t.graph, 4), t.plan, t.graph);
  EXPECT_THAT(updates_of(schedule, t.plan, 0),
              ElementsAre("0F0", "0F1", "0B0", "keep 0 v0", "step 0 to v1", "0F2",  //
                          "0B1", "drop 0 v0", "keep 0 v1", "step 0 to v2", "0F3",   //
                          "0B2", "drop 0 v1", "keep 0 v2", "step 0 to v3",          //
                          "0B3", "drop 0 v2", "step 0 to v4"));
  EXPECT_THAT(updates_of(schedule, t.plan, 1),
              ElementsAre("1F0", "1B0", "step 1 to v1", "1F1", "1B1", "step 1 to v2",  //
                          "1F2", "1B2", "step 1 to v3", "1F3", "1B3", "step 1 to v4"));
}

TEST(Stream, OfNaiveNothingIsKept) {
  const TestPlan t = stream_plan({"0>1", 2}, WeightPolicy::kNaive);
  const Schedule schedule = lower(build_schedule(t.plan, t.graph, 3), t.plan, t.graph);
  EXPECT_THAT(updates_of(schedule, t.plan, 0),
              ElementsAre("0F0", "0F1", "0B0", "step 0 to v1", "0F2", "0B1", "step 0 to v2", "0B2",
                          "step 0 to v3"));
}

TEST(Stream, Of2bwTheLastMiniBatchMayBeShort) {
  const TestPlan t = stream_plan({"0>1", 2}, WeightPolicy::k2bw);
  const Schedule schedule = lower(build_schedule(t.plan, t.graph, 5), t.plan, t.graph);
  EXPECT_THAT(updates_of(schedule, t.plan, 1),
              ElementsAre("1F0", "1B0", "1F1", "1B1", "keep 1 v0", "step 1 to v2",  //
                          "1F2", "1B2", "1F3", "1B3", "drop 1 v0", "keep 1 v2", "step 1 to v4",
                          "1F4", "1B4", "drop 1 v2", "step 1 to v5"));
}

// 1F1B-RR: replicas step together, by the mean of a round of micro-batches.
TEST(Stream, ReplicasTakeTurns) {
  const TestPlan t = stream_plan({"0>1", 2, {2, 1}}, WeightPolicy::kStash);
  ASSERT_EQ(t.plan.stages[0].in_flight_samples, 4);
  const Schedule schedule = lower(build_schedule(t.plan, t.graph, 7), t.plan, t.graph);
  EXPECT_THAT(
      updates_of(schedule, t.plan, 0),
      ElementsAre("0F0", "0F2",  //
                  "0B0", "reduce #0 to v2", "reduced #0 to v2", "keep 0 v0", "step 0 to v2",
                  "0F4",  //
                  "0B2", "drop 0 v0", "reduce #0 to v4", "reduced #0 to v4", "keep 0 v2",
                  "step 0 to v4", "0F6",  //
                  "0B4", "drop 0 v2", "reduce #0 to v6", "reduced #0 to v6", "keep 0 v4",
                  "step 0 to v6",  //
                  "0B6", "drop 0 v4", "reduce #0 to v7", "reduced #0 to v7", "step 0 to v7"));
  EXPECT_THAT(updates_of(schedule, t.plan, 1),
              ElementsAre("0F1", "0F3",  //
                          "0B1", "reduce #0 to v2", "reduced #0 to v2", "keep 0 v0", "step 0 to v2",
                          "0F5",  //
                          "0B3", "drop 0 v0", "reduce #0 to v4", "reduced #0 to v4", "keep 0 v2",
                          "step 0 to v4",  //
                          "0B5", "drop 0 v2", "reduce #0 to v6", "reduced #0 to v6", "step 0 to v6",
                          "reduce #0 to v7", "reduced #0 to v7", "step 0 to v7"));
}

TEST(Stream, AReplicaWithoutWorkTakesPartInTheSteps) {
  const TestPlan t = stream_plan({"", 1, {3}}, WeightPolicy::kStash);
  const Schedule schedule = lower(build_schedule(t.plan, t.graph, 1), t.plan, t.graph);
  EXPECT_THAT(updates_of(schedule, t.plan, 2),
              ElementsAre("reduce #0 to v1", "reduced #0 to v1", "step 0 to v1"));
}

TEST(Stream, ReplicasMaySplitEachMicroBatch) {
  TestPlan t = make_plan({.edges = "0>1",
                          .samples = 4,
                          .sizes = {4, 4},
                          .widths = {2, 1},
                          .weights = WeightPolicy::kStash,
                          .stages = 2});
  for (const std::int64_t samples : {1, 4, 6, 18, 64, 200}) {
    const Schedule schedule = lower(build_schedule(t.plan, t.graph, samples), t.plan, t.graph);
    EXPECT_THAT(verify(schedule, t.plan, t.graph, t.cluster, t.costs).faults, IsEmpty()) << samples;
  }
}

TEST(Stream, EveryLengthIsProvenAndWithinTheMemoryOfItsPlan) {
  for (const NamedGraph& graph : kGraphs) {
    for (const WeightPolicy policy : kPolicies) {
      for (const std::int64_t scale : {1, 2}) {
        const TestPlan t = stream_plan(graph, policy, scale);
        for (std::int64_t samples = 1; samples <= 40; samples += samples < 12 ? 1 : 7) {
          const Schedule schedule =
              lower(build_schedule(t.plan, t.graph, samples), t.plan, t.graph);
          const Verification proven = verify(schedule, t.plan, t.graph, t.cluster, t.costs);
          const std::string where = fmt::format("{} {} x{} over {}", graph.edges,
                                                weight_policy_name(policy), scale, samples);
          ASSERT_THAT(proven.faults, IsEmpty()) << where;
          for (std::size_t s = 0; s < t.plan.stages.size(); ++s) {
            const StageMemory memory =
                stage_memory(t.plan, t.graph, t.costs, t.cluster.type_of(DeviceId(0)), StageId(s));
            for (const DeviceId device : t.plan.stages[s].devices) {
              EXPECT_LE(proven.memory[schedule.rank_of(device).index()].peak_bytes, memory.total())
                  << where << ", stage " << s;
            }
          }
        }
      }
    }
  }
}

// The size of a schedule does not grow with the stream, and what it stands for is what is made
// without a period.
TEST(Stream, APeriodStandsForWhatIsWrittenOut) {
  for (const NamedGraph& graph : kGraphs) {
    for (const WeightPolicy policy : kPolicies) {
      const TestPlan t = stream_plan(graph, policy);
      const std::int64_t samples = 120;
      const Schedule compute = build_schedule(t.plan, t.graph, samples);
      const Schedule schedule = lower(compute, t.plan, t.graph);
      const std::string where = fmt::format("{} {}", graph.edges, weight_policy_name(policy));
      EXPECT_GT(schedule.repeats, 1) << where;
      Schedule flat = compute;
      flat.repeats = 0;
      flat.period_samples = 0;
      for (std::size_t r = 0; r < flat.ranks.size(); ++r) {
        flat.ranks[r] = {.device = compute.ranks[r].device};
        for (ActionCursor at(compute, t.plan, RankId(r)); !at.done(); at.next()) {
          flat.ranks[r].prologue.push_back(at.action());
        }
      }
      const Schedule written = lower(flat, t.plan, t.graph);
      for (std::size_t r = 0; r < flat.ranks.size(); ++r) {
        const int rank = static_cast<int>(r);
        EXPECT_EQ(updates_of(schedule, t.plan, rank), updates_of(written, t.plan, rank)) << where;
      }
    }
  }
}

TEST(Stream, PlansOfAnotherKindAreRefused) {
  const auto refused = [](PlanSpec spec, WeightPolicy policy) -> std::string {
    TestPlan t = make_plan(spec);
    t.plan.weights = policy;
    try {
      validate(t.plan, t.graph, t.cluster, "p");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const auto stash = [&](PlanSpec spec) { return refused(std::move(spec), WeightPolicy::kStash); };
  EXPECT_EQ(stash({.edges = "0>1", .in_flight = {2, 1}, .samples = 1}), "");
  EXPECT_THAT(stash({.edges = "0>1", .in_flight = {2, 2}, .samples = 2, .sizes = {1, 2}}),
              HasSubstr("/stages/0/micro_batch: P8: an asynchronous pipeline steps after each"));
  EXPECT_THAT(stash({.edges = "0>1",
                     .in_flight = {3, 1},
                     .samples = 1,
                     .widths = {2, 1},
                     .in_turn = {true, false}}),
              HasSubstr("/stages/0/in_flight_samples: P8: 2 devices take turns and step together; "
                        "expected a multiple of 2 micro-batches of 1, found 3"));
  EXPECT_THAT(
      stash({.edges = "0>1", .in_flight = {8, 4}, .samples = 4, .sizes = {4, 4}, .widths = {3, 1}}),
      HasSubstr("/stages/0/devices: P8: split over 3 devices in shares of 2"));
  EXPECT_THAT(stash({.edges = "0>1", .in_flight = {2, 1}, .samples = 1, .tied = {0, 1}}),
              HasSubstr("P8: parameter 'shared' is of stage 0 too"));
  EXPECT_THAT(stash({.edges = "0>1", .in_flight = {2, 1}, .samples = 1, .recompute = {0}}),
              HasSubstr("P8: an asynchronous pipeline does not run forwards again"));
  EXPECT_THAT(stash({.edges = "0>1", .in_flight = {2, 1}, .samples = 1, .on = {0, 0}}),
              HasSubstr("P8: a device has several stages"));
  EXPECT_THAT(refused({.edges = "0>1", .in_flight = {3, 1}, .samples = 2, .sizes = {1, 1}},
                      WeightPolicy::k2bw),
              HasSubstr("P8: 2bw keeps two versions"));
}

class StreamFaults : public VerifyFaults {
 protected:
  void SetUp() override {
    t_ = stream_plan({"0>1 1>2", 3}, WeightPolicy::kStash);
    schedule_ = lower(build_schedule(t_.plan, t_.graph, 6), t_.plan, t_.graph);
    ASSERT_EQ(schedule_.repeats, 0);
    ASSERT_THAT(faults(), IsEmpty());
  }
  std::string first_fault() const {
    const std::vector<Fault> found = faults();
    return found.empty() ? "" : found[0].rule + ": " + found[0].where + ": " + found[0].message;
  }
  void remove(const std::string& text) {
    const Place place = find(0, text);
    place.section->erase(place.section->begin() + place.index);
  }
  void insert_before(const std::string& text, const Action& action) {
    const Place place = find(0, text);
    place.section->insert(place.section->begin() + place.index, action);
  }
  Action action(const std::string& text) {
    const Place place = find(0, text);
    return (*place.section)[static_cast<std::size_t>(place.index)];
  }
};

TEST_F(StreamFaults, AVersionThatIsOverwritten) {
  remove("keep 0 v1");
  EXPECT_THAT(first_fault(), HasSubstr("step 0 to v2: replaces version 1, which is used later"));
}

TEST_F(StreamFaults, AVersionThatIsDroppedTooEarly) {
  const Action drop = action("drop 0 v0");
  remove("drop 0 v0");
  insert_before("0B1", drop);
  EXPECT_THAT(first_fault(), HasSubstr("drop 0 v0: it is used later"));
}

TEST_F(StreamFaults, AVersionThatStays) {
  remove("drop 0 v0");
  EXPECT_THAT(first_fault(), HasSubstr("version 0 is kept, and nothing uses it from here on"));
}

TEST_F(StreamFaults, AStepThatIsMissing) {
  remove("step 0 to v2");
  EXPECT_THAT(first_fault(), HasSubstr("0F4: comes before the step to v2"));
}

TEST_F(StreamFaults, AStepTwice) {
  insert_before("0F3", action("step 0 to v1"));
  EXPECT_THAT(first_fault(), HasSubstr("no mini-batch's gradients are there"));
}

class ReplicatedStreamFaults : public StreamFaults {
 protected:
  void SetUp() override {
    t_ = stream_plan({"0>1", 2, {2, 1}}, WeightPolicy::kStash);
    schedule_ = lower(build_schedule(t_.plan, t_.graph, 6), t_.plan, t_.graph);
    ASSERT_EQ(schedule_.repeats, 0);
    ASSERT_THAT(faults(), IsEmpty());
  }
};

TEST_F(ReplicatedStreamFaults, AStepWithoutTheSum) {
  remove("reduced #0 to v2");
  EXPECT_THAT(first_fault(), HasSubstr("step 0 to v2: the sum of bucket 0 is not there"));
}

TEST_F(ReplicatedStreamFaults, ASumBeforeItsBackward) {
  const Action sum = action("reduce #0 to v2");
  remove("reduce #0 to v2");
  insert_before("0B0", sum);
  EXPECT_THAT(first_fault(), HasSubstr("reduce #0 to v2: micro-batch 0 is still to add to v2"));
}

TEST_F(ReplicatedStreamFaults, ASumTwice) {
  insert_before("reduced #0 to v2", action("reduce #0 to v2"));
  EXPECT_THAT(first_fault(), HasSubstr("reduce #0 to v2: it is started already"));
}

TEST_F(ReplicatedStreamFaults, AReplicaThatLeavesOutARound) {
  for (const char* text : {"reduce #0 to v6", "reduced #0 to v6", "step 0 to v6"}) remove(text);
  EXPECT_THAT(first_fault(), HasSubstr("rank 0: never steps to version 6"));
}

// Reductions that are no longer in each replica's order: all would wait for one another.
TEST_F(ReplicatedStreamFaults, AForwardBehindTheSumThatOthersNeedFirst) {
  const Action forward = action("0F2");
  remove("0F2");
  insert_before("0F4", forward);
  EXPECT_THAT(first_fault(), Not(HasSubstr("internal")));
  EXPECT_FALSE(faults().empty());
}

TEST_F(StreamFaults, AVersionInSynchronousTraining) {
  const Action keep = action("keep 0 v0");
  t_ = make_plan({.edges = "0>1", .in_flight = {4, 2}, .samples = 6, .sizes = {2, 2}});
  schedule_ = lower(build_schedule(t_.plan, t_.graph, 6), t_.plan, t_.graph);
  schedule_.ranks[0].prologue.push_back(keep);
  EXPECT_THAT(first_fault(), HasSubstr("synchronous training has one version of the weights"));
}

}  // namespace
}  // namespace graphpipe
