#include "cost/cost_model.h"

#include <gtest/gtest.h>

#include "cost/linear_costs.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

// x -> a (linear) -> b (relu) -> c (mul of b and x) -> loss
Graph small_graph() {
  GraphBuilder g("small");
  const TensorId x = g.input("x", {4});
  const TensorId label = g.input("label", {4});
  const TensorId b = g.relu("b", g.linear("a", x, 4));
  g.loss(g.mse_loss("loss", g.mul("c", b, x), label));
  return std::move(g).build();
}

// a, b, c, loss: forward 1 2 3 4 s a sample, backward 10 20 30 40, saved 100 200 300 400 bytes.
LinearCosts small_costs() {
  return LinearCosts("by hand", {{1, 10, 100}, {2, 20, 200}, {3, 30, 300}, {4, 40, 400}});
}

std::vector<OpId> ops(std::initializer_list<int> numbers) {
  std::vector<OpId> ids;
  for (const int n : numbers) ids.emplace_back(n);
  return ids;
}

// 5 s a task beside its operators.
class WithOverhead : public LinearCosts {
 public:
  using LinearCosts::LinearCosts;
  double task_overhead_s() const override { return 5; }
};

TEST(Transfer, IsLatencyAndBytesOverBandwidth) {
  EXPECT_DOUBLE_EQ(small_costs().transfer_s(1000, {500, 0.25}), 2.25);
  EXPECT_DOUBLE_EQ(small_costs().transfer_s(0, {500, 0.25}), 0.25);
}

TEST(Reduce, IsARingOverTheRanks) {
  // 2 (n - 1) / n * bytes / bandwidth + 2 (n - 1) * latency, n = 4.
  EXPECT_DOUBLE_EQ(small_costs().reduce_s(1000, 4, {500, 0.25}), 2 * 0.75 * 2 + 6 * 0.25);
  EXPECT_EQ(small_costs().reduce_s(1000, 1, {500, 0.25}), 0);
}

TEST(LinearCosts, AreInProportionToSamples) {
  const Graph graph = small_graph();
  const LinearCosts costs = small_costs();
  const DeviceType device;
  const OpCost forward = costs.op_cost(graph, OpId(1), 3, 1, device, Phase::kForward);
  EXPECT_DOUBLE_EQ(forward.seconds, 6);
  EXPECT_EQ(forward.saved_bytes, 600);
  EXPECT_DOUBLE_EQ(costs.op_cost(graph, OpId(1), 3, 1, device, Phase::kBackward).seconds, 60);
  EXPECT_DOUBLE_EQ(costs.op_cost(graph, OpId(1), 3, 1, device, Phase::kBackwardInput).seconds, 30);
  EXPECT_DOUBLE_EQ(costs.op_cost(graph, OpId(1), 3, 1, device, Phase::kBackwardWeight).seconds, 30);
  const OpCost again = costs.op_cost(graph, OpId(1), 3, 1, device, Phase::kRecompute);
  EXPECT_DOUBLE_EQ(again.seconds, 6);
  EXPECT_EQ(again.saved_bytes, 0);
  EXPECT_EQ(costs.op_cost(graph, OpId(1), 0, 1, device, Phase::kForward).seconds, 0);
  EXPECT_EQ(costs.name(), "by hand");
}

TEST(StageCost, SumsItsOperators) {
  const StageCost cost = stage_cost(small_costs(), small_graph(), ops({0, 1, 2}), 2, {});
  EXPECT_DOUBLE_EQ(cost.forward_s, 2 * (1 + 2 + 3));
  EXPECT_DOUBLE_EQ(cost.backward_s, 2 * (10 + 20 + 30));
}

TEST(StageCost, AddsOneOverheadATask) {
  const WithOverhead costs("overhead", {{1, 10, 0}, {2, 20, 0}});
  const StageCost cost = stage_cost(costs, small_graph(), ops({0, 1}), 2, {});
  EXPECT_DOUBLE_EQ(cost.forward_s, 5 + 2 * 3);
  EXPECT_DOUBLE_EQ(cost.backward_s, 5 + 2 * 30);
  EXPECT_EQ(stage_cost(costs, small_graph(), ops({0, 1}), 0, {}).forward_s, 0);
}

}  // namespace
}  // namespace graphpipe
