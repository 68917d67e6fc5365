#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"
#include "cluster/presets.h"
#include "plan/plan.h"
#include "plan/test_plans.h"

namespace graphpipe {
namespace {

// a, b | c | join, head, loss, score
Plan good_plan() {
  return chain_plan(two_branches(), {{"a", "b"}, {"c"}, {"join", "head", "loss", "score"}});
}

std::string fault(const Plan& plan) {
  try {
    validate(plan, two_branches(), preset_cluster("summit:4"), "p.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(PlanValidate, AcceptsADiamondOfStages) {
  EXPECT_EQ(fault(good_plan()), "");
  EXPECT_EQ(
      fault(chain_plan(two_branches(), {{"a"}, {"b"}, {"c"}, {"join", "head", "loss", "score"}})),
      "");
}

TEST(PlanValidate, AcceptsOrderEdges) {
  Plan plan = chain_plan(two_branches(), {{"a"}, {"b"}, {"c"}, {"join", "head", "loss", "score"}});
  add_chain_order(plan);
  EXPECT_EQ(fault(plan), "");
}

TEST(PlanValidate, P1AnOperatorInNoStage) {
  Plan plan = good_plan();
  plan.stages[2].ops.pop_back();
  EXPECT_EQ(fault(plan), "p.json: /stages: P1: operator 'score' is in no stage; add it to one");
}

TEST(PlanValidate, P1AnOperatorInTwoStages) {
  Plan plan = good_plan();
  plan.stages[1].ops = ops_named(two_branches(), {"b", "c"});
  EXPECT_EQ(fault(plan),
            "p.json: /stages/1/ops: P1: operator 'b' is in stage 0 too; it must be in exactly one");
}

TEST(PlanValidate, P1AnOperatorTwiceInAStage) {
  Plan plan = good_plan();
  plan.stages[1].ops = ops_named(two_branches(), {"c", "c"});
  EXPECT_EQ(fault(plan), "p.json: /stages/1/ops: P1: operator 'c' is listed twice");
}

TEST(PlanValidate, P1AnOperatorThatDoesNotExist) {
  Plan plan = good_plan();
  plan.stages[2].ops.back() = OpId(7);
  EXPECT_EQ(fault(plan),
            "p.json: /stages/2/ops: P1: operator 7 does not exist; the graph has 7, counted from "
            "0");
}

TEST(PlanValidate, P1OperatorsOutOfOrder) {
  Plan plan = good_plan();
  plan.stages[0].ops = ops_named(two_branches(), {"b", "a"});
  EXPECT_EQ(fault(plan),
            "p.json: /stages/0/ops: P1: operators must be ascending, but 1 stands before 0");
}

TEST(PlanValidate, P1AStageWithoutOperators) {
  Plan plan = good_plan();
  plan.stages.push_back({});
  EXPECT_EQ(fault(plan), "p.json: /stages/3/ops: P1: the stage has no operator; remove the stage");
}

TEST(PlanValidate, P2AStageThatIsNotConvex) {
  const Plan plan =
      chain_plan(two_branches(), {{"a", "b", "join"}, {"c"}, {"head", "loss", "score"}});
  EXPECT_EQ(fault(plan),
            "p.json: /stages/0/ops: P2: the stage is not convex: a path leaves it and comes back, "
            "so it would wait for itself; add the operators between, or split the stage");
}

// {a, d} and {b, c} with a -> b and c -> d: each is convex, together they are a cycle.
TEST(PlanValidate, P3AStageGraphWithACycle) {
  GraphBuilder g("cycle");
  const TensorId x = g.input("x", {2});
  g.relu("b", g.linear("a", x, 2));
  g.relu("d", g.linear("c", x, 2));
  const Graph four = std::move(g).build();
  Plan plan = chain_plan(four, {{"a", "d"}, {"b", "c"}});
  try {
    validate(plan, four, preset_cluster("summit:4"), "p.json");
    FAIL() << "the cycle was not found";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "p.json: /stages: P3: the stage graph has a cycle: 0 -> 1 -> 0; move operators "
                 "so that no stage waits for itself");
  }
}

TEST(PlanValidate, P3AnOrderEdgeThatClosesACycle) {
  Plan plan = good_plan();
  plan.edges.push_back({StageId(2), StageId(1), EdgeKind::kOrder, {}, true});
  EXPECT_EQ(fault(plan),
            "p.json: /stages: P3: the stage graph has a cycle: 1 -> 2 -> 1; move operators so that "
            "no stage waits for itself");
}

TEST(PlanValidate, P3StagesThatStandInAnOrderThatCannotRun) {
  const Plan plan =
      chain_plan(two_branches(), {{"c"}, {"a", "b"}, {"join", "head", "loss", "score"}});
  EXPECT_EQ(fault(plan),
            "p.json: /stages/0: P3: stage 0 stands before stage 1, which must run first; list "
            "stages in an order in which they can run");
}

TEST(PlanValidate, P3AnEdgeWithoutAnEnd) {
  Plan plan = good_plan();
  plan.edges.push_back({StageId(0), StageId(9), EdgeKind::kOrder, {}, true});
  EXPECT_EQ(fault(plan),
            "p.json: /edges/3: P3: stage 9 does not exist; there are 3, counted from 0");
  plan.edges.back().to = StageId(0);
  EXPECT_EQ(fault(plan), "p.json: /edges/3: P3: the edge joins stage 0 with itself; remove it");
}

TEST(PlanValidate, P4ADataEdgeThatIsMissing) {
  Plan plan = good_plan();
  plan.edges.erase(plan.edges.begin() + 1);
  EXPECT_EQ(fault(plan),
            "p.json: /edges: P4: there is no data edge from stage 0 to stage 2, though 'b' "
            "crosses; add it");
}

TEST(PlanValidate, P4ADataEdgeThatNothingCrosses) {
  Plan plan = chain_plan(two_branches(), {{"a"}, {"b"}, {"c"}, {"join", "head", "loss", "score"}});
  plan.edges.insert(plan.edges.begin() + 2, {StageId(1), StageId(2), EdgeKind::kData,
                                             tensors_named(two_branches(), {"b"}), true});
  EXPECT_EQ(fault(plan),
            "p.json: /edges/2: P4: no tensor crosses from stage 1 to stage 2; remove the edge or "
            "make it an order edge");
}

TEST(PlanValidate, P4TheTensorsOfAnEdge) {
  Plan plan = good_plan();
  plan.edges[1].tensors.push_back(TensorId(99));
  EXPECT_EQ(fault(plan),
            "p.json: /edges/1/tensors: P4: between stages 0 and 2 cross 'b', but the edge has 'b', "
            "number 99");
  plan.edges[1].tensors.clear();
  EXPECT_EQ(fault(plan),
            "p.json: /edges/1/tensors: P4: between stages 0 and 2 cross 'b', but the edge has no "
            "tensor");
}

TEST(PlanValidate, P4TheGradientOfAnEdge) {
  Plan plan = good_plan();
  plan.edges[0].gradient = false;
  EXPECT_EQ(fault(plan),
            "p.json: /edges/0/gradient: P4: expected true, since a gradient comes back from stage "
            "1 to 0");
}

TEST(PlanValidate, P4EdgesThatAreNotSorted) {
  Plan plan = good_plan();
  std::swap(plan.edges[0], plan.edges[1]);
  EXPECT_EQ(fault(plan),
            "p.json: /edges: P4: there is no data edge from stage 0 to stage 1, though 'a' "
            "crosses; add it");
  plan = good_plan();
  plan.edges.push_back({StageId(0), StageId(2), EdgeKind::kOrder, {}, true});
  EXPECT_EQ(fault(plan),
            "p.json: /edges/3: P4: edges must be sorted by (from, to, kind), without repeats");
}

TEST(PlanValidate, P4AnOrderEdgeWithATensor) {
  Plan plan = good_plan();
  plan.edges.insert(plan.edges.begin() + 1, {StageId(0), StageId(1), EdgeKind::kOrder,
                                             tensors_named(two_branches(), {"a"}), true});
  EXPECT_EQ(fault(plan), "p.json: /edges/1/tensors: P4: an order edge carries no tensor");
}

TEST(PlanValidate, P5AStageWithoutDevices) {
  Plan plan = good_plan();
  plan.stages[1].devices.clear();
  EXPECT_EQ(fault(plan),
            "p.json: /stages/1/devices: P5: the stage has no device; give it at least one");
}

TEST(PlanValidate, P5ADeviceThatDoesNotExist) {
  Plan plan = good_plan();
  plan.stages[1].devices = {DeviceId(4)};
  EXPECT_EQ(fault(plan),
            "p.json: /stages/1/devices: P5: device 4 does not exist; the cluster has 4, counted "
            "from 0");
}

TEST(PlanValidate, P5ADeviceTwice) {
  Plan plan = good_plan();
  plan.stages[1].devices = {DeviceId(1), DeviceId(1)};
  EXPECT_EQ(fault(plan), "p.json: /stages/1/devices: P5: device 1 is listed twice");
}

TEST(PlanValidate, P5ADeviceMayBeInSeveralStages) {
  Plan plan = good_plan();
  plan.stages[1].devices = plan.stages[0].devices;
  EXPECT_EQ(fault(plan), "");
}

TEST(PlanValidate, P6TheMicroBatch) {
  Plan plan = good_plan();
  plan.stages[1].micro_batch = 0;
  EXPECT_EQ(fault(plan),
            "p.json: /stages/1/micro_batch: P6: expected 1 to the mini-batch of 8, found 0");
  plan.stages[1].micro_batch = 9;
  EXPECT_EQ(fault(plan),
            "p.json: /stages/1/micro_batch: P6: expected 1 to the mini-batch of 8, found 9");
  plan.mini_batch = 0;
  EXPECT_EQ(fault(plan), "p.json: /mini_batch: P6: expected at least 1, found 0");
}

TEST(PlanValidate, P6SamplesInFlight) {
  Plan plan = good_plan();
  plan.stages[0].in_flight_samples = 5;
  EXPECT_EQ(fault(plan),
            "p.json: /stages/0/in_flight_samples: P6: expected a multiple of the micro-batch of 2, "
            "found 5");
  plan.stages[0].kfkb = 3;
  EXPECT_EQ(fault(plan),
            "p.json: /stages/0/in_flight_samples: P6: expected at least 6 (3 micro-batch(es) of 2, "
            "in a mini-batch of 8), found 5");
  plan.stages[0].in_flight_samples = 9;  // beyond the mini-batch it need not be a multiple
  EXPECT_EQ(fault(plan), "");
  plan.stages[0].kfkb = 0;
  EXPECT_EQ(fault(plan), "p.json: /stages/0/kfkb: P6: expected at least 1, found 0");
}

TEST(PlanValidate, P6MoreDevicesThanSamplesToSplit) {
  Plan plan = chain_plan(two_branches(), {{"a", "b", "c", "join", "head", "loss", "score"}});
  plan.stages[0].devices = {DeviceId(0), DeviceId(1), DeviceId(2)};
  EXPECT_EQ(fault(plan),
            "p.json: /stages/0/devices: P6: 3 devices split a micro-batch of 2; use at most 2 or a "
            "larger micro-batch");
  plan.stages[0].replication = Replication::kRoundRobin;
  EXPECT_EQ(fault(plan), "");
}

TEST(PlanValidate, P7AnotherGraph) {
  Plan plan = good_plan();
  plan.graph_hash = 255;
  EXPECT_EQ(fault(plan),
            "p.json: /graph_hash: P7: the plan was made for a graph with hash 00000000000000ff, "
            "but 'two-branch-test' has " +
                hash_text(graph_hash(two_branches())) + "; plan again for this model");
}

}  // namespace
}  // namespace graphpipe
