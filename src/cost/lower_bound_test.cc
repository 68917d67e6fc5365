#include "cost/lower_bound.h"

#include <gtest/gtest.h>

#include "cluster/presets.h"
#include "cost/linear_costs.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

// Linears in a row, each trained, the last one the loss.
Graph chain(int length) {
  GraphBuilder g("chain");
  TensorId x = g.input("x", {1});
  for (int i = 0; i < length; ++i) x = g.linear("op" + std::to_string(i), x, 1);
  g.loss(g.reshape("loss", x, {}));
  return std::move(g).build();
}

// Three linears whose sum is the loss.
Graph fan_in() {
  GraphBuilder g("fan-in");
  std::vector<TensorId> branches;
  for (const char* name : {"a", "b", "c"}) {
    branches.push_back(g.linear(name, g.input(std::string(name) + ".x", {1}), 1));
  }
  g.loss(g.reshape("loss", g.linear("top", g.add("sum", branches), 1), {}));
  return std::move(g).build();
}

// F = 1, B = 2 a sample for the operators named here; the rest is free.
LinearCosts unit_costs(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<LinearOpCost> costs(graph.op_count());
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    for (const std::string& name : names) {
      if (graph.ops[i].name == name) costs[i] = {1, 2, 0};
    }
  }
  return LinearCosts("unit", std::move(costs));
}

// Fixed seconds a task, whatever its samples.
class FixedCosts : public LinearCosts {
 public:
  using LinearCosts::LinearCosts;
  OpCost op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                 const DeviceType& device, Phase phase) const override {
    return samples == 0 ? OpCost{}
                        : LinearCosts::op_cost(graph, op, 1, tensor_degree, device, phase);
  }
};

LowerBound bound(const Graph& graph, const CostModel& costs, const std::string& cluster,
                 std::int64_t mini_batch, const std::vector<std::int64_t>& micro_batches,
                 int max_width) {
  return iteration_lower_bound(graph, preset_cluster(cluster), costs, mini_batch, micro_batches,
                               max_width);
}

// 3 (m + p - 1) for m micro-batches and depth p: the known answer, and the bound meets it.
TEST(LowerBound, MeetsTheIterationOfAnEqualChain) {
  const Graph graph = chain(4);
  const LinearCosts costs = unit_costs(graph, {"op0", "op1", "op2", "op3"});
  const LowerBound found = bound(graph, costs, "summit:4", 8, {1}, 1);
  EXPECT_NEAR(found.seconds, 3 * (8 + 4 - 1), 1e-5);
  EXPECT_EQ(found.why, "slowest operator");
}

TEST(LowerBound, MeetsTheIterationOfThreeParallelStagesAndAFourth) {
  const Graph graph = fan_in();
  const LinearCosts costs = unit_costs(graph, {"a", "b", "c", "top"});
  EXPECT_NEAR(bound(graph, costs, "summit:4", 8, {1}, 1).seconds, 27, 1e-5);
}

TEST(LowerBound, WorkOverDevicesWhereOperatorsAreMany) {
  const Graph graph = chain(16);
  std::vector<std::string> names;
  for (int i = 0; i < 16; ++i) names.push_back("op" + std::to_string(i));
  const LinearCosts costs = unit_costs(graph, names);
  const LowerBound found = bound(graph, costs, "summit:2", 64, {1}, 2);
  EXPECT_NEAR(found.seconds, 3.0 * 16 * 64 / 2, 1e-5);
  EXPECT_EQ(found.why, "work over devices");
}

TEST(LowerBound, TheCriticalPathWhereSamplesAreFew) {
  const Graph graph = chain(4);
  const LinearCosts costs = unit_costs(graph, {"op0", "op1", "op2", "op3"});
  const LowerBound found = bound(graph, costs, "summit:8", 1, {1}, 4);
  EXPECT_NEAR(found.seconds, 12, 1e-5);
  EXPECT_EQ(found.why, "critical path");
}

TEST(LowerBound, AWiderStageSharesTheSlowestOperator) {
  const Graph graph = chain(1);
  const LinearCosts costs = unit_costs(graph, {"op0"});
  EXPECT_NEAR(bound(graph, costs, "summit:8", 64, {8}, 1).seconds, 3 * 64, 1e-5);
  EXPECT_NEAR(bound(graph, costs, "summit:8", 64, {8}, 4).seconds, 3 * 64 / 4.0, 1e-5);
  // No more devices than there are.
  EXPECT_NEAR(bound(graph, costs, "summit:2", 64, {8}, 4).seconds, 3 * 64 / 2.0, 1e-5);
}

TEST(LowerBound, TakesTheSizeAtWhichASampleCostsLeast) {
  const Graph graph = chain(1);
  const FixedCosts costs("fixed", {{1, 2, 0}, {0, 0, 0}});
  // A task costs 3 whatever its size, so B = 64 takes 64 / b of them.
  EXPECT_NEAR(bound(graph, costs, "summit:1", 64, {4, 16}, 1).seconds, 3 * 64 / 16.0, 1e-5);
  // Shares of a split micro-batch are smaller; the whole one stays possible.
  EXPECT_NEAR(bound(graph, costs, "summit:4", 64, {16}, 4).seconds, 3 * 4 / 4.0, 1e-5);
}

TEST(LowerBound, RanksThatShareCoresComputeNoMoreThanTheCoresDo) {
  const Graph graph = chain(8);
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) names.push_back("op" + std::to_string(i));
  const LinearCosts costs = unit_costs(graph, names);
  EXPECT_NEAR(bound(graph, costs, "local:4,cores=2", 64, {1}, 1).seconds, 3.0 * 8 * 64 / 2, 1e-5);
  EXPECT_NEAR(bound(graph, costs, "local:4,cores=16", 64, {1}, 1).seconds,
              std::max(3.0 * 8 * 64 / 4, 3.0 * 64 + 7 * 3), 1e-5);
}

TEST(LowerBound, OperatorsWithoutAGradientCountTheirForwardAlone) {
  GraphBuilder g("metric");
  const TensorId label = g.input("label", DType::kInt64, {});
  const TensorId logits = g.linear("fc", g.input("x", {2}), 2);
  g.loss(g.cross_entropy("loss", logits, label));
  g.correct("score", logits, label);
  const Graph graph = std::move(g).build();
  const LinearCosts costs = unit_costs(graph, {"score"});
  EXPECT_NEAR(bound(graph, costs, "summit:1", 8, {8}, 1).seconds, 8, 1e-5);
}

TEST(LowerBound, TakesTheFastestOfDeviceTypes) {
  class ByType : public LinearCosts {
   public:
    using LinearCosts::LinearCosts;
    OpCost op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                   const DeviceType& device, Phase phase) const override {
      OpCost cost = LinearCosts::op_cost(graph, op, samples, tensor_degree, device, phase);
      cost.seconds /= device.peak_flops_per_s;
      return cost;
    }
  };
  const Graph graph = chain(1);
  const ByType costs("by type", {{1, 2, 0}, {0, 0, 0}});
  Cluster cluster = preset_cluster("summit:2");
  cluster.types.push_back(cluster.types[0]);
  cluster.types.push_back(cluster.types[0]);
  cluster.types[0].peak_flops_per_s = 1;
  cluster.types[1].peak_flops_per_s = 4;
  cluster.types[2].peak_flops_per_s = 100;  // no device is of this type
  cluster.device_type = {0, 1};
  EXPECT_NEAR(iteration_lower_bound(graph, cluster, costs, 8, {8}, 1).seconds, 3 * 8 / 4.0, 1e-5);
}

}  // namespace
}  // namespace graphpipe
