// Builds a Graph by code, with shapes inferred at once: a wrong shape throws where it
// is written.
//
//   GraphBuilder g("two-tower");
//   auto x = g.input("user", DType::kInt64, {});
//   auto h = g.relu("user.relu", g.linear("user.fc", g.embedding("user.table", x, 671, 32), 64));
//   ...
//   g.loss(g.mse_loss("loss", y, rating));
//   Graph graph = std::move(g).build();

#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

// Windows of a convolution, the same along every dimension.
struct Conv {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// Every method throws InputError("NAME", ...) where the inputs do not fit the
// operator or the name is taken. Parameters are called NAME.weight, NAME.bias, ...;
// an operator's only output is called as the operator.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string graph_name, DType floating = DType::kFloat32);

  TensorId input(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                 bool batched = true);
  // An input of the builder's floating type.
  TensorId input(const std::string& name, std::vector<std::int64_t> shape);

  // Weight uniform in +-1/sqrt(in), bias zero.
  TensorId linear(const std::string& name, TensorId x, std::int64_t out, bool bias = true);
  TensorId matmul(const std::string& name, TensorId a, TensorId b, bool transpose_b = false);
  TensorId attention(const std::string& name, TensorId x, std::int64_t heads, bool causal = false);
  TensorId layer_norm(const std::string& name, TensorId x, double epsilon = 1e-5);
  TensorId softmax(const std::string& name, TensorId x);
  TensorId gelu(const std::string& name, TensorId x);
  TensorId relu(const std::string& name, TensorId x);
  TensorId sigmoid(const std::string& name, TensorId x);
  TensorId tanh(const std::string& name, TensorId x);
  TensorId add(const std::string& name, std::vector<TensorId> xs);
  TensorId mul(const std::string& name, TensorId a, TensorId b);
  TensorId add_parameter(const std::string& name, TensorId x, Init init);
  TensorId concat(const std::string& name, std::vector<TensorId> xs, std::int64_t axis);
  // Tables are normal with standard deviation `scale`.
  TensorId embedding(const std::string& name, TensorId ids, std::int64_t entries, std::int64_t dim,
                     double scale = 0.1);
  TensorId embedding_bag(const std::string& name, TensorId ids, std::int64_t entries,
                         std::int64_t dim, const std::string& mode = "sum", double scale = 0.1);
  TensorId dropout(const std::string& name, TensorId x, double rate);
  TensorId reshape(const std::string& name, TensorId x, std::vector<std::int64_t> shape);
  TensorId transpose(const std::string& name, TensorId x, std::vector<std::int64_t> permutation);
  TensorId slice(const std::string& name, TensorId x, std::int64_t axis, std::int64_t start,
                 std::int64_t length);
  // Outputs are called NAME.0, NAME.1, ...
  std::vector<TensorId> split(const std::string& name, TensorId x, std::int64_t axis,
                              std::vector<std::int64_t> sizes);
  TensorId pad(const std::string& name, TensorId x, std::vector<std::int64_t> before,
               std::vector<std::int64_t> after, double value = 0);
  TensorId mean(const std::string& name, TensorId x, std::int64_t axis);
  // `out` channels by square kernels. Weights uniform in +-sqrt(6 / inputs of an output),
  // which suits a ReLU behind it (He et al., ICCV 2015); bias zero.
  TensorId conv1d(const std::string& name, TensorId x, std::int64_t out, std::int64_t kernel,
                  const Conv& conv = {});
  TensorId conv2d(const std::string& name, TensorId x, std::int64_t out, std::int64_t kernel,
                  const Conv& conv = {});
  TensorId conv_transpose2d(const std::string& name, TensorId x, std::int64_t out,
                            std::int64_t kernel, const Conv& conv = {});
  TensorId max_pool2d(const std::string& name, TensorId x, std::int64_t kernel, std::int64_t stride,
                      std::int64_t padding = 0);
  TensorId avg_pool2d(const std::string& name, TensorId x, std::int64_t kernel, std::int64_t stride,
                      std::int64_t padding = 0);
  TensorId global_avg_pool(const std::string& name, TensorId x);
  TensorId resize(const std::string& name, TensorId x, std::vector<std::int64_t> size,
                  const std::string& mode = "nearest");
  // Parameters NAME.weight, .bias, and .mean, .variance, which no gradient changes.
  TensorId batch_norm(const std::string& name, TensorId x, double epsilon = 1e-5,
                      double momentum = 0.1);
  // Parameters NAME.w_ih, .w_hh, .b_ih, .b_hh, uniform in +-1/sqrt(hidden).
  TensorId lstm(const std::string& name, TensorId x, std::int64_t hidden);
  TensorId gru(const std::string& name, TensorId x, std::int64_t hidden);
  TensorId mse_loss(const std::string& name, TensorId prediction, TensorId target);
  TensorId cross_entropy(const std::string& name, TensorId logits, TensorId target);
  TensorId binary_cross_entropy(const std::string& name, TensorId logits, TensorId target);
  TensorId correct(const std::string& name, TensorId logits, TensorId target);

  // One of the program's own, registered as `function` (graph/custom_op.h). Outputs are called
  // as the operator where there is one, NAME.0, NAME.1, ... where there are several.
  std::vector<TensorId> custom(const std::string& name, const std::string& function,
                               std::vector<TensorId> inputs, std::vector<ParamId> params = {},
                               std::vector<std::pair<std::string, Attribute>> attributes = {});

  // Any operator; what the methods above call. Parameters are added with param().
  std::vector<TensorId> add_op(const std::string& name, OpKind kind, std::vector<TensorId> inputs,
                               std::vector<ParamId> params,
                               std::vector<std::pair<std::string, Attribute>> attributes,
                               std::vector<std::string> output_names = {});
  ParamId param(const std::string& name, std::vector<std::int64_t> shape, Init init,
                bool trainable = true);
  // One whose values are given (Parameter::values).
  ParamId given(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                std::shared_ptr<const std::string> values, bool trainable);

  void loss(TensorId tensor, double weight = 1.0,
            Normaliser normaliser = Normaliser::kMeanOverSamples);
  void metric(const std::string& name, const std::string& kind, TensorId tensor);

  const Graph& graph() const { return graph_; }
  // Validates and hands over.
  Graph build() &&;

 private:
  TensorId convolution(const std::string& name, OpKind kind, TensorId x, std::int64_t out,
                       std::int64_t kernel, const Conv& conv);
  TensorId pool2d(const std::string& name, OpKind kind, TensorId x, std::int64_t kernel,
                  std::int64_t stride, std::int64_t padding);
  TensorId recurrent(const std::string& name, OpKind kind, TensorId x, std::int64_t hidden,
                     std::int64_t gates);

  Graph graph_;
  DType floating_;
  // For asking only; nothing depends on their order.
  std::unordered_set<std::string> tensor_names_;
  std::unordered_set<std::string> param_names_;
  std::unordered_set<std::string> op_names_;
};

}  // namespace graphpipe
