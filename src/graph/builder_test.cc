#include "graph/builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"

namespace graphpipe {
namespace {

std::string fault(const std::function<void(GraphBuilder&)>& build) {
  GraphBuilder g("g");
  try {
    build(g);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(GraphBuilder, MakesTheOperatorWithItsParameters) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {4, 6});
  const TensorId y = g.linear("fc", x, 3);
  const Graph graph = std::move(g).build();
  ASSERT_EQ(graph.ops.size(), 1U);
  const Operator& op = graph.ops[0];
  EXPECT_EQ(op.name, "fc");
  EXPECT_EQ(op.kind, OpKind::kLinear);
  EXPECT_EQ(op.inputs, std::vector<TensorId>({x}));
  EXPECT_EQ(op.outputs, std::vector<TensorId>({y}));
  EXPECT_EQ(op.params, std::vector<ParamId>({ParamId(0), ParamId(1)}));
  EXPECT_EQ(graph.params[0].name, "fc.weight");
  EXPECT_EQ(graph.params[0].shape, std::vector<std::int64_t>({3, 6}));
  EXPECT_EQ(graph.params[0].init, (Init{InitKind::kUniform, 1 / std::sqrt(6.0)}));
  EXPECT_EQ(graph.params[1].name, "fc.bias");
  EXPECT_EQ(graph.params[1].init, (Init{InitKind::kZeros, 0}));
  EXPECT_EQ(graph.tensor(y).name, "fc");
  EXPECT_EQ(graph.tensor(y).producer, OpId(0));
  EXPECT_EQ(graph.inputs, std::vector<TensorId>({x}));
}

TEST(GraphBuilder, AttentionAndNormHaveTheirParameters) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {4, 6});
  g.layer_norm("norm", g.attention("attention", x, 2));
  std::vector<std::string> names;
  for (const Parameter& p : g.graph().params) names.push_back(p.name);
  EXPECT_EQ(names, std::vector<std::string>({"attention.in_weight", "attention.in_bias",
                                             "attention.out_weight", "attention.out_bias",
                                             "norm.weight", "norm.bias"}));
  EXPECT_EQ(g.graph().params[0].shape, std::vector<std::int64_t>({18, 6}));
  EXPECT_EQ(g.graph().params[4].init.kind, InitKind::kOnes);
}

TEST(GraphBuilder, AttributesAreSorted) {
  GraphBuilder g("g");
  g.slice("slice", g.input("x", {4}), 0, 1, 2);
  std::vector<std::string> names;
  for (const auto& [name, value] : g.graph().ops[0].attributes) names.push_back(name);
  EXPECT_EQ(names, std::vector<std::string>({"axis", "length", "start"}));
  EXPECT_EQ(g.graph().ops[0].integer("start"), 1);
  EXPECT_EQ(g.graph().ops[0].integer("length"), 2);
}

TEST(GraphBuilder, FloatingTypeHoldsForInputsAndParameters) {
  GraphBuilder g("g", DType::kFloat64);
  const TensorId y = g.linear("fc", g.input("x", {4}), 2);
  EXPECT_EQ(g.graph().tensor(y).dtype, DType::kFloat64);
  EXPECT_EQ(g.graph().params[0].dtype, DType::kFloat64);
}

TEST(GraphBuilder, AParameterMayBeTied) {
  GraphBuilder g("g");
  const ParamId w = g.param("w", {4, 4}, {InitKind::kNormal, 1});
  const TensorId x = g.input("x", {4});
  const TensorId a = g.add_op("a", OpKind::kLinear, {x}, {w}, {})[0];
  g.add_op("b", OpKind::kLinear, {a}, {w}, {});
  const Graph graph = std::move(g).build();
  EXPECT_EQ(graph.params.size(), 1U);
  EXPECT_EQ(graph.ops[0].params, graph.ops[1].params);
}

TEST(GraphBuilder, AnOutputMayHaveANameOfItsOwn) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {4});
  const TensorId y = g.add_op("relu", OpKind::kRelu, {x}, {}, {}, {"activation"})[0];
  EXPECT_EQ(g.graph().tensor(y).name, "activation");
}

TEST(GraphBuilder, NamesAreTakenOnce) {
  EXPECT_EQ(fault([](GraphBuilder& g) {
              g.input("x", {4});
              g.input("x", {4});
            }),
            "x: there is already a tensor of this name");
  EXPECT_EQ(fault([](GraphBuilder& g) {
              const TensorId x = g.input("x", {4});
              g.relu("relu", x);
              g.relu("relu", x);
            }),
            "relu: there is already an operator of this name");
  EXPECT_EQ(fault([](GraphBuilder& g) { g.relu("x", g.input("x", {4})); }),
            "x: there is already a tensor of this name");
  EXPECT_EQ(fault([](GraphBuilder& g) {
              g.param("w", {4}, {});
              g.param("w", {4}, {});
            }),
            "w: there is already a parameter of this name");
  EXPECT_EQ(fault([](GraphBuilder& g) { g.input("", {4}); }), "a new tensor: the name is empty");
}

TEST(GraphBuilder, BuildValidates) {
  EXPECT_EQ(fault([](GraphBuilder& g) {
              g.loss(g.relu("relu", g.input("x", {4})));
              std::move(g).build();
            }),
            "g: /losses/0: G7: \"relu\" is batched float32 (4), expected one floating number a "
            "sample: batched float32 () or float64 ()");
}

TEST(GraphBuilder, AStrangersIdIsOurFault) {
  GraphBuilder g("g");
  EXPECT_THROW(g.relu("relu", TensorId(3)), InternalError);
  EXPECT_THROW(g.linear("fc", TensorId(), 3), InternalError);
}

}  // namespace
}  // namespace graphpipe
