#include "schedule/buckets.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace graphpipe {
namespace {

// first -> second -> third, linear layers of `width`.
Graph three_layers(std::int64_t width) {
  GraphBuilder g("layers");
  TensorId x = g.input("x", {width});
  for (const char* name : {"first", "second", "third"}) x = g.linear(name, x, width, false);
  g.loss(g.mse_loss("loss", x, g.input("target", {width})));
  return std::move(g).build();
}

// Stages of these operators on these many devices each.
Plan plan_over(const Graph& graph, const std::vector<std::vector<OpId>>& ops,
               const std::vector<int>& widths) {
  Plan plan;
  int next = 0;
  for (std::size_t s = 0; s < ops.size(); ++s) {
    Stage stage;
    stage.ops = ops[s];
    for (int i = 0; i < widths[s]; ++i) stage.devices.emplace_back(next++);
    plan.stages.push_back(std::move(stage));
  }
  canonicalise(plan, graph);
  return plan;
}

std::vector<std::string> names(const Graph& graph, const Bucket& bucket) {
  std::vector<std::string> result;
  for (const ParamId param : bucket.params) result.push_back(graph.param(param).name);
  return result;
}

TEST(ReductionBuckets, AreEmptyWhereEveryParameterHasOneHolder) {
  const Graph graph = three_layers(4);
  EXPECT_TRUE(
      reduction_buckets(plan_over(graph, {{OpId(0), OpId(1)}, {OpId(2), OpId(3)}}, {1, 1}), graph)
          .empty());
}

TEST(ReductionBuckets, HaveTheParametersOfAStageThatIsReplicatedTheLastFirst) {
  const Graph graph = three_layers(4);
  const auto buckets =
      reduction_buckets(plan_over(graph, {{OpId(0), OpId(1)}, {OpId(2), OpId(3)}}, {3, 1}), graph);
  ASSERT_EQ(buckets.size(), 1U);
  EXPECT_EQ(names(graph, buckets[0]), (std::vector<std::string>{"second.weight", "first.weight"}));
  EXPECT_EQ(buckets[0].ranks, (std::vector{RankId(0), RankId(1), RankId(2)}));
  EXPECT_EQ(buckets[0].bytes, 2 * 4 * 16);
}

TEST(ReductionBuckets, AreSeveralWhereParametersAreLarge) {
  const Graph graph = three_layers(1536);  // 9 MiB each
  const auto buckets =
      reduction_buckets(plan_over(graph, {{OpId(0), OpId(1), OpId(2), OpId(3)}}, {2}), graph);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(names(graph, buckets[0]), (std::vector<std::string>{"third.weight", "second.weight"}));
  EXPECT_EQ(names(graph, buckets[1]), (std::vector<std::string>{"first.weight"}));
}

TEST(ReductionBuckets, JoinTheStagesThatShareAParameter) {
  GraphBuilder g("tied");
  const ParamId tied = g.param("tied", {4, 4}, {InitKind::kUniform, 0.5});
  const TensorId x = g.input("x", {4});
  const TensorId h = g.add_op("a", OpKind::kLinear, {x}, {tied}, {})[0];
  const TensorId y = g.add_op("b", OpKind::kLinear, {h}, {tied}, {})[0];
  g.loss(g.mse_loss("loss", y, x));
  const Graph graph = std::move(g).build();
  const auto buckets =
      reduction_buckets(plan_over(graph, {{OpId(0)}, {OpId(1), OpId(2)}}, {1, 2}), graph);
  ASSERT_EQ(buckets.size(), 1U);
  EXPECT_EQ(buckets[0].ranks, (std::vector{RankId(0), RankId(1), RankId(2)}));
}

}  // namespace
}  // namespace graphpipe
