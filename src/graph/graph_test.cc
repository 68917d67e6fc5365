#include "graph/graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

// x -> fc -> relu -> loss, with the target y. Tensors: x 0, y 1, fc 2, relu 3, loss 4.
Graph small_graph() {
  GraphBuilder g("small");
  const TensorId x = g.input("x", {3});
  const TensorId y = g.input("y", {2});
  const TensorId loss = g.mse_loss("loss", g.relu("relu", g.linear("fc", x, 2)), y);
  g.loss(loss);
  g.metric("rmse", "root_mean", loss);
  return std::move(g).build();
}

// What validate() says about the small graph after `change`.
std::string fault(const std::function<void(Graph&)>& change) {
  Graph graph = small_graph();
  change(graph);
  try {
    validate(graph, "g.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(GraphValidate, AcceptsTheSmallGraph) {
  EXPECT_EQ(fault([](Graph&) {}), "");
}

TEST(GraphValidate, G1IdsAreInRange) {
  EXPECT_EQ(fault([](Graph& g) { g.tensors[2].producer = OpId(7); }),
            "g.json: /tensors/2: G1: the producer is 7, and there are 3 (from 0)");
  EXPECT_EQ(fault([](Graph& g) { g.ops[1].inputs[0] = TensorId(5); }),
            "g.json: /ops/1: G1: an input is 5, and there are 5 (from 0)");
  EXPECT_EQ(fault([](Graph& g) { g.ops[0].params[1] = ParamId(2); }),
            "g.json: /ops/0: G1: a parameter is 2, and there are 2 (from 0)");
  EXPECT_EQ(fault([](Graph& g) { g.ops[0].outputs[0] = TensorId(); }),
            "g.json: /ops/0: G1: an output is -1, and there are 5 (from 0)");
  EXPECT_EQ(fault([](Graph& g) { g.inputs[1] = TensorId(9); }),
            "g.json: /inputs/1: G1: the tensor is 9, and there are 5 (from 0)");
  EXPECT_EQ(fault([](Graph& g) { g.losses[0].tensor = TensorId(9); }),
            "g.json: /losses/0: G1: the tensor is 9, and there are 5 (from 0)");
  EXPECT_EQ(fault([](Graph& g) { g.metrics[0].tensor = TensorId(-2); }),
            "g.json: /metrics/0: G1: the tensor is -2, and there are 5 (from 0)");
}

TEST(GraphValidate, G1NamesAreUniqueAndNotEmpty) {
  EXPECT_EQ(fault([](Graph& g) { g.tensors[3].name = ""; }),
            "g.json: /tensors/3: G1: the name is empty");
  EXPECT_EQ(fault([](Graph& g) { g.tensors[3].name = g.tensors[0].name; }),
            "g.json: /tensors/3: G1: the name \"x\" is taken by an earlier one of tensors");
  EXPECT_EQ(fault([](Graph& g) { g.params[1].name = "fc.weight"; }),
            "g.json: /params/1: G1: the name \"fc.weight\" is taken by an earlier one of params");
  EXPECT_EQ(fault([](Graph& g) { g.ops[2].name = "fc"; }),
            "g.json: /ops/2: G1: the name \"fc\" is taken by an earlier one of ops");
}

TEST(GraphValidate, G1NamesAreUtf8) {
  EXPECT_EQ(fault([](Graph& g) { g.ops[2].name = "relu\xff"; }),
            "g.json: /ops/2: G1: the name is not UTF-8");
}

TEST(GraphValidate, G1OperatorsAreAtMostAHundredThousand) {
  EXPECT_EQ(fault([](Graph& g) { g.ops.resize(100'001); }),
            "g.json: /ops: G1: 100001 operators, expected at most 100000");
}

TEST(GraphValidate, G2ShapesArePositiveAndOfReasonableSize) {
  const std::string expected =
      ", expected at most 8 dimensions, all positive, and at most 2^40 elements";
  EXPECT_EQ(fault([](Graph& g) {
              g.tensors[0].shape = {3, 0};
            }),
            "g.json: /tensors/0: G2: \"x\" has shape (3, 0)" + expected);
  EXPECT_EQ(fault([](Graph& g) { g.params[1].shape = {-2}; }),
            "g.json: /params/1: G2: \"fc.bias\" has shape (-2)" + expected);
  EXPECT_EQ(fault([](Graph& g) { g.tensors[1].shape.assign(9, 1); }),
            "g.json: /tensors/1: G2: \"y\" has shape (1, 1, 1, 1, 1, 1, 1, 1, 1)" + expected);
  EXPECT_EQ(fault([](Graph& g) {
              g.tensors[0].shape = {1 << 20, (1 << 20) + 1};
            }),
            "g.json: /tensors/0: G2: \"x\" has shape (1048576, 1048577)" + expected);
  // 2^33 * 2^33 does not fit 64 bits.
  EXPECT_EQ(fault([](Graph& g) {
              g.tensors[0].shape = {std::int64_t{1} << 33, std::int64_t{1} << 33};
            }),
            "g.json: /tensors/0: G2: \"x\" has shape (8589934592, 8589934592)" + expected);
}

TEST(GraphValidate, G3CountsAreThoseOfTheKind) {
  EXPECT_EQ(fault([](Graph& g) { g.ops[1].inputs.push_back(TensorId(0)); }),
            "g.json: /ops/1: G3: relu has 1 inputs, found 2");
  EXPECT_EQ(fault([](Graph& g) { g.ops[0].params.clear(); }),
            "g.json: /ops/0: G3: linear has 1 to 2 parameters, found 0");
  EXPECT_EQ(fault([](Graph& g) { g.ops[1].kind = OpKind::kAdd; }),
            "g.json: /ops/1: G3: add has 2 or more inputs, found 1");
  EXPECT_EQ(fault([](Graph& g) { g.ops[1].outputs.push_back(TensorId(4)); }),
            "g.json: /ops/1: G3: relu has 1 output, found 2");
}

TEST(GraphValidate, G3AttributesAreThoseOfTheKind) {
  EXPECT_EQ(fault([](Graph& g) {
              g.ops[1].attributes = {{"rate", 0.5}};
            }),
            "g.json: /ops/1: G3: relu has no attribute \"rate\"; it has none");
  EXPECT_EQ(fault([](Graph& g) {
              g.ops[1].kind = OpKind::kSlice;
              g.ops[1].attributes = {{"from", std::int64_t{0}}};
            }),
            "g.json: /ops/1: G3: slice has no attribute \"from\"; it has axis, length, start");
  EXPECT_EQ(fault([](Graph& g) { g.ops[1].kind = OpKind::kDropout; }),
            "g.json: /ops/1: G3: dropout needs attribute \"rate\", a number");
  EXPECT_EQ(fault([](Graph& g) {
              g.ops[1].kind = OpKind::kMean;
              g.ops[1].attributes = {{"axis", std::string("last")}};
            }),
            "g.json: /ops/1: G3: attribute \"axis\" of mean is a whole number, found \"last\"");
  EXPECT_EQ(fault([](Graph& g) {
              g.ops[1].kind = OpKind::kSlice;
              g.ops[1].attributes = {{"start", std::int64_t{0}}, {"axis", std::int64_t{0}}};
            }),
            "g.json: /ops/1: G3: attributes are sorted by name and not repeated; \"axis\" stands "
            "after \"start\"");
}

TEST(GraphValidate, G3InputsFitTheKind) {
  EXPECT_EQ(fault([](Graph& g) { g.tensors[0].shape = {4}; }),
            "g.json: /ops/0: G3: linear: weight (out, in) \"fc.weight\" has shape (2, 3), expected "
            "(2, 4)");
}

TEST(GraphValidate, G4EveryTensorHasOneOwner) {
  EXPECT_EQ(fault([](Graph& g) { g.tensors[3].producer = OpId(); }),
            "g.json: /ops/1: G4: output \"relu\" belongs to no operator: it has no producer");
  EXPECT_EQ(fault([](Graph& g) { g.tensors[3].producer = OpId(0); }),
            "g.json: /ops/1: G4: output \"relu\" belongs to operator \"fc\", its producer");
  EXPECT_EQ(fault([](Graph& g) { g.inputs.push_back(TensorId(2)); }),
            "g.json: /inputs/2: G4: \"fc\" belongs to operator \"fc\", its producer");
  EXPECT_EQ(fault([](Graph& g) { g.inputs.push_back(TensorId(0)); }),
            "g.json: /inputs/2: G4: \"x\" stands there twice");
  EXPECT_EQ(fault([](Graph& g) { g.inputs.pop_back(); }),
            "g.json: /tensors/1: G4: \"y\" is neither an output of its producer nor an input of "
            "the graph");
}

TEST(GraphValidate, G5OperatorsStandInAnOrderInWhichTheyCanRun) {
  EXPECT_EQ(fault([](Graph& g) {
              std::swap(g.ops[0], g.ops[1]);
              g.tensors[2].producer = OpId(1);
              g.tensors[3].producer = OpId(0);
            }),
            "g.json: /ops/0: G5: \"relu\" reads \"fc\" of operator \"fc\", which does not stand "
            "before it; sort the operators, or break the cycle");
  EXPECT_EQ(fault([](Graph& g) {
              g.ops[1].inputs[0] = TensorId(3);  // relu reads itself
            }),
            "g.json: /ops/1: G5: \"relu\" reads \"relu\" of operator \"relu\", which does not "
            "stand before it; sort the operators, or break the cycle");
}

TEST(GraphValidate, G6OutputsAreThoseInferred) {
  EXPECT_EQ(
      fault([](Graph& g) { g.tensors[2].dtype = DType::kFloat64; }),
      "g.json: /ops/0: G6: output \"fc\" is batched float64 (2), expected batched float32 (2)");
  EXPECT_EQ(fault([](Graph& g) { g.tensors[4].shape = {1}; }),
            "g.json: /ops/2: G6: output \"loss\" is batched float32 (1), expected batched float32 "
            "()");
  EXPECT_EQ(fault([](Graph& g) { g.tensors[4].batched = false; }),
            "g.json: /ops/2: G6: output \"loss\" is float32 (), expected batched float32 ()");
}

TEST(GraphValidate, G7LossesAndMetricsAreOneFloatingNumberASample) {
  EXPECT_EQ(fault([](Graph& g) { g.losses[0].tensor = TensorId(3); }),
            "g.json: /losses/0: G7: \"relu\" is batched float32 (2), expected one floating number "
            "a sample: batched float32 () or float64 ()");
  EXPECT_EQ(fault([](Graph& g) { g.metrics[0].tensor = TensorId(0); }),
            "g.json: /metrics/0: G7: \"x\" is batched float32 (3), expected one floating number a "
            "sample: batched float32 () or float64 ()");
  EXPECT_EQ(fault([](Graph& g) { g.losses[0].weight = std::numeric_limits<double>::infinity(); }),
            "g.json: /losses/0: G7: the weight is inf, expected a finite number");
  EXPECT_EQ(fault([](Graph& g) { g.metrics[0].kind = "median"; }),
            "g.json: /metrics/0: G7: the kind is \"median\", expected \"mean\" or \"root_mean\"");
  EXPECT_EQ(fault([](Graph& g) { g.metrics[0].name = ""; }),
            "g.json: /metrics/0: G7: the name is empty");
  EXPECT_EQ(fault([](Graph& g) { g.metrics.push_back(g.metrics[0]); }),
            "g.json: /metrics/1: G7: the name \"rmse\" is taken by an earlier metric");
}

TEST(GraphValidate, G7AGraphForPlanningNeedsNoLoss) {
  EXPECT_EQ(fault([](Graph& g) {
              g.losses.clear();
              g.metrics.clear();
            }),
            "");
}

TEST(GraphValidate, AnEmptyPlaceLeavesThePointerAlone) {
  Graph graph = small_graph();
  graph.ops[2].name = "fc";
  std::string text;
  try {
    validate(graph, "");
  } catch (const InputError& error) {
    text = error.where();
  }
  EXPECT_EQ(text, "/ops/2");
}

TEST(DTypes, NamesAndBytes) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kBool}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("float16"), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kFloat32), 4);
  EXPECT_EQ(dtype_bytes(DType::kFloat64), 8);
  EXPECT_EQ(dtype_bytes(DType::kInt64), 8);
  EXPECT_EQ(dtype_bytes(DType::kBool), 1);
}

TEST(TensorBytes, CountSamplesWhereBatched) {
  EXPECT_EQ(tensor_bytes({"x", DType::kFloat32, true, {3, 5}, {}}, 7), 420);
  EXPECT_EQ(tensor_bytes({"x", DType::kInt64, false, {3, 5}, {}}, 7), 120);
  EXPECT_EQ(tensor_bytes({"x", DType::kFloat64, true, {}, {}}, 7), 56);
  EXPECT_EQ(param_bytes({"w", DType::kFloat32, {10, 10}, {}, true}), 400);
}

TEST(Consumers, AreAscendingWithoutRepeats) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {2});
  const TensorId a = g.relu("a", x);
  const TensorId b = g.mul("b", a, a);
  g.add("c", {b, a, x});
  const std::vector<std::vector<OpId>> expected{
      {OpId(0), OpId(2)}, {OpId(1), OpId(2)}, {OpId(2)}, {}};
  EXPECT_EQ(consumers(g.graph()), expected);
}

