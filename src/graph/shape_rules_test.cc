// What each kind of operator gives out, and what it says of inputs that do not fit. By
// the builder, which asks infer_outputs() at once.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

using Shape = std::vector<std::int64_t>;

// Inputs of many shapes, and a place to build on them.
struct Bench {
  GraphBuilder g{"bench"};
  TensorId scalar = g.input("scalar", Shape{});
  TensorId vector = g.input("vector", {6});
  TensorId matrix = g.input("matrix", {4, 6});
  TensorId other = g.input("other", {4, 5});
  TensorId cube = g.input("cube", {2, 4, 6});
  TensorId doubles = g.input("doubles", DType::kFloat64, {4, 6});
  TensorId fixed = g.input("fixed", DType::kFloat32, {4, 6}, false);
  TensorId id = g.input("id", DType::kInt64, {});
  TensorId ids = g.input("ids", DType::kInt64, {4});
  TensorId id_matrix = g.input("id_matrix", DType::kInt64, {4, 6});
  TensorId mask = g.input("mask", DType::kBool, {4, 6});

  const Tensor& at(TensorId t) const { return g.graph().tensor(t); }
};

Shape shape(const std::function<TensorId(Bench&)>& build) {
  Bench bench;
  return bench.at(build(bench)).shape;
}

std::string fault(const std::function<void(Bench&)>& build) {
  Bench bench;
  try {
    build(bench);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ShapeRules, LinearReplacesTheLastDimension) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.linear("op", b.vector, 3); }), Shape({3}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.linear("op", b.cube, 3, false); }), Shape({2, 4, 3}));
  EXPECT_EQ(fault([](Bench& b) { b.g.linear("op", b.scalar, 3); }),
            "op: input \"scalar\" is one number a sample, expected at least 1 dimension");
  EXPECT_EQ(fault([](Bench& b) { b.g.linear("op", b.id_matrix, 3); }),
            "op: G3: linear: input 0 \"id_matrix\" is int64, expected float32 or float64");
  EXPECT_EQ(fault([](Bench& b) { b.g.linear("op", b.doubles, 3); }),
            "op: G3: linear: weight (out, in) \"op.weight\" is float32, expected float64");
  EXPECT_EQ(fault([](Bench& b) {
              const ParamId w = b.g.param("w", {3}, {});
              b.g.add_op("op", OpKind::kLinear, {b.vector}, {w}, {});
            }),
            "op: G3: linear: weight (out, in) \"w\" has shape (3), expected 2 dimensions");
  EXPECT_EQ(fault([](Bench& b) {
              const ParamId w = b.g.param("w", {3, 6}, {});
              const ParamId bias = b.g.param("b", {6}, {});
              b.g.add_op("op", OpKind::kLinear, {b.vector}, {w, bias}, {});
            }),
            "op: G3: linear: bias (out) \"b\" has shape (6), expected (3)");
}

TEST(ShapeRules, MatmulMultipliesTheLastTwoDimensions) {
  EXPECT_EQ(shape([](Bench& b) {
              return b.g.matmul("op", b.g.transpose("t", b.other, {1, 0}), b.matrix);
            }),
            Shape({5, 6}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.matmul("op", b.matrix, b.matrix, true); }),
            Shape({4, 4}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.matmul("op", b.cube, b.cube, true); }),
            Shape({2, 4, 4}));
  EXPECT_EQ(
      fault([](Bench& b) { b.g.matmul("op", b.matrix, b.other); }),
      "op: G3: matmul: input 1 \"other\" has shape (4, 5), expected the leading dimensions of "
      "input 0 \"matrix\", (4, 6), and k = 6");
  EXPECT_EQ(fault([](Bench& b) { b.g.matmul("op", b.vector, b.matrix); }),
            "op: G3: matmul: input 0 \"vector\" has shape (6), expected at least 2 dimensions");
  EXPECT_EQ(fault([](Bench& b) { b.g.matmul("op", b.matrix, b.doubles); }),
            "op: G3: matmul: input 1 \"doubles\" is float64, expected float32 as input 0");
}

