// A chain of operators whose gradients are too large for a common bucket, on replicas: for
// what happens within a backward.

#pragma once

#include <string>
#include <utility>

#include "cost/linear_costs.h"
#include "graph/builder.h"
#include "plan/plan.h"
#include "schedule/test_plans.h"

namespace graphpipe {

struct LargeChain {
  static constexpr int kOps = 4;
  static constexpr std::int64_t kWidth = 2600;  // a weight of 27 MB
  static constexpr std::int64_t kWeightBytes = kWidth * kWidth * 4;

  // One stage on `devices`, a sample each in one micro-batch. Forward 1 s and backward 2 s
  // an operator; a weight's sum over two devices takes `reduce_s`.
  explicit LargeChain(double reduce_s, int devices = 2) {
    GraphBuilder g("large");
    TensorId x = g.input("x", {kWidth});
    for (int i = 0; i < kOps; ++i) x = g.linear("op" + std::to_string(i), x, kWidth, false);
    g.loss(g.mse_loss("loss", x, g.input("y", {kWidth})));
    graph = std::move(g).build();
    std::vector<LinearOpCost> unit(graph.op_count(), {1, 2, 0});
    unit.back() = {0, 0, 0};
    costs = LinearCosts("unit", unit);
    cluster = test_cluster(devices);
    cluster.levels[0].link.bandwidth_bytes_per_s = static_cast<double>(kWeightBytes) / reduce_s;
    plan.graph_hash = graph_hash(graph);
    plan.mini_batch = devices;
    Stage stage;
    for (std::size_t op = 0; op < graph.op_count(); ++op) stage.ops.emplace_back(op);
    for (int d = 0; d < devices; ++d) stage.devices.emplace_back(d);
    stage.micro_batch = devices;
    stage.in_flight_samples = devices;
    plan.stages = {stage};
    canonicalise(plan, graph);
  }

  Graph graph;
  LinearCosts costs{"none", {}};
  Cluster cluster;
  Plan plan;
};

}  // namespace graphpipe
