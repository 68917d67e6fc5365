// LSTM and GRU against their formulas (Hochreiter and Schmidhuber, 1997, with forget gates; Cho
// et al., 2014, with the reset behind the product), step by step.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "graph/builder.h"
#include "runtime/operators.h"
#include "runtime/parameters.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSteps = 4;
constexpr std::int64_t kHidden = 3;
const std::vector<std::int64_t> kTwoIds = {4, 7};

struct Cell {
  Graph graph;
  at::Tensor x;  // (2, 4, 5)
  std::vector<at::Tensor> params;

  at::Tensor forward() const {
    return forward_op(graph, graph.ops[0], {x}, params, {.sample_ids = kTwoIds})[0];
  }
  at::Tensor inputs(std::int64_t step) const {
    return x.select(1, step).matmul(params[0].t()) + params[2];
  }
  at::Tensor states(const at::Tensor& h) const { return h.matmul(params[1].t()) + params[3]; }
};

Cell cell(OpKind kind) {
  GraphBuilder g("cell", DType::kFloat64);
  const TensorId x = g.input("x", {kSteps, 5});
  kind == OpKind::kLstm ? g.lstm("cell", x, kHidden) : g.gru("cell", x, kHidden);
  Cell c{g.graph(),
         make_parameter({"x", DType::kFloat64, {2, kSteps, 5}, {InitKind::kNormal, 1}}, 1),
         {}};
  c.x.set_requires_grad(false);
  for (const Parameter& p : c.graph.params) {
    c.params.push_back(make_parameter(p, 2).set_requires_grad(false));
  }
  return c;
}

TEST(Lstm, IsItsFormulaStepByStep) {
  const Cell one = cell(OpKind::kLstm);
  at::Tensor h = torch::zeros({2, kHidden}, torch::kFloat64);
  at::Tensor c = h;
  const at::Tensor y = one.forward();
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const std::vector<at::Tensor> gate = (one.inputs(step) + one.states(h)).chunk(4, 1);
    c = gate[1].sigmoid() * c + gate[0].sigmoid() * gate[2].tanh();
    h = gate[3].sigmoid() * c.tanh();
    EXPECT_TRUE(torch::allclose(y.select(1, step), h)) << step;
  }
}

TEST(Gru, IsItsFormulaStepByStep) {
  const Cell one = cell(OpKind::kGru);
  at::Tensor h = torch::zeros({2, kHidden}, torch::kFloat64);
  const at::Tensor y = one.forward();
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const std::vector<at::Tensor> in = one.inputs(step).chunk(3, 1);
    const std::vector<at::Tensor> state = one.states(h).chunk(3, 1);
    const at::Tensor reset = (in[0] + state[0]).sigmoid();
    const at::Tensor update = (in[1] + state[1]).sigmoid();
    const at::Tensor candidate = (in[2] + reset * state[2]).tanh();
    h = (1 - update) * candidate + update * h;
    EXPECT_TRUE(torch::allclose(y.select(1, step), h)) << step;
  }
}

}  // namespace
}  // namespace graphpipe
