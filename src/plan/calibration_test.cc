#include "plan/calibration.h"

#include <gtest/gtest.h>

#include "cluster/presets.h"
#include "plan/test_plans.h"

namespace graphpipe {
namespace {

// Every operator takes a second forward and two backward for each sample.
Profile seconds_profile(const Graph& graph) {
  Profile profile;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    ProfileEntry& entry = profile.entries[op_signature(graph, OpId(i))];
    entry.points = {{.samples = 1, .forward_s = 1, .backward_s = 2}};
  }
  return profile;
}

Plan two_stages(const Graph& graph) {
  Plan plan;
  plan.graph_hash = graph_hash(graph);
  plan.mini_batch = 4;
  plan.stages = {stage_of(graph, {"a", "b", "c"}, 0),
                 stage_of(graph, {"join", "head", "loss", "score"}, 1)};
  return plan;
}

double stage_s(const Plan& plan, int stage, const Graph& graph, const Profile& profile) {
  return operators_s(plan, StageId(stage), graph, preset_cluster("local:2"),
                     ProfiledCosts(profile, "p.json"));
}

TEST(Calibration, StagesThenTakeWhatWasMeasured) {
  const Graph graph = two_branch_graph();
  const Plan plan = two_stages(graph);
  const Profile profile = seconds_profile(graph);
  EXPECT_DOUBLE_EQ(stage_s(plan, 0, graph, profile), 3 * 3 * 4);
  const Profile once =
      calibrated_profile(profile, plan, graph, preset_cluster("local:2"), {54, 24});
  EXPECT_DOUBLE_EQ(stage_s(plan, 0, graph, once), 54);
  EXPECT_DOUBLE_EQ(stage_s(plan, 1, graph, once), 24);
  // Again, from there.
  const Profile twice = calibrated_profile(once, plan, graph, preset_cluster("local:2"), {27, 24});
  EXPECT_DOUBLE_EQ(stage_s(plan, 0, graph, twice), 27);
  EXPECT_DOUBLE_EQ(stage_s(plan, 1, graph, twice), 24);
}

TEST(Calibration, ASignatureInTwoStagesTakesTheMean) {
  GraphBuilder g("twice");
  TensorId x = g.input("x", {4});
  x = g.linear("a", x, 4);
  g.linear("b", x, 4);
  const Graph graph = std::move(g).build();
  Plan plan;
  plan.graph_hash = graph_hash(graph);
  plan.stages = {stage_of(graph, {"a"}, 0), stage_of(graph, {"b"}, 1)};
  const Profile result = calibrated_profile(seconds_profile(graph), plan, graph,
                                            preset_cluster("local:2"), {3 * 2.0, 3 * 4.0});
  ASSERT_EQ(result.entries.size(), 1U);
  EXPECT_DOUBLE_EQ(result.entries.begin()->second.calibration, 3);
}

TEST(Calibration, WhatWasNotMeasuredStays) {
  const Graph graph = two_branch_graph();
  const Plan plan = two_stages(graph);
  const Profile profile = seconds_profile(graph);
  const Profile result =
      calibrated_profile(profile, plan, graph, preset_cluster("local:2"), {0, 24});
  EXPECT_DOUBLE_EQ(stage_s(plan, 0, graph, result), stage_s(plan, 0, graph, profile));
  EXPECT_DOUBLE_EQ(stage_s(plan, 1, graph, result), 24);
}

}  // namespace
}  // namespace graphpipe