TEST(NeedsGradient, FollowsTheLossBackToParameters) {
  GraphBuilder g("g");
  const TensorId ids = g.input("ids", DType::kInt64, {});
  const TensorId x = g.input("x", {4});
  const TensorId y = g.input("y", DType::kInt64, {});
  const TensorId scaled = g.relu("scaled", x);            // no parameter before it
  const TensorId row = g.embedding("table", ids, 10, 4);  // ids are whole numbers
  const TensorId sum = g.add("sum", {scaled, row});
  const TensorId logits = g.linear("fc", sum, 3);
  const TensorId unused = g.linear("unused", sum, 3);  // no loss behind it
  const TensorId correct = g.correct("correct", logits, y);
  const TensorId loss = g.cross_entropy("loss", logits, y);
  g.loss(loss);
  const std::vector<bool> needed = needs_gradient(g.graph());
  for (const TensorId t : {row, sum, logits, loss}) EXPECT_TRUE(needed[t.index()]) << t.value;
  for (const TensorId t : {ids, x, y, scaled, unused, correct}) {
    EXPECT_FALSE(needed[t.index()]) << t.value;
  }
}

TEST(NeedsGradient, FrozenParametersHaveNone) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {4});
  const ParamId frozen = g.param("frozen", {4, 4}, {}, false);
  const TensorId a = g.add_op("a", OpKind::kLinear, {x}, {frozen}, {})[0];
  const TensorId b = g.linear("b", a, 4);
  const TensorId loss = g.mse_loss("loss", b, x);
  g.loss(loss);
  const std::vector<bool> needed = needs_gradient(g.graph());
  EXPECT_FALSE(needed[a.index()]);
  EXPECT_TRUE(needed[b.index()]);
  EXPECT_TRUE(needed[loss.index()]);
}

