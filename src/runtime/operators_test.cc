#include "runtime/operators.h"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <string>

#include "base/counter_random.h"
#include "cost/kept_tensors.h"
#include "graph/builder.h"
#include "graph/custom_op.h"
#include "runtime/one_dnn.h"
#include "runtime/parameters.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kBatch = 3;
const std::vector<std::int64_t> kIds = {5, 2, 9};

// The last operator of a graph, with float64 data for what it reads. Running statistics
// stay as they are: finite differences call the forward many times.
struct OneOp {
  Graph graph;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> params;
  bool training = true;

  const Operator& op() const { return graph.ops.back(); }
  std::vector<at::Tensor> outputs(bool update_statistics = false) const {
    return forward_op(graph, op(), inputs, params, {training, 1, 4, kIds, update_statistics});
  }
  at::Tensor forward() const { return outputs()[0]; }
};

c10::intrusive_ptr<c10::StorageImpl> storage_of(const at::Tensor& tensor) {
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
      tensor.storage().unsafeGetStorageImpl());
}

at::Tensor normal(std::vector<std::int64_t> shape, std::uint64_t key) {
  const CounterRandom random(key);
  at::Tensor values = torch::empty(shape, torch::kFloat64);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] = random.normal(static_cast<std::uint64_t>(i));
  }
  return values;
}

// Builds a graph whose inputs are `shapes` (float64) and whose only operator `add` makes.
OneOp one_op(const std::vector<std::vector<std::int64_t>>& shapes,
             const std::function<void(GraphBuilder&, const std::vector<TensorId>&)>& add) {
  GraphBuilder builder("one", DType::kFloat64);
  std::vector<TensorId> ids;
  OneOp one;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    ids.push_back(builder.input("x" + std::to_string(i), shapes[i]));
    std::vector<std::int64_t> batched = {kBatch};
    batched.insert(batched.end(), shapes[i].begin(), shapes[i].end());
    one.inputs.push_back(normal(batched, 100 + i).requires_grad_());
  }
  add(builder, ids);
  one.graph = builder.graph();
  for (std::size_t p = 0; p < one.op().params.size(); ++p) {
    const Parameter& param = one.graph.param(one.op().params[p]);
    one.params.push_back(normal(param.shape, 200 + p).requires_grad_(param.trainable));
  }
  return one;
}

// Puts int64 data in place of input `i`.
void set_ids(OneOp& one, std::size_t i, std::vector<std::int64_t> shape,
             const std::vector<std::int64_t>& ids) {
  one.inputs[i] = torch::tensor(ids, torch::kInt64).view(shape);
}

// A number that depends on every element of the outputs, each with another weight.
at::Tensor weighted_sum(const std::vector<at::Tensor>& ys) {
  at::Tensor sum = torch::zeros({}, torch::kFloat64);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    sum = sum + (ys[i] * normal(ys[i].sizes().vec(), 300 + i)).sum();
  }
  return sum;
}