TEST(ShapeRules, AttentionKeepsTheShape) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.attention("op", b.matrix, 3); }), Shape({4, 6}));
  EXPECT_EQ(fault([](Bench& b) { b.g.attention("op", b.cube, 3); }),
            "op: G3: attention: input 0 \"cube\" has shape (2, 4, 6), expected 2 dimensions");
  EXPECT_EQ(fault([](Bench& b) { b.g.attention("op", b.matrix, 4); }),
            "op: G3: attention: heads is 4, expected a divisor of the 6 channels of input 0 "
            "\"matrix\"");
  EXPECT_EQ(fault([](Bench& b) { b.g.attention("op", b.matrix, 0); }),
            "op: G3: attention: heads is 0, expected a divisor of the 6 channels of input 0 "
            "\"matrix\"");
  EXPECT_EQ(fault([](Bench& b) {
              std::vector<ParamId> params;
              for (const Shape& s : {Shape{18, 6}, Shape{6}, Shape{6, 6}, Shape{6}}) {
                params.push_back(b.g.param(fmt::format("p{}", params.size()), s, {}));
              }
              b.g.add_op("op", OpKind::kAttention, {b.matrix}, params,
                         {{"heads", std::int64_t{2}}, {"causal", false}});
            }),
            "op: G3: attention: in_bias (3C) \"p1\" has shape (6), expected (18)");
}

TEST(ShapeRules, LayerNormKeepsTheShape) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.layer_norm("op", b.cube); }), Shape({2, 4, 6}));
  EXPECT_EQ(fault([](Bench& b) { b.g.layer_norm("op", b.matrix, 0); }),
            "op: G3: layer_norm: epsilon is 0, expected more than 0 and less than 1");
}

TEST(ShapeRules, ElementwiseKeepsTheShape) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.relu("op", b.scalar); }), Shape());
  EXPECT_EQ(shape([](Bench& b) { return b.g.gelu("op", b.cube); }), Shape({2, 4, 6}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.softmax("op", b.vector); }), Shape({6}));
  EXPECT_EQ(shape([](Bench& b) {
              return b.g.add("op", {b.matrix, b.fixed, b.matrix});
            }),
            Shape({4, 6}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.mul("op", b.matrix, b.fixed); }), Shape({4, 6}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.dropout("op", b.matrix, 0.5); }), Shape({4, 6}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.add_parameter("op", b.matrix, {}); }), Shape({4, 6}));
  EXPECT_EQ(fault([](Bench& b) { b.g.softmax("op", b.scalar); }),
            "op: G3: softmax: input 0 \"scalar\" has shape (), expected at least 1 dimension");
  EXPECT_EQ(fault([](Bench& b) {
              b.g.add("op", {b.matrix, b.other});
            }),
            "op: G3: add: input 1 \"other\" has shape (4, 5), expected (4, 6)");
  EXPECT_EQ(fault([](Bench& b) { b.g.mul("op", b.matrix, b.doubles); }),
            "op: G3: mul: input 1 \"doubles\" is float64, expected float32 as input 0");
  EXPECT_EQ(fault([](Bench& b) { b.g.relu("op", b.mask); }),
            "op: G3: relu: input 0 \"mask\" is bool, expected float32 or float64");
  EXPECT_EQ(fault([](Bench& b) { b.g.dropout("op", b.matrix, 1); }),
            "op: G3: dropout: rate is 1, expected at least 0 and less than 1");
  EXPECT_EQ(fault([](Bench& b) {
              const ParamId p = b.g.param("p", {6}, {});
              b.g.add_op("op", OpKind::kAddParameter, {b.matrix}, {p}, {});
            }),
            "op: G3: add_parameter: parameter \"p\" has shape (6), expected (4, 6)");
}

TEST(ShapeRules, ConcatAddsUpOneAxis) {
  EXPECT_EQ(shape([](Bench& b) {
              return b.g.concat("op", {b.matrix, b.other}, 1);
            }),
            Shape({4, 11}));
  EXPECT_EQ(shape([](Bench& b) {
              return b.g.concat("op", {b.matrix, b.fixed, b.other}, -1);
            }),
            Shape({4, 17}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.concat("op", {b.ids, b.ids}, 0); }), Shape({8}));
  EXPECT_EQ(fault([](Bench& b) {
              b.g.concat("op", {b.matrix, b.other}, 0);
            }),
            "op: G3: concat: input 1 \"other\" has shape (4, 5), expected (4, 6)");
  EXPECT_EQ(
      fault([](Bench& b) {
        b.g.concat("op", {b.matrix, b.matrix}, 2);
      }),
      "op: G3: concat: axis is 2, expected one of the dimensions of input 0 \"matrix\", which "
      "has shape (4, 6)");
  EXPECT_EQ(fault([](Bench& b) {
              b.g.concat("op", {b.matrix, b.matrix}, -3);
            }),
            "op: G3: concat: axis is -3, expected one of the dimensions of input 0 \"matrix\", "
            "which has shape (4, 6)");
  EXPECT_EQ(fault([](Bench& b) {
              b.g.concat("op", {b.matrix, b.id_matrix}, 0);
            }),
            "op: G3: concat: input 1 \"id_matrix\" is int64, expected float32 as input 0");
  EXPECT_EQ(fault([](Bench& b) {
              b.g.concat("op", {b.matrix, b.vector}, 0);
            }),
            "op: G3: concat: input 1 \"vector\" has shape (6), expected 2 dimensions");
  EXPECT_EQ(fault([](Bench& b) { b.g.concat("op", {b.matrix}, 0); }),
            "op: G3: concat has 2 or more inputs, found 1");
}