TEST(NeedsGradient, ATargetThatIsComputedHasOne) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {4});
  const TensorId teacher = g.linear("teacher", x, 4);
  const TensorId student = g.linear("student", x, 4);
  g.loss(g.mse_loss("loss", student, teacher));
  EXPECT_TRUE(needs_gradient(g.graph())[teacher.index()]);
}

TEST(NeedsGradient, ACountOfRightAnswersIsNoLossToLearnFrom) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {4});
  const TensorId y = g.input("y", DType::kInt64, {});
  const TensorId logits = g.linear("fc", x, 3);
  g.loss(g.correct("correct", logits, y));
  EXPECT_FALSE(needs_gradient(g.graph())[logits.index()]);
}

TEST(GraphHash, IsTheSameForTheSameGraph) {
  EXPECT_EQ(graph_hash(small_graph()), graph_hash(small_graph()));
}

TEST(GraphHash, ChangesWithWhatIsComputed) {
  const std::uint64_t before = graph_hash(small_graph());
  const auto changed = [&](const std::function<void(Graph&)>& change) {
    Graph graph = small_graph();
    change(graph);
    return graph_hash(graph) != before;
  };
  EXPECT_TRUE(changed([](Graph& g) { g.ops[1].kind = OpKind::kGelu; }));
  EXPECT_TRUE(changed([](Graph& g) { g.ops[1].attributes = {{"rate", 0.5}}; }));
  EXPECT_TRUE(changed([](Graph& g) { g.ops[1].name = "relu2"; }));
  EXPECT_TRUE(changed([](Graph& g) { g.ops[1].inputs[0] = TensorId(1); }));
  EXPECT_TRUE(changed([](Graph& g) { g.ops[0].params.pop_back(); }));
  EXPECT_TRUE(changed([](Graph& g) { g.tensors[0].shape = {4}; }));
  EXPECT_TRUE(changed([](Graph& g) { g.tensors[0].dtype = DType::kFloat64; }));
  EXPECT_TRUE(changed([](Graph& g) { g.tensors[0].batched = false; }));
  EXPECT_TRUE(changed([](Graph& g) { g.tensors[0].name = "other"; }))
      << "the field of the data set";
  EXPECT_TRUE(changed([](Graph& g) { g.params[0].name = "weight"; }))
      << "initialisation is by name";
  EXPECT_TRUE(changed([](Graph& g) { g.params[0].init.scale = 2; }));
  EXPECT_TRUE(changed([](Graph& g) { g.params[0].init.kind = InitKind::kNormal; }));
  EXPECT_TRUE(changed([](Graph& g) { g.params[0].trainable = false; }));
  EXPECT_TRUE(changed([](Graph& g) { g.losses[0].weight = 2; }));
  EXPECT_TRUE(changed([](Graph& g) { g.losses[0].normaliser = Normaliser::kSum; }));
}

