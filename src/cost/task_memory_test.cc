#include "cost/task_memory.h"

#include <gtest/gtest.h>

#include "cost/linear_costs.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kTensor = 2 * 16 * 4;  // a, b, c, d of two samples

// a (linear) -> b (relu) -> c (linear) -> sum of c and a -> d (linear) -> loss
Graph skip_graph() {
  GraphBuilder g("skip");
  const TensorId a = g.linear("a", g.input("x", {16}), 16);
  const TensorId c = g.linear("c", g.relu("b", a), 16);
  const TensorId d = g.linear("d", g.add("sum", {c, a}), 16);
  g.loss(g.mse_loss("loss", d, g.input("label", {16})));
  return std::move(g).build();
}
constexpr OpId kA(0), kB(1), kC(2), kSum(3), kD(4), kLoss(5);

// Operator i keeps 10 i bytes a sample beside, and works in 1000 i forward, 2000 i backward.
class NumberedCosts : public CostModel {
 public:
  OpCost op_cost(const Graph&, OpId op, std::int64_t samples, int, const DeviceType&,
                 Phase phase) const override {
    const bool forward = phase == Phase::kForward;
    OpCost cost;
    cost.saved_bytes = forward ? 10 * op.value * samples : 0;
    cost.workspace_bytes = (forward ? 1000 : 2000) * op.value + (op == kB ? larger_by_at_b : 0);
    return cost;
  }
  std::string name() const override { return "numbered"; }
  std::int64_t larger_by_at_b = 0;
};

TaskMemory memory_of(const std::vector<OpId>& ops, const std::vector<TensorId>& leaving) {
  const Graph graph = skip_graph();
  return task_memory(NumberedCosts(), graph, needs_gradient(graph), ops, leaving, 2, {});
}

TensorId output_of(OpId op) { return skip_graph().op(op).outputs.front(); }

TEST(TaskMemory, AnOperatorAloneWorksInItsWorkspace) {
  const TaskMemory memory = memory_of({kC}, {output_of(kC)});
  EXPECT_EQ(memory.forward_bytes, 2000);
  EXPECT_EQ(memory.backward_bytes, 4000);
  EXPECT_EQ(memory.input_gradient_bytes, kTensor);
  EXPECT_EQ(memory.seed_bytes, kTensor);
  EXPECT_EQ(memory.weight_half_bytes, 4000);
}

TEST(TaskMemory, AForwardHasNotMadeAllOfItYet) {
  // At `b` neither c nor what c keeps (20 bytes a sample) is there.
  const TaskMemory memory = memory_of({kB, kC}, {output_of(kC)});
  EXPECT_EQ(memory.forward_bytes, std::max<std::int64_t>(2000, 1000 - kTensor - 40));
}

TEST(TaskMemory, AGradientThatSkipsOperatorsWaits) {
  // The sum's backward makes gradients of a and of c. While c's runs both are there, and the
  // sum's 60 bytes are not; while b's runs, those of a and of b, and neither c nor its 40.
  const std::int64_t at_sum = 6000;
  const std::int64_t at_c = 2 * kTensor - 60 + 4000;
  const TaskMemory memory = memory_of({kB, kC, kSum}, {output_of(kSum)});
  EXPECT_EQ(memory.backward_bytes, std::max(at_sum, at_c));
  EXPECT_EQ(memory.input_gradient_bytes, kTensor);  // of a, once
  // Halves: nothing ends but the gradients of what has no parameters.
  EXPECT_EQ(memory.input_half_bytes, std::max(at_sum, 2 * kTensor + 4000));
}