TEST(ShapeRules, EmbeddingAddsADimension) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.embedding("op", b.id, 10, 3); }), Shape({3}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.embedding("op", b.id_matrix, 10, 3); }),
            Shape({4, 6, 3}));
  EXPECT_EQ(fault([](Bench& b) { b.g.embedding("op", b.vector, 10, 3); }),
            "op: G3: embedding: input 0 \"vector\" is float32, expected int64");
  EXPECT_EQ(fault([](Bench& b) {
              const ParamId p = b.g.param("p", {6}, {});
              b.g.add_op("op", OpKind::kEmbedding, {b.ids}, {p}, {});
            }),
            "op: G3: embedding: table (entries, dim) \"p\" has shape (6), expected 2 dimensions");
}

TEST(ShapeRules, EmbeddingBagGivesOneRow) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.embedding_bag("op", b.ids, 10, 3); }), Shape({3}));
  EXPECT_EQ(fault([](Bench& b) { b.g.embedding_bag("op", b.id, 10, 3); }),
            "op: G3: embedding_bag: input 0 \"id\" has shape (), expected 1 dimension");
  EXPECT_EQ(fault([](Bench& b) { b.g.embedding_bag("op", b.ids, 10, 3, "max"); }),
            "op: G3: embedding_bag: mode is \"max\", expected \"sum\" or \"mean\"");
}

TEST(ShapeRules, ReshapeKeepsTheElements) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.reshape("op", b.matrix, {2, 12}); }), Shape({2, 12}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.reshape("op", b.scalar, {1}); }), Shape({1}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.reshape("op", b.g.linear("fc", b.vector, 1), {}); }),
            Shape());
  const std::string expected =
      ", expected positive dimensions with the 24 elements of input 0 \"matrix\"";
  EXPECT_EQ(fault([](Bench& b) {
              b.g.reshape("op", b.matrix, {5, 5});
            }),
            "op: G3: reshape: shape is (5, 5)" + expected);
  EXPECT_EQ(fault([](Bench& b) {
              b.g.reshape("op", b.matrix, {-4, -6});
            }),
            "op: G3: reshape: shape is (-4, -6)" + expected);
  EXPECT_EQ(fault([](Bench& b) {
              b.g.reshape("op", b.matrix, {-1, 6});
            }),
            "op: G3: reshape: shape is (-1, 6)" + expected);
}

TEST(ShapeRules, TransposePermutes) {
  EXPECT_EQ(shape([](Bench& b) {
              return b.g.transpose("op", b.cube, {2, 0, 1});
            }),
            Shape({6, 2, 4}));
  const std::string expected = ", expected each of the 2 dimensions of input 0 \"matrix\" once";
  EXPECT_EQ(fault([](Bench& b) {
              b.g.transpose("op", b.matrix, {0, 0});
            }),
            "op: G3: transpose: permutation is (0, 0)" + expected);
  EXPECT_EQ(fault([](Bench& b) { b.g.transpose("op", b.matrix, {0}); }),
            "op: G3: transpose: permutation is (0)" + expected);
  EXPECT_EQ(fault([](Bench& b) {
              b.g.transpose("op", b.matrix, {1, 2});
            }),
            "op: G3: transpose: permutation is (1, 2)" + expected);
}

