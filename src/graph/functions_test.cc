// Shape rules of functions of elements, reductions and gathers; weights files.

#include "graph/functions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/weights.h"

namespace graphpipe {
namespace {

using Shape = std::vector<std::int64_t>;

std::vector<std::pair<std::string, Attribute>> of(const std::string& function, Shape operands) {
  return {{"alpha", 0.0}, {"beta", 0.0}, {"function", function}, {"operands", std::move(operands)}};
}

std::string fault(const std::function<void(GraphBuilder&, TensorId, TensorId)>& add) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {2, 3});
  const TensorId ids = g.input("ids", DType::kInt64, {4});
  try {
    add(g, x, ids);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(FunctionRules, OperandsBroadcastAndTypesFollowTheFunction) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {2, 3});
  const ParamId bias = g.param("bias", {3}, {});
  const TensorId y = g.add_op("less", OpKind::kElementwise, {x}, {bias}, of("less", {0, -1}))[0];
  EXPECT_EQ(g.graph().tensor(y).dtype, DType::kBool);
  EXPECT_EQ(g.graph().tensor(y).shape, (Shape{2, 3}));
  const TensorId z = g.add_op("copy", OpKind::kElementwise, {x}, {bias}, of("identity", {-1}))[0];
  EXPECT_TRUE(g.graph().tensor(z).batched);
  EXPECT_EQ(g.graph().tensor(z).shape, (Shape{3}));
}

TEST(FunctionRules, PointAtWhatDoesNotFit) {
  EXPECT_EQ(
      fault([](GraphBuilder& g, TensorId x, TensorId ids) {
        g.add_op("op", OpKind::kElementwise, {x, ids}, {}, of("add", {0, 1}));
      }),
      "op: G3: elementwise: input 1 \"ids\" has shape (4), which does not broadcast with (2, 3)");
  EXPECT_EQ(fault([](GraphBuilder& g, TensorId x, TensorId) {
              g.add_op("op", OpKind::kElementwise, {x}, {}, of("not", {0}));
            }),
            "op: G3: elementwise: not: input 0 \"x\" is float32, expected bool");
  EXPECT_EQ(fault([](GraphBuilder& g, TensorId x, TensorId) {
              g.add_op("op", OpKind::kElementwise, {x}, {}, of("exp", {-1}));
            }),
            "op: G3: elementwise: operands is (-1), and there are 1 inputs and 0 parameters");
  EXPECT_EQ(
      fault([](GraphBuilder& g, TensorId x, TensorId) {
        g.add_op("op", OpKind::kReduce, {x}, {},
                 {{"axes", Shape{1, 0}}, {"function", std::string("sum")}, {"keep", true}});
      }),
      "op: G3: reduce: axes is (1, 0), expected ascending ones of the 2 dimensions of input 0 "
      "\"x\"");
  EXPECT_EQ(
      fault([](GraphBuilder& g, TensorId x, TensorId ids) {
        g.add_op(
            "op", OpKind::kGather, {ids, x}, {},
            {{"axis", std::int64_t{0}}, {"mode", std::string("index")}, {"operands", Shape{0, 1}}});
      }),
      "op: G3: gather: input 1 \"x\" is float32, expected int64");
  EXPECT_EQ(fault([](GraphBuilder& g, TensorId x, TensorId) {
              g.add_op("op", OpKind::kExpand, {x}, {}, {{"shape", Shape{3, 3}}});
            }),
            "op: G3: expand: shape is (3, 3), to which input 0 \"x\" of shape (2, 3) does not "
            "broadcast");
}

Graph given_graph() {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {2});
  const auto values = std::make_shared<const std::string>(std::string(8, '\1'));
  const ParamId mask =
      g.given("mask", DType::kBool, {2}, std::make_shared<const std::string>("\1\1"), false);
  const ParamId scale = g.given("scale", DType::kFloat32, {2}, values, true);
  const TensorId y = g.add_op("y", OpKind::kElementwise, {x}, {scale}, of("mul", {0, -1}))[0];
  g.add_op("z", OpKind::kElementwise, {y}, {mask}, of("where", {-1, 0, 0}));
  return std::move(g).build();
}

TEST(Weights, SurviveTheirFile) {
  const Graph graph = given_graph();
  const Weights weights = given_weights(graph);
  const Weights again = parse_safetensors(to_safetensors(weights), "w");
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again.at("mask").dtype, DType::kBool);
  EXPECT_EQ(*again.at("scale").values, *weights.at("scale").values);
  Graph without = graph;
  for (Parameter& param : without.params) param.values.reset();
  attach_weights(without, again, "w");
  EXPECT_EQ(graph_hash(without), graph_hash(graph));
}

TEST(Weights, ThatAreWrongAreRefused) {
  const auto refusal = [](const std::string& bytes) {
    try {
      parse_safetensors(bytes, "w");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string whole = to_safetensors(given_weights(given_graph()));
  EXPECT_EQ(refusal("abc"),
            "w: expected a safetensors file: the length of its header does not fit");
  EXPECT_NE(refusal(whole.substr(0, whole.size() - 1)), "");
  EXPECT_NE(refusal(whole + "x"), "");
  Graph other = given_graph();
  other.params[1].shape = {1};
  EXPECT_THROW(attach_weights(other, given_weights(given_graph()), "w"), InputError);
}

TEST(Weights, GivenOnesHaveTheSizeOfTheirParameter) {
  Graph graph = given_graph();
  graph.params[1].values = std::make_shared<const std::string>("abc");
  try {
    validate(graph, "g");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "g: /params/1: G2: \"scale\" has 3 bytes of values, expected 8");
  }
}

}  // namespace
}  // namespace graphpipe