// Central differences of weighted_sum(outputs()) by every element of `x`.
at::Tensor numeric_gradient(const OneOp& one, const at::Tensor& x) {
  const torch::NoGradGuard no_gradients;
  constexpr double kStep = 1e-6;
  at::Tensor gradient = torch::empty_like(x);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    double& element = x.data_ptr<double>()[i];
    const double middle = element;
    element = middle + kStep;
    const double above = weighted_sum(one.outputs()).item<double>();
    element = middle - kStep;
    const double below = weighted_sum(one.outputs()).item<double>();
    element = middle;
    gradient.data_ptr<double>()[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

// The outputs have the shapes that the graph says and are contiguous; gradients of all floating
// inputs and parameters are those of finite differences, and contiguous.
void check(const OneOp& one) {
  SCOPED_TRACE(std::string(op_kind_name(one.op().kind)));
  const std::vector<at::Tensor> ys = one.outputs();
  ASSERT_EQ(ys.size(), one.op().outputs.size());
  for (std::size_t i = 0; i < ys.size(); ++i) {
    std::vector<std::int64_t> expected = {kBatch};
    const Tensor& type = one.graph.tensor(one.op().outputs[i]);
    expected.insert(expected.end(), type.shape.begin(), type.shape.end());
    EXPECT_EQ(ys[i].sizes().vec(), expected);
    EXPECT_EQ(ys[i].scalar_type(), scalar_type(type.dtype));
    EXPECT_TRUE(ys[i].is_contiguous());
  }
  if (one.op().kind == OpKind::kCorrect) return;  // a count: no gradient
  torch::autograd::backward({weighted_sum(ys)});
  std::vector<at::Tensor> leaves = one.inputs;
  leaves.insert(leaves.end(), one.params.begin(), one.params.end());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].requires_grad()) continue;
    ASSERT_TRUE(leaves[i].grad().defined()) << "leaf " << i;
    EXPECT_TRUE(leaves[i].grad().is_contiguous()) << "leaf " << i;
    const at::Tensor numeric = numeric_gradient(one, leaves[i]);
    EXPECT_TRUE(torch::allclose(leaves[i].grad(), numeric, 1e-5, 1e-7)) << "leaf " << i;
  }
}

// An operator whose input 0 is int64 ids.
OneOp table_op(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& ids,
               const std::function<void(GraphBuilder&, TensorId)>& add) {
  GraphBuilder builder("one", DType::kFloat64);
  const TensorId x = builder.input("ids", DType::kInt64, shape);
  add(builder, x);
  OneOp one;
  one.graph = builder.graph();
  one.inputs.resize(1);
  std::vector<std::int64_t> batched = {kBatch};
  batched.insert(batched.end(), shape.begin(), shape.end());
  set_ids(one, 0, batched, ids);
  one.params = {normal(one.graph.params[0].shape, 200).requires_grad_()};
  return one;
}

// Logits (2, 4) and classes.
OneOp class_op(const std::function<void(GraphBuilder&, TensorId, TensorId)>& add,
               const std::vector<std::int64_t>& classes) {
  GraphBuilder builder("one", DType::kFloat64);
  const TensorId logits = builder.input("logits", {2, 4});
  const TensorId target = builder.input("target", DType::kInt64, {2});
  add(builder, logits, target);
  OneOp one;
  one.graph = builder.graph();
  one.inputs = {normal({kBatch, 2, 4}, 1).requires_grad_(), at::Tensor()};
  set_ids(one, 1, {kBatch, 2}, classes);
  return one;
}

OneOp function_op(const std::vector<std::vector<std::int64_t>>& shapes, const std::string& name,
                  const std::vector<std::int64_t>& operands) {
  return one_op(shapes, [&](GraphBuilder& g, const std::vector<TensorId>& x) {
    g.add_op("o", OpKind::kElementwise, x, {},
             {{"alpha", 0.0}, {"beta", 0.0}, {"function", name}, {"operands", operands}});
  });
}

OneOp reduce_op(const std::string& name, const std::vector<std::int64_t>& axes) {
  return one_op({{3, 4}}, [&](GraphBuilder& g, const std::vector<TensorId>& x) {
    g.add_op("o", OpKind::kReduce, x, {}, {{"axes", axes}, {"function", name}, {"keep", false}});
  });
}

OneOp along_op(const std::string& name) {
  return one_op({{3, 4}}, [&](GraphBuilder& g, const std::vector<TensorId>& x) {
    g.add_op("o", OpKind::kAlongAxis, x, {}, {{"axis", std::int64_t{0}}, {"function", name}});
  });
}

// Of data (4) by indices (2), a sample's own.
OneOp gather_op() {
  GraphBuilder g("one", DType::kFloat64);
  const TensorId data = g.input("data", {4});
  const TensorId indices = g.input("indices", DType::kInt64, {2});
  g.add_op("o", OpKind::kGather, {data, indices}, {},
           {{"axis", std::int64_t{0}},
            {"mode", std::string("index")},
            {"operands", std::vector<std::int64_t>{0, 1}}});
  OneOp one;
  one.graph = g.graph();
  one.inputs = {normal({kBatch, 4}, 1).requires_grad_(), at::Tensor()};
  set_ids(one, 1, {kBatch, 2}, {0, 3, 1, 1, 2, 0});
  return one;
}

