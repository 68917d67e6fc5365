#include "graph/graph_json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

const char* const kSmall = R"({
  "format": "graphpipe-graph",
  "version": 1,
  "name": "small",
  "tensors": [
    {"name":"x","dtype":"float32","batched":true,"shape":[3]},
    {"name":"fc","dtype":"float32","batched":true,"shape":[2]},
    {"name":"drop","dtype":"float32","batched":true,"shape":[2]},
    {"name":"y","dtype":"float32","batched":true,"shape":[2]},
    {"name":"loss","dtype":"float32","batched":true,"shape":[]}
  ],
  "params": [
    {"name":"fc.weight","dtype":"float32","shape":[2,3],"init":{"kind":"uniform","scale":0.5773502691896258},"trainable":true},
    {"name":"fc.bias","dtype":"float32","shape":[2],"init":{"kind":"zeros","scale":0.0},"trainable":true}
  ],
  "ops": [
    {"name":"fc","kind":"linear","attributes":{},"inputs":["x"],"params":["fc.weight","fc.bias"],"outputs":["fc"]},
    {"name":"drop","kind":"dropout","attributes":{"rate":0.25},"inputs":["fc"],"params":[],"outputs":["drop"]},
    {"name":"loss","kind":"mse_loss","attributes":{},"inputs":["drop","y"],"params":[],"outputs":["loss"]}
  ],
  "inputs": [
    "x",
    "y"
  ],
  "losses": [
    {"tensor":"loss","weight":1.0,"normaliser":"mean_over_samples"}
  ],
  "metrics": [
    {"name":"rmse","kind":"root_mean","tensor":"loss"}
  ]
}
)";

// What parse_graph() says when `from` (which stands there once) is `to`.
std::string fault(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    parse_graph(text, "g.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// A graph with every kind of attribute, initialisation, dtype and loss.
Graph rich_graph() {
  GraphBuilder g("rich \"graph\"");
  const TensorId ids = g.input("ids", DType::kInt64, {4});
  const TensorId fixed = g.input("fixed", DType::kFloat32, {4, 6}, false);
  TensorId x = g.add("add", {g.embedding("table", ids, 9, 6), fixed});
  x = g.attention("attention", x, 2, true);
  x = g.dropout("dropout", g.layer_norm("norm", x), 0);
  x = g.add_parameter("positions", x, {InitKind::kConstant, -1.5});
  x = g.mean("mean", g.transpose("transpose", x, {1, 0}), -1);
  const ParamId frozen = g.param("frozen", {6, 6}, {InitKind::kOnes, 0}, false);
  x = g.add_op("fc", OpKind::kLinear, {x}, {frozen}, {}, {"hidden"})[0];
  const TensorId bag = g.embedding_bag("bag", ids, 9, 6, "mean");
  g.input("mask", DType::kBool, {});
  g.loss(g.mse_loss("mse", x, bag), 0.1, Normaliser::kSum);
  g.loss(g.binary_cross_entropy("bce", x, bag));
  return std::move(g).build();
}

void expect_same(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(graph_hash(a), graph_hash(b));  // all but names of tensors, and metrics
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].name, b.tensors[i].name);
  }
  ASSERT_EQ(a.ops.size(), b.ops.size());
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    EXPECT_EQ(a.ops[i].attributes, b.ops[i].attributes) << a.ops[i].name;
  }
  ASSERT_EQ(a.metrics.size(), b.metrics.size());
  for (std::size_t i = 0; i < a.metrics.size(); ++i) {
    EXPECT_EQ(a.metrics[i].name, b.metrics[i].name);
    EXPECT_EQ(a.metrics[i].kind, b.metrics[i].kind);
    EXPECT_EQ(a.metrics[i].tensor, b.metrics[i].tensor);
  }
}

TEST(GraphJson, ReadsWhatItWrites) {
  EXPECT_EQ(to_json(parse_graph(kSmall, "g.json")), kSmall);
  const Graph rich = rich_graph();
  const Graph again = parse_graph(to_json(rich), "g.json");
  expect_same(rich, again);
  EXPECT_EQ(to_json(again), to_json(rich));
}

TEST(GraphJson, DefaultsMayBeLeftOut) {
  const Graph graph = parse_graph(R"({
    "format": "graphpipe-graph", "version": 1, "name": "g",
    "tensors": [{"name": "x", "dtype": "float32", "shape": [2]},
                {"name": "y", "dtype": "float32", "shape": [2]}],
    "ops": [{"name": "relu", "kind": "relu", "inputs": ["x"], "outputs": ["y"]}],
    "inputs": ["x"]})",
                                  "g.json");
  EXPECT_TRUE(graph.tensors[1].batched);
  EXPECT_EQ(graph.tensors[1].producer, OpId(0));
  EXPECT_TRUE(graph.losses.empty());
}