TEST(GraphHash, LeavesOutWhatIsCosmetic) {
  Graph graph = small_graph();
  graph.name = "other";
  graph.tensors[3].name = "h";
  graph.metrics.clear();
  EXPECT_EQ(graph_hash(graph), graph_hash(small_graph()));
}

TEST(OpSignature, HasKindAttributesTypesAndShapesAndNoNames) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {8, 16});
  const TensorId bias = g.input("bias", DType::kFloat32, {8, 16}, false);
  const TensorId ids = g.input("ids", DType::kInt64, {});
  g.linear("fc", x, 4);
  g.attention("attention", x, 2, true);
  g.add("add", {x, bias});
  g.embedding("table", ids, 1000, 4);
  const ParamId frozen = g.param("frozen", {4, 16}, {}, false);
  g.add_op("frozen_fc", OpKind::kLinear, {x}, {frozen}, {});
  const auto signature = [&](int op) { return op_signature(g.graph(), OpId(op)); };
  EXPECT_EQ(signature(0), "linear{} (float32[*,8,16]; float32[4,16] float32[4]) -> float32[*,8,4]");
  EXPECT_EQ(signature(1),
            "attention{causal=true, heads=2} (float32[*,8,16]; float32[48,16] float32[48] "
            "float32[16,16] float32[16]) -> float32[*,8,16]");
  EXPECT_EQ(signature(2), "add{} (float32[*,8,16] float32[8,16]; ) -> float32[*,8,16]");
  EXPECT_EQ(signature(3), "embedding{} (int64[*]; float32[1000,4]) -> float32[*,4]");
  EXPECT_EQ(signature(4), "linear{} (float32[*,8,16]; float32[4,16] frozen) -> float32[*,8,4]");
}