// y = factor * scale * x^3. The backward reads x, or else takes it from y.
CustomOp cube_op(const std::string& name, bool keeps_inputs) {
  CustomOp op;
  op.name = name;
  op.keeps_inputs = keeps_inputs;
  op.keeps_outputs = !keeps_inputs;
  op.outputs = [](const CustomTypes& types) { return std::vector{types.inputs[0]}; };
  op.forward = [](const CustomForward& run) {
    const auto x = run.inputs[0].values<double>();
    const double scale = run.params[0].values<double>()[0] * run.op.number("factor");
    for (std::size_t i = 0; i < x.size(); ++i) {
      run.outputs[0].values<double>()[i] = scale * x[i] * x[i] * x[i];
    }
  };
  op.backward = [](const CustomBackward& run) {
    EXPECT_EQ(run.samples, kBatch);
    EXPECT_EQ(static_cast<bool>(run.inputs[0]), !static_cast<bool>(run.outputs[0]));
    const auto gradient = run.output_gradients[0].values<double>();
    const double scale = run.params[0].values<double>()[0] * run.op.number("factor");
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double x = run.inputs[0] ? run.inputs[0].values<double>()[i]
                                     : std::cbrt(run.outputs[0].values<double>()[i] / scale);
      run.input_gradients[0].values<double>()[i] += gradient[i] * scale * 3 * x * x;
      run.param_gradients[0].values<double>()[0] +=
          gradient[i] * run.op.number("factor") * x * x * x;
    }
  };
  return op;
}

std::vector<OneOp> custom_examples() {
  static const bool registered = [] {
    register_custom_op(cube_op("cube", true));
    register_custom_op(cube_op("cube-by-output", false));
    return true;
  }();
  EXPECT_TRUE(registered);
  std::vector<OneOp> examples;
  for (const char* name : {"cube", "cube-by-output"}) {
    examples.push_back(one_op({{2, 3}}, [&](GraphBuilder& g, const std::vector<TensorId>& x) {
      const ParamId scale = g.param("scale", {1}, {InitKind::kOnes, 0});
      g.custom("o", name, x, {scale}, {{"factor", 0.5}});
    }));
  }
  return examples;
}

