// What a batch norm keeps from one forward to the next.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "graph/builder.h"
#include "runtime/operators.h"

namespace graphpipe {
namespace {

constexpr double kEpsilon = 1e-5;
const std::vector<std::int64_t> kNormIds = {4, 7, 1};

// Over two channels of two numbers.
struct Norm {
  Norm() {
    GraphBuilder g("norm", DType::kFloat64);
    g.batch_norm("norm", g.input("x", {2, 2}), kEpsilon, 0.1);
    graph = g.graph();
    params = {torch::ones({2}, torch::kFloat64), torch::zeros({2}, torch::kFloat64),
              torch::zeros({2}, torch::kFloat64), torch::ones({2}, torch::kFloat64)};
  }

  at::Tensor forward(const at::Tensor& x, bool training = true, bool update = true) {
    const OpContext context{training, 1, 0,
                            std::span(kNormIds).first(static_cast<std::size_t>(x.size(0))), update};
    return forward_op(graph, graph.ops[0], {x}, params, context)[0];
  }

  Graph graph;
  std::vector<at::Tensor> params;
};

// (3, 2, 2): channels with means 3 and 10, variances (of six numbers) 5/3 and 16
at::Tensor data() {
  return torch::tensor({1.0, 2.0, 14.0, 6.0, 3.0, 3.0, 14.0, 6.0, 4.0, 5.0, 14.0, 6.0},
                       torch::kFloat64)
      .view({3, 2, 2});
}

at::Tensor two(double a, double b) { return torch::tensor({a, b}, torch::kFloat64); }

TEST(BatchNorm, TrainingNormalisesOverTheBatchAndMovesTheStatistics) {
  Norm norm;
  const at::Tensor x = data();
  const at::Tensor y = norm.forward(x);
  const at::Tensor deviation = (two(5.0 / 3, 16) + kEpsilon).sqrt().view({1, 2, 1});
  EXPECT_TRUE(torch::allclose(y, (x - two(3, 10).view({1, 2, 1})) / deviation));
  EXPECT_TRUE(torch::allclose(norm.params[2], two(0.3, 1.0)));
  // The variance that is kept is of the population: divided by one less.
  EXPECT_TRUE(torch::allclose(norm.params[3], two(0.9 + 0.1 * 2.0, 0.9 + 0.1 * 19.2)));
}

TEST(BatchNorm, EvaluationNormalisesByTheStatisticsAndLeavesThem) {
  Norm norm;
  norm.params[2] = two(1, 2);
  norm.params[3] = two(4, 9);
  const at::Tensor x = data();
  const at::Tensor y = norm.forward(x, false);
  const at::Tensor deviation = (two(4, 9) + kEpsilon).sqrt().view({1, 2, 1});
  EXPECT_TRUE(torch::allclose(y, (x - two(1, 2).view({1, 2, 1})) / deviation));
  EXPECT_TRUE(norm.params[2].equal(two(1, 2)));
  EXPECT_TRUE(norm.params[3].equal(two(4, 9)));
}

TEST(BatchNorm, AForwardThatIsRunAgainGivesTheSameAndMovesNothing) {
  Norm norm;
  const at::Tensor x = data();
  const at::Tensor first = norm.forward(x);
  const at::Tensor mean = norm.params[2].clone();
  const at::Tensor variance = norm.params[3].clone();
  const at::Tensor again = norm.forward(x, true, false);
  EXPECT_TRUE(again.equal(first));
  EXPECT_TRUE(norm.params[2].equal(mean));
  EXPECT_TRUE(norm.params[3].equal(variance));
}

// Their backward does not read what later forwards have moved.
TEST(BatchNorm, TheBackwardIsThatOfItsOwnForward) {
  const auto gradient = [](bool another_between) {
    Norm norm;
    const at::Tensor x = data().requires_grad_();
    const at::Tensor y = norm.forward(x);
    if (another_between) norm.forward(3 * data() + 1);
    (y * y * y).sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(gradient(true).equal(gradient(false)));
}

TEST(BatchNorm, RefusesOneValueAChannelInTraining) {
  GraphBuilder g("norm", DType::kFloat64);
  g.batch_norm("stem.norm", g.input("x", {2}));
  const std::vector<at::Tensor> params(4, torch::ones({2}, torch::kFloat64));
  const at::Tensor x = torch::ones({1, 2}, torch::kFloat64);
  const std::vector<std::int64_t> ids = {3};
  try {
    forward_op(g.graph(), g.graph().ops[0], {x}, params, {.training = true, .sample_ids = ids});
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_STREQ(error.what_without_backtrace(),
                 "batch_norm: \"stem.norm\" has one value a channel, expected at least 2: use a "
                 "larger micro-batch, and a mini-batch that leaves no sample alone");
  }
  EXPECT_NO_THROW(
      forward_op(g.graph(), g.graph().ops[0], {x}, params, {.training = false, .sample_ids = ids}));
}

}  // namespace
}  // namespace graphpipe
