// Small problems with seeded random costs, for the planners' tests.

#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/counter_random.h"
#include "planners/planner.h"

namespace graphpipe {

// Seconds are affine in samples, so that halving a task does not halve its time.
class AffineCosts : public CostModel {
 public:
  struct Op {
    double fixed_s = 0;
    double per_sample_s = 0;  // forward; a backward takes twice as long
    std::int64_t saved_bytes_per_sample = 0;
    std::int64_t workspace_bytes_per_sample = 0;
  };
  OpCost op_cost(const Graph& /*graph*/, OpId op, std::int64_t samples, int /*tensor_degree*/,
                 const DeviceType& device, Phase phase) const override {
    if (samples == 0) return {};
    const Op& unit = ops[op.index()];
    const auto slower = seconds_of_type.find(device.name);
    const double forward_s = (slower == seconds_of_type.end() ? 1 : slower->second) *
                             (unit.fixed_s + static_cast<double>(samples) * unit.per_sample_s);
    return {.seconds = phase == Phase::kBackward ? 2 * forward_s : forward_s,
            .workspace_bytes = samples * unit.workspace_bytes_per_sample,
            .saved_bytes = phase == Phase::kForward ? samples * unit.saved_bytes_per_sample : 0};
  }
  std::string name() const override { return "affine"; }
  std::vector<Op> ops;
  std::map<std::string, double> seconds_of_type;  // times as long on devices of this name
};

// before[op]: the operators that it reads, all smaller.
using Dependencies = std::vector<std::vector<int>>;

// Owns what a Problem points to. Graphs are not of real shapes: an operator makes one
// tensor of any size, reads whole tensors, and holds one parameter of its own.
struct TestProblem {
  Graph graph;
  Cluster cluster;
  AffineCosts costs;
  PlanOptions options;
  std::int64_t mini_batch = 1;

  Problem problem() const {
    Problem problem;
    problem.graph = &graph;
    problem.cluster = &cluster;
    problem.costs = &costs;
    problem.mini_batch = mini_batch;
    problem.options = options;
    problem.model_argument = "test";
    problem.cluster_argument = "test";
    return problem;
  }
};

inline Cluster test_cluster(int devices, int per_node = 4) {
  Cluster cluster;
  cluster.name = "test";
  cluster.types = {{.name = "device",
                    .peak_flops_per_s = 1e12,
                    .memory_bandwidth_bytes_per_s = 1e12,
                    .memory_bytes = std::int64_t{1} << 40}};
  cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
  const int nodes = (devices + per_node - 1) / per_node;
  cluster.levels = {
      {.name = "node", .group_size = per_node, .link = {.bandwidth_bytes_per_s = 1e12}},
      {.name = "cluster", .group_size = nodes, .link = {.bandwidth_bytes_per_s = 1e11}}};
  return cluster;
}

inline void add_test_op(Graph& graph, const std::vector<int>& before, std::int64_t elements,
                        std::int64_t parameters) {
  const int op = static_cast<int>(graph.ops.size());
  const std::string name = "op" + std::to_string(op);
  Operator added;
  added.name = name;
  added.kind = OpKind::kAdd;
  for (const int u : before)
    added.inputs.push_back(graph.ops[static_cast<std::size_t>(u)].outputs[0]);
  if (before.empty()) {
    added.inputs.push_back(TensorId(graph.tensors.size()));
    graph.inputs.push_back(added.inputs.back());
    graph.tensors.push_back({name + ".x", DType::kFloat32, true, {elements}, OpId()});
  }
  added.params.push_back(ParamId(graph.params.size()));
  graph.params.push_back({name + ".weight", DType::kFloat32, {parameters}, {}, true});
  added.outputs.push_back(TensorId(graph.tensors.size()));
  graph.tensors.push_back({name, DType::kFloat32, true, {elements}, OpId(op)});
  graph.ops.push_back(std::move(added));
}

// Every operator that no other reads is a loss.
inline void add_test_losses(Graph& graph, const Dependencies& before) {
  std::vector<bool> read(before.size());
  for (const std::vector<int>& ops : before) {
    for (const int u : ops) read[static_cast<std::size_t>(u)] = true;
  }
  for (std::size_t op = 0; op < before.size(); ++op) {
    if (!read[op]) graph.losses.push_back({graph.ops[op].outputs[0], 1.0, {}});
  }
}

// Equal operators of 1 ms forward and 2 ms backward a sample, small tensors and parameters.
inline TestProblem even_problem(const Dependencies& before, int devices, std::int64_t mini_batch) {
  TestProblem test;
  for (const std::vector<int>& ops : before) add_test_op(test.graph, ops, 16, 16);
  add_test_losses(test.graph, before);
  test.costs.ops.assign(before.size(), {.per_sample_s = 1e-3});
  test.cluster = test_cluster(devices);
  test.mini_batch = mini_batch;
  return test;
}

// Random seconds, sizes and parameters. With `tight` links and memories bind in a part of
// the cases.
inline TestProblem random_problem(const Dependencies& before, int devices, std::int64_t mini_batch,
                                  bool tight, std::uint64_t seed) {
  const CounterRandom random(seed);
  std::uint64_t drawn = 0;
  const auto uniform = [&] { return random.uniform(drawn++); };
  const auto below = [&](std::uint64_t n) {
    return static_cast<std::int64_t>(random.below(drawn++, n));
  };
  TestProblem test;
  for (const std::vector<int>& ops : before) {
    add_test_op(test.graph, ops, 1 + below(100), 1 + below(1000));
    test.costs.ops.push_back({.fixed_s = uniform() * 1e-3,
                              .per_sample_s = (0.1 + uniform()) * 1e-3,
                              .saved_bytes_per_sample = below(400)});
  }
  add_test_losses(test.graph, before);
  test.cluster = test_cluster(devices, 2);
  if (tight) {
    for (Level& level : test.cluster.levels) {
      level.link = {.bandwidth_bytes_per_s = 2e5 + 8e5 * uniform(), .latency_s = uniform() * 1e-3};
    }
    std::int64_t parameters = 0;
    for (const Parameter& param : test.graph.params) parameters += param_bytes(param);
    test.cluster.types[0].memory_bytes = parameters + below(12'000);
  }
  test.mini_batch = mini_batch;
  return test;
}

}  // namespace graphpipe