// Of each kind, one or more. The compiler names a kind that misses here.
std::vector<OneOp> examples(OpKind kind) {
  using G = GraphBuilder;
  using Ids = std::vector<TensorId>;
  const std::vector<std::int64_t> classes = {0, 3, 1, 1, 2, 0};
  switch (kind) {
    case OpKind::kLinear:
      return {one_op({{4}}, [](G& g, const Ids& x) { g.linear("o", x[0], 3); }),
              one_op({{2, 4}}, [](G& g, const Ids& x) { g.linear("o", x[0], 3, false); })};
    case OpKind::kMatmul:
      return {
          one_op({{2, 3, 4}, {2, 4, 5}}, [](G& g, const Ids& x) { g.matmul("o", x[0], x[1]); }),
          one_op({{3, 4}, {5, 4}}, [](G& g, const Ids& x) { g.matmul("o", x[0], x[1], true); })};
    case OpKind::kAttention:
      return {one_op({{3, 4}}, [](G& g, const Ids& x) { g.attention("o", x[0], 2); }),
              one_op({{3, 4}}, [](G& g, const Ids& x) { g.attention("o", x[0], 2, true); })};
    case OpKind::kLayerNorm:
      return {one_op({{2, 5}}, [](G& g, const Ids& x) { g.layer_norm("o", x[0]); })};
    case OpKind::kSoftmax:
      return {one_op({{2, 5}}, [](G& g, const Ids& x) { g.softmax("o", x[0]); })};
    case OpKind::kGelu:
      return {one_op({{2, 5}}, [](G& g, const Ids& x) { g.gelu("o", x[0]); })};
    case OpKind::kRelu:
      return {one_op({{2, 5}}, [](G& g, const Ids& x) { g.relu("o", x[0]); })};
    case OpKind::kSigmoid:
      return {one_op({{2, 5}}, [](G& g, const Ids& x) { g.sigmoid("o", x[0]); })};
    case OpKind::kTanh:
      return {one_op({{2, 5}}, [](G& g, const Ids& x) { g.tanh("o", x[0]); })};
    case OpKind::kAdd:
      return {one_op({{5}, {5}, {5}}, [](G& g, const Ids& x) { g.add("o", x); })};
    case OpKind::kMul:
      return {one_op({{5}, {5}}, [](G& g, const Ids& x) { g.mul("o", x[0], x[1]); })};
    case OpKind::kAddParameter:
      return {one_op({{2, 3}}, [](G& g, const Ids& x) {
        g.add_parameter("o", x[0], {InitKind::kNormal, 1});
      })};
    case OpKind::kConcat:
      return {one_op({{2, 3}, {2, 4}}, [](G& g, const Ids& x) { g.concat("o", x, -1); }),
              one_op({{2, 3}, {4, 3}}, [](G& g, const Ids& x) { g.concat("o", x, 0); })};
    case OpKind::kEmbedding:
      return {
          table_op({2}, {0, 3, 1, 1, 2, 0}, [](G& g, TensorId x) { g.embedding("o", x, 4, 3); })};
    case OpKind::kEmbeddingBag:
      return {table_op({2}, {0, 3, 1, -1, -1, -1},
                       [](G& g, TensorId x) { g.embedding_bag("o", x, 4, 3, "sum"); }),
              table_op({2}, {0, 3, 1, -1, -1, -1},
                       [](G& g, TensorId x) { g.embedding_bag("o", x, 4, 3, "mean"); })};
    case OpKind::kDropout:
      return {one_op({{4, 5}}, [](G& g, const Ids& x) { g.dropout("o", x[0], 0.4); })};
    case OpKind::kReshape:
      return {one_op({{4, 6}}, [](G& g, const Ids& x) { g.reshape("o", x[0], {3, 8}); })};
    case OpKind::kTranspose:
      return {one_op({{2, 3, 4}}, [](G& g, const Ids& x) { g.transpose("o", x[0], {2, 0, 1}); })};
    case OpKind::kSlice:
      return {one_op({{5, 2}}, [](G& g, const Ids& x) { g.slice("o", x[0], -2, 1, 3); })};
    case OpKind::kSplit:
      return {one_op({{5, 2}},
                     [](G& g, const Ids& x) {
                       g.split("o", x[0], -2, {1, 3, 1});
                     }),
              one_op({{2, 4}}, [](G& g, const Ids& x) { g.split("o", x[0], 1, {4}); })};
    case OpKind::kPad:
      return {one_op({{3, 2}}, [](G& g, const Ids& x) { g.pad("o", x[0], {1, 0}, {0, 2}, 0.5); })};
    case OpKind::kConv1d:
      return {one_op({{4, 6}},
                     [](G& g, const Ids& x) {
                       g.conv1d("o", x[0], 2, 3, {.stride = 2, .padding = 1, .groups = 2});
                     }),
              one_op({{2, 5}}, [](G& g, const Ids& x) {
                g.conv1d("o", x[0], 3, 2, {.dilation = 2, .bias = false});
              })};
    case OpKind::kConv2d:
      return {one_op({{2, 5, 4}},
                     [](G& g, const Ids& x) {
                       g.conv2d("o", x[0], 3, 3, {.stride = 2, .padding = 1});
                     }),
              one_op({{3, 5, 5}},
                     [](G& g, const Ids& x) {
                       g.conv2d("o", x[0], 3, 2, {.dilation = 2, .groups = 3, .bias = false});
                     }),
              one_op({{3, 2, 2}}, [](G& g, const Ids& x) { g.conv2d("o", x[0], 2, 1); })};
    case OpKind::kConvTranspose2d:
      return {
          one_op({{2, 3, 2}},
                 [](G& g, const Ids& x) { g.conv_transpose2d("o", x[0], 3, 2, {.stride = 2}); }),
          one_op({{4, 2, 3}}, [](G& g, const Ids& x) {
            g.conv_transpose2d("o", x[0], 2, 3, {.padding = 1, .groups = 2, .bias = false});
          })};
    case OpKind::kMaxPool2d:
      return {one_op({{2, 4, 5}}, [](G& g, const Ids& x) { g.max_pool2d("o", x[0], 3, 2, 1); }),
              one_op({{2, 4, 4}}, [](G& g, const Ids& x) { g.max_pool2d("o", x[0], 2, 2); })};
    case OpKind::kAvgPool2d:
      return {one_op({{2, 4, 5}}, [](G& g, const Ids& x) { g.avg_pool2d("o", x[0], 3, 2, 1); })};
    case OpKind::kGlobalAvgPool:
      return {one_op({{2, 3, 4}}, [](G& g, const Ids& x) { g.global_avg_pool("o", x[0]); }),
              one_op({{2, 3}}, [](G& g, const Ids& x) { g.global_avg_pool("o", x[0]); })};
    case OpKind::kResize:
      return {one_op({{2, 3, 2}},
                     [](G& g, const Ids& x) {
                       g.resize("o", x[0], {6, 5});
                     }),
              one_op({{2, 3, 2}}, [](G& g, const Ids& x) {
                g.resize("o", x[0], {6, 5}, "bilinear");
              })};
    case OpKind::kBatchNorm:
      return {one_op({{2, 3, 2}}, [](G& g, const Ids& x) { g.batch_norm("o", x[0]); }),
              one_op({{4}}, [](G& g, const Ids& x) { g.batch_norm("o", x[0]); })};
    case OpKind::kLstm:
      return {one_op({{4, 3}}, [](G& g, const Ids& x) { g.lstm("o", x[0], 2); })};
    case OpKind::kGru:
      return {one_op({{4, 3}}, [](G& g, const Ids& x) { g.gru("o", x[0], 2); })};
    case OpKind::kMean:
      return {one_op({{3, 4}}, [](G& g, const Ids& x) { g.mean("o", x[0], 0); }),
              one_op({{3, 4}}, [](G& g, const Ids& x) { g.mean("o", x[0], -1); })};
    case OpKind::kElementwise:
      return {function_op({{2, 3}, {3}}, "mul", {0, 1}), function_op({{2, 3}}, "exp", {0}),
              function_op({{3}, {2, 3}}, "sub", {1, 0}), function_op({{2, 3}}, "erf", {0})};
    case OpKind::kReduce:
      return {reduce_op("mean", {0}), reduce_op("max", {0, 1}), reduce_op("l2", {1}),
              reduce_op("log_sum_exp", {1})};
    case OpKind::kAlongAxis:
      return {along_op("log_softmax"), along_op("cumulative_sum")};
    case OpKind::kGather:
      return {gather_op()};
    case OpKind::kExpand:
      return {one_op({{2, 1}}, [](G& g, const Ids& x) {
        g.add_op("o", OpKind::kExpand, x, {}, {{"shape", std::vector<std::int64_t>{3, 2, 4}}});
      })};
    case OpKind::kMseLoss:
      return {one_op({{3, 2}, {3, 2}}, [](G& g, const Ids& x) { g.mse_loss("o", x[0], x[1]); }),
              one_op({{}, {}}, [](G& g, const Ids& x) { g.mse_loss("o", x[0], x[1]); })};
    case OpKind::kCrossEntropy:
      return {class_op([](G& g, TensorId x, TensorId y) { g.cross_entropy("o", x, y); }, classes)};
    case OpKind::kBinaryCrossEntropy:
      return {
          one_op({{4}, {4}}, [](G& g, const Ids& x) { g.binary_cross_entropy("o", x[0], x[1]); })};
    case OpKind::kCorrect:
      return {class_op([](G& g, TensorId x, TensorId y) { g.correct("o", x, y); }, classes)};
    case OpKind::kCustom:
      return custom_examples();
    case OpKind::kOpaque:  // cannot run
      return {};
  }
  return {};
}

