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
  return iteration_lower_bound(graph, preset_cluster(cluster), costs,
                               {mini_batch, micro_batches, max_width, false, {}});
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
  EXPECT_NEAR(bound(graph, costs, "summit:8", 64, {8}, 4).seconds, 3 * 64 / 4.0, 1e-4);
  // No more devices than there are.
  EXPECT_NEAR(bound(graph, costs, "summit:2", 64, {8}, 4).seconds, 3 * 64 / 2.0, 1e-4);
}

TEST(LowerBound, TakesTheSizeAtWhichASampleCostsLeast) {
  const Graph graph = chain(1);
  const FixedCosts costs("fixed", {{1, 2, 0}, {0, 0, 0}});
  // A task costs 3 whatever its size, so B = 64 takes 64 / b of them.
  EXPECT_NEAR(bound(graph, costs, "summit:1", 64, {4, 16}, 1).seconds, 3 * 64 / 16.0, 1e-5);
  // Shares of a split micro-batch are smaller; the whole one stays possible.
  EXPECT_NEAR(bound(graph, costs, "summit:4", 64, {16}, 4).seconds, 3 * 4 / 4.0, 1e-4);
}

// One operator of 4 MB of parameters on up to 4 devices, over links of 1 MB a second: two
// devices sum 4 MB in 4 s, four in 6 s.
class OneLargeOperator {
 public:
  OneLargeOperator() : costs_("unit", {{1, 2, 0}, {0, 0, 0}}) {
    GraphBuilder g("large");
    g.loss(g.mse_loss("loss", g.linear("op", g.input("x", {1000}), 1000, false),
                      g.input("y", {1000})));
    graph_ = std::move(g).build();
    cluster_ = preset_cluster("summit:4");
    cluster_.levels = {{"node", 4, {.bandwidth_bytes_per_s = 1e6}}};
  }
  LowerBound bound(std::int64_t mini_batch, int max_width, bool halves = false) const {
    return iteration_lower_bound(graph_, cluster_, costs_,
                                 {mini_batch, {1}, max_width, halves, {}});
  }

 private:
  LinearCosts costs_;
  Graph graph_;
  Cluster cluster_;
};

TEST(LowerBound, ReplicasSumTheGradients) {
  const OneLargeOperator one;
  EXPECT_NEAR(one.bound(40, 4).seconds, 3 * 40 / 4.0 + 6, 1e-5);
  // With few samples fewer devices are faster: 18, 9 + 4, 6 + 16 / 3, 6 + 6.
  EXPECT_NEAR(one.bound(6, 4).seconds, 6 + 16 / 3.0, 1e-5);
  EXPECT_NEAR(one.bound(2, 4).seconds, 6, 1e-5);
}

// Eight operators of 4 MB each in a chain, four samples. Of an operator on one device, the
// forwards are 1 s of each device, and the path is 12 s; on two (four) devices each, the reduction
// adds 2 s (6 s), and the path is a half (a quarter). 0.4 and 0.6 of both is least on four.
TEST(LowerBound, ReductionsAreWorkOfTheDevicesToo) {
  GraphBuilder g("large");
  TensorId x = g.input("x", {1000});
  for (int i = 0; i < 8; ++i) x = g.linear("op" + std::to_string(i), x, 1000, false);
  g.loss(g.mse_loss("loss", x, g.input("y", {1000})));
  const Graph graph = std::move(g).build();
  std::vector<LinearOpCost> unit(graph.op_count(), {1, 2, 0});
  unit.back() = {0, 0, 0};
  const LinearCosts costs("unit", unit);
  Cluster cluster = preset_cluster("summit:4");
  cluster.levels = {{"node", 4, {.bandwidth_bytes_per_s = 1e6}}};
  const BoundRules rules{4, {4}, 4, false, {}};
  const LowerBound slow = iteration_lower_bound(graph, cluster, costs, rules);
  EXPECT_NEAR(slow.seconds, 8 * (0.4 * (1 + 6) + 0.6 * 3), 1e-4);
  EXPECT_EQ(slow.why, "work and path");
  cluster.levels[0].link.bandwidth_bytes_per_s = 1e15;
  EXPECT_NEAR(iteration_lower_bound(graph, cluster, costs, rules).seconds, 24, 1e-4);
}

TEST(LowerBound, LargeTasksMakeThePathLongAndSmallOnesTheWork) {
  // 1 s a task and operator in either direction, whatever its samples.
  const Graph graph = chain(4);
  std::vector<LinearOpCost> fixed(graph.op_count(), {1, 1, 0});
  fixed.back() = {0, 0, 0};
  const FixedCosts fixed_costs("fixed", fixed);
  // One task of each: the path. Two halves: twice the work on four devices is no more.
  EXPECT_NEAR(bound(graph, fixed_costs, "summit:4", 16, {8, 16}, 1).seconds, 8, 1e-4);
  // By samples the work is 2 * 4 * 16 / 2 in any case; the path of whole mini-batches is as
  // long as twice that, so a part of the mini-batch is taken.
  const LinearCosts costs("unit", [&] {
    std::vector<LinearOpCost> unit(graph.op_count(), {1, 1, 0});
    unit.back() = {0, 0, 0};
    return unit;
  }());
  const LowerBound whole = bound(graph, costs, "summit:2", 16, {16}, 1);
  EXPECT_NEAR(whole.seconds, 2.0 * 4 * 16, 1e-4);
  EXPECT_EQ(whole.why, "critical path");
}

TEST(LowerBound, TasksThatNoMemoryHoldsDoNotCount) {
  const Graph graph = chain(1);
  const FixedCosts costs("fixed", {{1, 2, 0}, {0, 0, 0}});
  Cluster cluster = preset_cluster("summit:1");
  // The linear keeps its input, 4 bytes a sample, and 100 bytes for its parameters.
  BoundRules rules{64, {4, 16, 64}, 1, false, {50, 50}};
  cluster.types[0].memory_bytes = 100 + 4 * 16;
  EXPECT_NEAR(iteration_lower_bound(graph, cluster, costs, rules).seconds, 3 * 64 / 16.0, 1e-5);
  cluster.types[0].memory_bytes = 100 + 4 * 64;
  EXPECT_NEAR(iteration_lower_bound(graph, cluster, costs, rules).seconds, 3, 1e-5);
}

TEST(LowerBound, OfBackwardsInHalvesTheWayBackIsShorter) {
  const Graph graph = chain(4);
  const LinearCosts costs = unit_costs(graph, {"op0", "op1", "op2", "op3"});
  BoundRules rules{1, {1}, 1, false, {}};
  const Cluster cluster = preset_cluster("summit:4");
  EXPECT_NEAR(iteration_lower_bound(graph, cluster, costs, rules).seconds, 12, 1e-5);
  rules.halves = true;
  const double halved_s = iteration_lower_bound(graph, cluster, costs, rules).seconds;
  EXPECT_LT(halved_s, 12);
  EXPECT_GE(halved_s, 8 - 1e-5);
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
  EXPECT_NEAR(iteration_lower_bound(graph, cluster, costs, {8, {8}, 1, false, {}}).seconds,
              3 * 8 / 4.0, 1e-5);
}

}  // namespace
}  // namespace graphpipe
