#include "graph/custom_op.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/graph_json.h"

namespace graphpipe {
namespace {

// Two outputs: the input and the sum of its rows. Three operations an element.
CustomOp row_sums(const std::string& name) {
  CustomOp op;
  op.name = name;
  op.outputs = [](const CustomTypes& types) {
    if (types.inputs[0].shape.size() != 2)
      throw std::invalid_argument("expected x (rows, columns)");
    TensorType sums = types.inputs[0];
    sums.shape.pop_back();
    return std::vector{types.inputs[0], sums};
  };
  op.flops_per_sample = [](const CustomTypes& types) {
    return 3.0 * static_cast<double>(element_count(types.inputs[0].shape));
  };
  op.forward = [](const CustomForward&) {};
  op.backward = [](const CustomBackward&) {};
  return op;
}

Graph graph_with(const std::string& function) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {2, 3});
  const TensorId h = g.linear("fc", x, 3);
  const auto outputs = g.custom("sums", function, {h}, {}, {{"window", std::int64_t{4}}});
  g.loss(g.mse_loss("loss", outputs[1], g.input("y", {2})));
  return std::move(g).build();
}

std::string complaint(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(CustomOp, HasTheTypesCostsAndGradientsThatItSays) {
  register_custom_op(row_sums("types"));
  const Graph graph = graph_with("types");
  const Operator& op = graph.ops[1];
  EXPECT_EQ(op.integer("window"), 4);
  ASSERT_EQ(op.outputs.size(), 2U);
  EXPECT_EQ(graph.tensor(op.outputs[0]).name, "sums.0");
  EXPECT_EQ(graph.tensor(op.outputs[1]).shape, std::vector<std::int64_t>({2}));
  EXPECT_TRUE(graph.tensor(op.outputs[1]).batched);
  EXPECT_EQ(forward_flops_per_sample(graph, OpId(1)), 18);
  EXPECT_TRUE(needs_gradient(graph)[op.inputs[0].index()]);
  EXPECT_EQ(
      op_signature(graph, OpId(1)),
      "custom{function=\"types\", window=4} (float32[*,2,3]; ) -> float32[*,2,3] float32[*,2]");
}

TEST(CustomOp, StandsInAGraphFileByItsName) {
  register_custom_op(row_sums("file"));
  const Graph graph = graph_with("file");
  EXPECT_EQ(graph_hash(parse_graph(to_json(graph), "g.graph.json")), graph_hash(graph));
}

TEST(CustomOp, WithoutABackwardLetsNoGradientThrough) {
  CustomOp op = row_sums("stop");
  op.backward = nullptr;
  op.flops_per_sample = nullptr;
  register_custom_op(op);
  const Graph graph = graph_with("stop");
  EXPECT_FALSE(needs_gradient(graph)[graph.ops[1].inputs[0].index()]);
  EXPECT_EQ(forward_flops_per_sample(graph, OpId(1)), 6 + 2);
}

TEST(CustomOp, SaysWhatIsWrong) {
  register_custom_op(row_sums("wrong"));
  EXPECT_EQ(complaint([] { register_custom_op(row_sums("wrong")); }),
            "wrong: there is already a custom operator of this name");
  EXPECT_EQ(complaint([] { register_custom_op({}); }), "a custom operator: the name is empty");
  EXPECT_EQ(complaint([] {
              GraphBuilder g("g");
              g.custom("sums", "wrong", {g.input("x", {2})});
            }),
            "sums: G3: custom: wrong: expected x (rows, columns)");
  const std::string missing = complaint([] { graph_with("nobody"); });
  EXPECT_EQ(missing.substr(0, missing.find(',')),
            "sums: G3: custom: this program has no operator \"nobody\"");
}

}  // namespace
}  // namespace graphpipe
