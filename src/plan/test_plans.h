// Small graphs and plans for this room's tests.

#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/builder.h"
#include "plan/plan.h"

namespace graphpipe {

//        b (relu)
//      /          .
//   a (linear)     join (add) -> head (linear) -> loss, score (a metric)
//      .          /
//        c (gelu)
inline Graph two_branch_graph() {
  GraphBuilder g("two-branch-test");
  const TensorId x = g.input("x", {6});
  const TensorId label = g.input("label", DType::kInt64, {});
  const TensorId a = g.linear("a", x, 4);
  const TensorId b = g.relu("b", a);
  const TensorId c = g.gelu("c", a);
  const TensorId head = g.linear("head", g.add("join", {b, c}), 3);
  g.loss(g.cross_entropy("loss", head, label));
  g.metric("accuracy", "mean", g.correct("score", head, label));
  return std::move(g).build();
}

inline std::vector<OpId> ops_named(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<OpId> ops;
  for (const std::string& name : names) {
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
      if (graph.ops[i].name == name) ops.emplace_back(i);
    }
  }
  EXPECT_EQ(ops.size(), names.size());
  return ops;
}

inline std::vector<TensorId> tensors_named(const Graph& graph,
                                           const std::vector<std::string>& names) {
  std::vector<TensorId> tensors;
  for (const std::string& name : names) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      if (graph.tensors[i].name == name) tensors.emplace_back(i);
    }
  }
  EXPECT_EQ(tensors.size(), names.size());
  return tensors;
}

inline Stage stage_of(const Graph& graph, const std::vector<std::string>& names, int device) {
  Stage stage;
  stage.ops = ops_named(graph, names);
  stage.devices = {DeviceId(device)};
  return stage;
}

// Stages of these operators in this order, one device each, with data edges, the mini-batch
// 8, micro-batches of 2 and all in flight.
inline Plan chain_plan(const Graph& graph, const std::vector<std::vector<std::string>>& stages) {
  Plan plan;
  plan.model = "two-branch-test";
  plan.graph_hash = graph_hash(graph);
  plan.planner = "by hand";
  plan.cluster = "summit:4";
  plan.options = "none";
  plan.costs = "analytic";
  plan.mini_batch = 8;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Stage stage = stage_of(graph, stages[s], static_cast<int>(s));
    stage.micro_batch = 2;
    stage.in_flight_samples = 8;
    plan.stages.push_back(stage);
  }
  plan.edges = data_edges(graph, plan.stages);
  return plan;
}

// One for all tests: plans point to it.
inline const Graph& two_branches() {
  static const Graph kGraph = two_branch_graph();
  return kGraph;
}

}  // namespace graphpipe