TEST(Operators, OutputsAndGradientsAreAsPromisedForEveryKind) {
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    for (const OneOp& one : examples(static_cast<OpKind>(kind))) check(one);
  }
}

// Which tensors' memory outlives their last name, for a backward.
TEST(Operators, KeepForTheirBackwardsWhatIsSaidOfEveryKind) {
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    for (const OneOp& example : examples(static_cast<OpKind>(kind))) {
      SCOPED_TRACE(op_signature(example.graph, OpId(example.graph.op_count() - 1)));
      OneOp one = example;
      std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> inputs;
      for (at::Tensor& input : one.inputs) {
        input = input.clone();  // not a leaf, which its gradient would keep
        inputs.emplace_back(storage_of(input));
      }
      std::vector<at::Tensor> made = one.outputs();
      std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> outputs;
      std::vector<std::shared_ptr<torch::autograd::Node>> backwards;
      for (const at::Tensor& output : made) {
        outputs.emplace_back(storage_of(output));
        backwards.push_back(output.grad_fn());
      }
      one.inputs.clear();
      made.clear();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        // A backward that needs less than is said would be no fault, but a waste.
        EXPECT_EQ(!inputs[i].expired(), runtime_keeps_input(one.op(), i)) << "input " << i;
      }
      for (const auto& output : outputs) {
        EXPECT_EQ(!output.expired(), runtime_keeps_output(one.op()));
      }
    }
  }
}