TEST(TaskMemory, WhatLeavesTheStageStaysToTheEnd) {
  // While b's backward runs: c has ended with its own, unless others read it too.
  NumberedCosts costs;
  costs.larger_by_at_b = 100'000;
  const Graph graph = skip_graph();
  const auto bytes = [&](const std::vector<TensorId>& leaving) {
    return task_memory(costs, graph, needs_gradient(graph), {kB, kC, kSum}, leaving, 2, {})
        .backward_bytes;
  };
  const std::int64_t gradients = 2 * kTensor;  // of a and b
  EXPECT_EQ(bytes({output_of(kSum)}), 102'000 + gradients - 60 - 40 - kTensor);
  EXPECT_EQ(bytes({output_of(kC), output_of(kSum)}), 102'000 + gradients - 60 - 40);
}

TEST(TaskMemory, ALossIsItsOwnSeed) {
  const TaskMemory memory = memory_of({kLoss}, {});
  EXPECT_EQ(memory.backward_bytes, 2 * 4 + 10'000);
  EXPECT_EQ(memory.input_gradient_bytes, kTensor);  // of d; the label has none
}

TEST(TaskMemory, NothingIsTrainedWithoutAGradient) {
  Graph graph = skip_graph();
  for (Parameter& param : graph.params) param.trainable = false;
  const TaskMemory memory =
      task_memory(NumberedCosts(), graph, needs_gradient(graph), {kB, kC}, {}, 2, {});
  EXPECT_EQ(memory.backward_bytes, 0);
  EXPECT_EQ(memory.input_gradient_bytes, 0);
  EXPECT_EQ(memory.forward_bytes, 2000 + kTensor);  // c, which nobody reads
}

// Over every run of operators, whatever leaves: the planner's bound is one.
TEST(OpTaskMemory, SumsToAnUpperBound) {
  const Graph graph = skip_graph();
  const std::vector<bool> needs = needs_gradient(graph);
  const std::vector<std::vector<OpId>> readers = consumers(graph);
  const NumberedCosts costs;
  const TrainingFacts facts = training_facts(costs, graph, {});
  const std::int64_t n = 2;
  for (int begin = 0; begin < 6; ++begin) {
    for (int end = begin + 1; end <= 6; ++end) {
      std::vector<OpId> ops;
      std::vector<TensorId> leaving;
      std::int64_t worst = 0;
      std::int64_t beside = 0;
      for (int i = begin; i < end; ++i) {
        const OpId op(i);
        ops.push_back(op);
        const OpTaskMemory one =
            op_task_memory(graph, facts, op, n, costs.op_cost(graph, op, n, 1, {}, Phase::kForward),
                           costs.op_cost(graph, op, n, 1, {}, Phase::kBackward));
        worst = std::max(worst, one.worst_bytes);
        beside += one.beside_bytes;
      }
      std::int64_t out = 0;
      for (const OpId op : ops) {
        const TensorId made = graph.op(op).outputs.front();
        for (const OpId reader : readers[made.index()]) {
          if (reader.value < end) continue;
          leaving.push_back(made);
          out += tensor_bytes(graph.tensor(made), n);
          break;
        }
      }
      const TaskMemory exact = task_memory(costs, graph, needs, ops, leaving, n, {});
      EXPECT_LE(std::max(exact.forward_bytes, exact.backward_bytes), worst + beside + out)
          << begin << " to " << end;
    }
  }
}

// Keeps the outputs of the relu, and of what the linears read nothing.
class KeepsLittle : public NumberedCosts {
 public:
  bool keeps_input(const Operator& op, std::size_t, const DeviceType&) const override {
    return op.kind != OpKind::kLinear;
  }
  bool keeps_output(const Operator& op, const DeviceType&) const override {
    return op.kind == OpKind::kRelu;
  }
};

std::int64_t saved_bytes(const CostModel& costs, const std::vector<OpId>& ops,
                         const std::vector<TensorId>& leaving) {
  const Graph graph = skip_graph();
  return task_memory(costs, graph, needs_gradient(graph), ops, leaving, 2, {}).saved_bytes;
}

TEST(SavedBytes, CountEachTensorOnceAndWhatOperatorsKeepBeside) {
  // a, which b and the sum read; b, c and the sum.
  EXPECT_EQ(saved_bytes(NumberedCosts(), {kB, kC, kSum}, {output_of(kSum)}),
            4 * kTensor + 2 * (10 + 20 + 30));
}

TEST(SavedBytes, CountWhatComesInAndWhatLeaves) {
  EXPECT_EQ(saved_bytes(NumberedCosts(), {kC}, {output_of(kC)}), 2 * kTensor + 2 * 20);
  EXPECT_EQ(task_memory(NumberedCosts(), skip_graph(), {}, {kC}, {}, 0, {}).saved_bytes, 0);
}

TEST(SavedBytes, LeaveOutWhatNoBackwardNeeds) {
  // Of x, a and what x's linear keeps: x has no gradient and a linear does not need it; the
  // relu needs a, and keeps b, which the next linear does not need.
  EXPECT_EQ(saved_bytes(KeepsLittle(), {kA, kB}, {output_of(kB)}), 2 * kTensor + 2 * 10);
  // d leaves or not; the sum is not needed by d.
  EXPECT_EQ(saved_bytes(KeepsLittle(), {kD}, {output_of(kD)}), 2 * kTensor + 2 * 40);
  EXPECT_EQ(saved_bytes(KeepsLittle(), {kC, kSum}, {output_of(kSum)}),
            // a and b have gradients, c is needed by the sum
            4 * kTensor + 2 * (20 + 30));
}

TEST(TaskMemory, WhatIsNotKeptIsThereToItsLastReader) {
  // While the relu's forward runs x is there too, which ends with the stage's forward.
  const TaskMemory memory = [] {
    const Graph graph = skip_graph();
    return task_memory(KeepsLittle(), graph, needs_gradient(graph), {kA, kB}, {output_of(kB)}, 2,
                       {});
  }();
  EXPECT_EQ(memory.forward_bytes, 1000 + kTensor);
}

}  // namespace
}  // namespace graphpipe