TEST(ForwardFlops, FollowTheFormulas) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {8, 16});
  const TensorId a = g.input("a", {2, 8, 5});
  const TensorId b = g.input("b", {2, 5, 7});
  const TensorId bt = g.input("bt", {2, 7, 5});
  const TensorId bag = g.input("bag", DType::kInt64, {10});
  const auto flops = [&](TensorId t) {
    return forward_flops_per_sample(g.graph(), g.graph().tensor(t).producer);
  };
  EXPECT_EQ(flops(g.linear("fc", x, 4)), 2 * 8 * 16 * 4);
  EXPECT_EQ(flops(g.matmul("ab", a, b)), 2 * 2 * 8 * 5 * 7);
  EXPECT_EQ(flops(g.matmul("abt", a, bt, true)), 2 * 2 * 8 * 5 * 7);
  EXPECT_EQ(flops(g.attention("attention", x, 4)), 8 * 8 * 16 * 16 + 4 * 8 * 8 * 16);
  EXPECT_EQ(flops(g.embedding_bag("table", bag, 100, 6)), 60);
  EXPECT_EQ(flops(g.add("add", {x, x, x})), 2 * 8 * 16);
  EXPECT_EQ(flops(g.relu("relu", x)), 8 * 16);
  EXPECT_EQ(flops(g.reshape("reshape", x, {128})), 0);
}

TEST(Operator, AttributesAreReadByTypeAndName) {
  const Operator op{"op",
                    OpKind::kSlice,
                    {{"a", true},
                     {"b", std::int64_t{2}},
                     {"c", 0.5},
                     {"d", std::string("sum")},
                     {"e", std::vector<std::int64_t>{1, 2}}},
                    {},
                    {},
                    {}};
  EXPECT_TRUE(op.flag("a"));
  EXPECT_EQ(op.integer("b"), 2);
  EXPECT_EQ(op.number("c"), 0.5);
  EXPECT_EQ(op.text("d"), "sum");
  EXPECT_EQ(op.list("e"), std::vector<std::int64_t>({1, 2}));
  EXPECT_THROW(op.integer("z"), InternalError);
  EXPECT_THROW(op.integer("c"), InternalError);
}

TEST(OpKinds, NamesAreUniqueAndReadBack) {
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_EQ(parse_op_kind(op_kind_name(kind)), kind);
  }
  EXPECT_EQ(parse_op_kind("conv"), std::nullopt);
}

}  // namespace
}  // namespace graphpipe