TEST(Operators, EmbeddingPicksRows) {
  const OneOp one = table_op({2}, {0, 3, 1, 1, 2, 0},
                             [](GraphBuilder& g, TensorId x) { g.embedding("o", x, 4, 3); });
  EXPECT_TRUE(one.forward()[0][1].equal(one.params[0][3]));
}

TEST(Operators, EmbeddingRefusesAnIdBeyondItsTable) {
  const OneOp one =
      table_op({}, {0, 4, 1}, [](GraphBuilder& g, TensorId x) { g.embedding("o", x, 4, 3); });
  EXPECT_THROW(one.forward(), c10::Error);
}

TEST(Operators, EmbeddingBagSumsAndMeansWithoutPadding) {
  // One bag with padding, one full, one empty.
  const std::vector<std::int64_t> ids = {2, -1, 0, 1, 1, 3, -1, -1, -1};
  for (const char* mode : {"sum", "mean"}) {
    SCOPED_TRACE(mode);
    const OneOp one = table_op(
        {3}, ids, [&](GraphBuilder& g, TensorId x) { g.embedding_bag("o", x, 4, 2, mode); });
    const at::Tensor& table = one.params[0];
    const bool mean = std::string(mode) == "mean";
    const at::Tensor y = one.forward();
    EXPECT_TRUE(torch::allclose(y[0], (table[2] + table[0]) / (mean ? 2 : 1)));
    EXPECT_TRUE(torch::allclose(y[1], (2 * table[1] + table[3]) / (mean ? 3 : 1)));
    EXPECT_TRUE(y[2].equal(torch::zeros({2}, torch::kFloat64)));
  }
}

TEST(Operators, EmbeddingBagRefusesAnIdBeyondItsTable) {
  const OneOp one =
      table_op({1}, {0, 4, 1}, [](GraphBuilder& g, TensorId x) { g.embedding_bag("o", x, 4, 3); });
  EXPECT_THROW(one.forward(), c10::Error);
}