TEST(GraphJson, AWholeNumberServesWhereANumberIsExpected) {
  EXPECT_EQ(fault("\"rate\":0.25", "\"rate\":0"), "");
}

TEST(GraphJson, RefusesAnotherFormatOrVersion) {
  EXPECT_EQ(fault("graphpipe-graph", "graphpipe-plan"),
            "g.json: /format: expected \"graphpipe-graph\", found \"graphpipe-plan\"; this is not "
            "a graph");
  EXPECT_EQ(fault("\"version\": 1", "\"version\": 2"),
            "g.json: /version: expected 1, found 2; write the file anew with this program");
  EXPECT_EQ(fault("\"format\": \"graphpipe-graph\",", ""), "g.json: \"format\" is missing");
}

TEST(GraphJson, RefusesNamesThatDoNotExist) {
  EXPECT_EQ(fault("\"inputs\":[\"drop\",\"y\"]", "\"inputs\":[\"dorp\",\"y\"]"),
            "g.json: /ops/2/inputs/0: there is no tensor \"dorp\"; did you mean \"drop\"?");
  EXPECT_EQ(fault("\"fc.bias\"],", "\"bias\"],"),
            "g.json: /ops/0/params/1: there is no parameter \"bias\"");
  EXPECT_EQ(fault("\"tensor\":\"loss\"}", "\"tensor\":\"los\"}"),
            "g.json: /metrics/0/tensor: there is no tensor \"los\"; did you mean \"loss\"?");
}

TEST(GraphJson, RefusesUnknownWordsAndKeys) {
  EXPECT_EQ(fault("\"dtype\":\"float32\"", "\"dtype\":\"float31\""),
            "g.json: /tensors/0/dtype: unknown dtype \"float31\" (did you mean \"float32\"?); "
            "expected one of float32, float64, int64, bool");
  EXPECT_EQ(fault("\"kind\":\"uniform\"", "\"kind\":\"gamma\""),
            "g.json: /params/0/init/kind: unknown initialisation \"gamma\"; expected one of zeros, "
            "ones, constant, uniform, normal, given");
  EXPECT_EQ(
      fault("\"kind\":\"dropout\"", "\"kind\":\"drop_out\""),
      "g.json: /ops/1/kind: unknown operator kind \"drop_out\" (did you mean \"dropout\"?); "
      "expected one of linear, matmul, attention, layer_norm, softmax, gelu, relu, sigmoid, tanh, "
      "add, mul, add_parameter, concat, embedding, embedding_bag, dropout, reshape, "
      "transpose, slice, split, pad, mean, elementwise, reduce, along_axis, gather, "
      "expand, conv1d, conv2d, conv_transpose2d, max_pool2d, "
      "avg_pool2d, global_avg_pool, resize, batch_norm, lstm, gru, mse_loss, cross_entropy, "
      "binary_cross_entropy, correct, opaque, custom");
  EXPECT_EQ(fault("\"normaliser\":\"mean_over_samples\"", "\"normaliser\":\"mean\""),
            "g.json: /losses/0/normaliser: unknown normaliser \"mean\"; expected one of "
            "mean_over_samples, sum");
  EXPECT_EQ(fault("\"trainable\":true", "\"trainble\":true"),
            "g.json: /params/0: unknown key \"trainble\" (did you mean \"trainable\"?); known "
            "keys: name, dtype, shape, init, trainable");
  EXPECT_EQ(fault("\"rate\":0.25", "\"rate\":null"),
            "g.json: /ops/1/attributes/rate: expected a number, found null");
  EXPECT_EQ(fault("\"attributes\":{},", "\"attributes\":{\"x\":{}},"),
            "g.json: /ops/0/attributes/x: expected true or false, a number, a string or a list of "
            "whole numbers");
}

TEST(GraphJson, RefusesWhatValidateRefuses) {
  EXPECT_EQ(fault("\"shape\":[3]", "\"shape\":[4]"),
            "g.json: /ops/0: G3: linear: weight (out, in) \"fc.weight\" has shape (2, 3), expected "
            "(2, 4)");
  EXPECT_EQ(fault("\"name\":\"drop\",\"dtype\"", "\"name\":\"fc\",\"dtype\""),
            "g.json: /ops/1/outputs/0: there is no tensor \"drop\"")
      << "names are looked up first";
  EXPECT_EQ(fault("\"outputs\":[\"drop\"]", "\"outputs\":[\"fc\"]"),
            "g.json: /ops/1: G4: output \"fc\" belongs to operator \"fc\", its producer");
  EXPECT_EQ(fault("\"rate\":0.25", "\"rate\":1.5"),
            "g.json: /ops/1: G3: dropout: rate is 1.5, expected at least 0 and less than 1");
  EXPECT_EQ(fault("{\"rate\":0.25}", "{}"),
            "g.json: /ops/1: G3: dropout needs attribute \"rate\", a number");
}

}  // namespace
}  // namespace graphpipe