TEST(ShapeRules, SliceShortensOneAxis) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.slice("op", b.matrix, 1, 2, 4); }), Shape({4, 4}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.slice("op", b.cube, -3, 1, 1); }), Shape({1, 4, 6}));
  const auto expected = [](const std::string& found) {
    return "op: G3: slice: " + found +
           " do not fit in the 6 elements of axis 1 of input 0 "
           "\"matrix\"";
  };
  EXPECT_EQ(fault([](Bench& b) { b.g.slice("op", b.matrix, 1, 3, 4); }),
            expected("start 3 and length 4"));
  EXPECT_EQ(fault([](Bench& b) { b.g.slice("op", b.matrix, 1, -1, 4); }),
            expected("start -1 and length 4"));
  EXPECT_EQ(fault([](Bench& b) { b.g.slice("op", b.matrix, 1, 0, 0); }),
            expected("start 0 and length 0"));
  EXPECT_EQ(fault([](Bench& b) { b.g.slice("op", b.matrix, 1, 6, 1); }),
            expected("start 6 and length 1"));
}

TEST(ShapeRules, MeanRemovesTheAxis) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.mean("op", b.cube, 0); }), Shape({4, 6}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.mean("op", b.cube, -1); }), Shape({2, 4}));
  EXPECT_EQ(shape([](Bench& b) { return b.g.mean("op", b.vector, 0); }), Shape());
  EXPECT_EQ(fault([](Bench& b) { b.g.mean("op", b.scalar, 0); }),
            "op: G3: mean: axis is 0, expected one of the dimensions of input 0 \"scalar\", which "
            "has shape ()");
}

TEST(ShapeRules, LossesGiveOneNumberASample) {
  EXPECT_EQ(shape([](Bench& b) { return b.g.mse_loss("op", b.matrix, b.matrix); }), Shape());
  EXPECT_EQ(shape([](Bench& b) { return b.g.binary_cross_entropy("op", b.scalar, b.scalar); }),
            Shape());
  EXPECT_EQ(shape([](Bench& b) { return b.g.cross_entropy("op", b.vector, b.id); }), Shape());
  EXPECT_EQ(shape([](Bench& b) { return b.g.cross_entropy("op", b.matrix, b.ids); }), Shape());
  EXPECT_EQ(shape([](Bench& b) { return b.g.correct("op", b.vector, b.id); }), Shape());
  EXPECT_EQ(fault([](Bench& b) { b.g.mse_loss("op", b.matrix, b.other); }),
            "op: G3: mse_loss: input 1 \"other\" has shape (4, 5), expected (4, 6)");
  EXPECT_EQ(fault([](Bench& b) { b.g.binary_cross_entropy("op", b.matrix, b.id_matrix); }),
            "op: G3: binary_cross_entropy: input 1 \"id_matrix\" is int64, expected float32 or "
            "float64");
  EXPECT_EQ(fault([](Bench& b) { b.g.cross_entropy("op", b.matrix, b.id); }),
            "op: G3: cross_entropy: input 1 \"id\" has shape (), expected (4)");
  EXPECT_EQ(fault([](Bench& b) { b.g.cross_entropy("op", b.matrix, b.vector); }),
            "op: G3: cross_entropy: input 1 \"vector\" is float32, expected int64");
  EXPECT_EQ(fault([](Bench& b) { b.g.correct("op", b.scalar, b.id); }),
            "op: G3: correct: input 0 \"scalar\" has shape (), expected at least 1 dimension");
}

TEST(ShapeRules, OneBatchedInputMakesTheOutputBatched) {
  Bench b;
  EXPECT_FALSE(b.at(b.g.relu("fixed_only", b.fixed)).batched);
  EXPECT_TRUE(b.at(b.g.relu("batched", b.matrix)).batched);
  EXPECT_TRUE(b.at(b.g.add("mixed", {b.fixed, b.matrix})).batched);
  EXPECT_FALSE(b.at(b.g.linear("fixed_fc", b.fixed, 3)).batched);
}

TEST(ShapeRules, OutputsHaveTheTypeOfTheirInputs) {
  Bench b;
  EXPECT_EQ(b.at(b.g.relu("doubles_relu", b.doubles)).dtype, DType::kFloat64);
  EXPECT_EQ(b.at(b.g.reshape("mask_reshape", b.mask, {24})).dtype, DType::kBool);
  EXPECT_EQ(b.at(b.g.slice("ids_slice", b.ids, 0, 0, 2)).dtype, DType::kInt64);
  EXPECT_EQ(b.at(b.g.embedding("table", b.ids, 9, 2)).dtype, DType::kFloat32);
  EXPECT_EQ(b.at(b.g.correct("correct", b.matrix, b.ids)).dtype, DType::kFloat32);
}

}  // namespace
}  // namespace graphpipe