// Scaled dot products over heads, element by element.
at::Tensor plain_attention(const OneOp& one, std::int64_t heads, bool causal) {
  const at::Tensor& x = one.inputs[0];
  const std::int64_t t = x.size(1), c = x.size(2), d = c / heads;
  at::Tensor out = torch::empty_like(x);
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    const at::Tensor qkv = x[b].matmul(one.params[0].t()) + one.params[1];  // (T, 3C)
    at::Tensor context = torch::zeros({t, c}, torch::kFloat64);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < t; ++i) {
        const std::int64_t seen = causal ? i + 1 : t;
        const at::Tensor q = qkv[i].narrow(0, h * d, d);
        std::vector<double> weight;
        double total = 0;
        for (std::int64_t j = 0; j < seen; ++j) {
          const at::Tensor k = qkv[j].narrow(0, c + h * d, d);
          weight.push_back(
              std::exp((q * k).sum().item<double>() / std::sqrt(static_cast<double>(d))));
          total += weight.back();
        }
        for (std::int64_t j = 0; j < seen; ++j) {
          context[i].narrow(0, h * d, d) +=
              weight[static_cast<std::size_t>(j)] / total * qkv[j].narrow(0, 2 * c + h * d, d);
        }
      }
    }
    out[b] = context.matmul(one.params[2].t()) + one.params[3];
  }
  return out;
}

TEST(Operators, AttentionIsScaledDotProductsOverHeads) {
  for (const bool causal : {false, true}) {
    const OneOp one = one_op({{4, 6}}, [&](GraphBuilder& g, const std::vector<TensorId>& x) {
      g.attention("o", x[0], 3, causal);
    });
    const torch::NoGradGuard no_gradients;
    EXPECT_TRUE(torch::allclose(one.forward(), plain_attention(one, 3, causal))) << causal;
  }
}

TEST(Operators, CrossEntropyIsTheMeanOverPositionsOfMinusTheLogProbability) {
  const std::vector<std::int64_t> classes = {0, 3, 1, 1, 2, 0};
  const OneOp one = class_op(
      [](GraphBuilder& g, TensorId x, TensorId y) { g.cross_entropy("o", x, y); }, classes);
  const torch::NoGradGuard no_gradients;
  const at::Tensor p = one.inputs[0].exp() / one.inputs[0].exp().sum(-1, true);
  for (std::int64_t b = 0; b < kBatch; ++b) {
    double expected = 0;
    for (std::int64_t i = 0; i < 2; ++i) {
      expected -= std::log(p[b][i][classes[static_cast<std::size_t>(2 * b + i)]].item<double>());
    }
    EXPECT_NEAR(one.forward()[b].item<double>(), expected / 2, 1e-12);
  }
}

TEST(Operators, CorrectIsTheShareOfRightArgmaxes) {
  OneOp one = class_op([](GraphBuilder& g, TensorId x, TensorId y) { g.correct("o", x, y); },
                       {1, 0, 2, 0, 1, 0});
  one.inputs[0] = torch::tensor({1.0, 2.0, 0.0, 0.0, 5.0, 1.0, 0.0, 0.0,   // both right
                                 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0,   // the first
                                 3.0, 2.0, 1.0, 1.0, 1.0, 2.0, 3.0, 1.0},  // neither
                                torch::kFloat64)
                      .view({kBatch, 2, 4});
  EXPECT_TRUE(one.forward().equal(torch::tensor({1.0, 0.5, 0.0}, torch::kFloat64)));
}

TEST(Operators, UseOneDnnWhereItIsRight) {
  use_right_kernels();
  const std::string text = one_dnn_text();
  const bool wrong = text.starts_with("3.");
  EXPECT_EQ(text.find("not used") != std::string::npos, wrong) << text;
  EXPECT_EQ(at::globalContext().userEnabledMkldnn(), !wrong) << text;
}

TEST(Operators, DropoutIsOffInEvaluation) {
  OneOp one = one_op(
      {{50}}, [](GraphBuilder& g, const std::vector<TensorId>& x) { g.dropout("o", x[0], 0.5); });
  EXPECT_FALSE(one.forward().equal(one.inputs[0]));
  one.training = false;
  EXPECT_TRUE(one.forward().equal(one.inputs[0]));
}

}  // namespace
}  // namespace graphpipe
