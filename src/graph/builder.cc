#include "graph/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace graphpipe {
namespace {

// Keeps the scale of activations through a layer with `in` inputs.
Init fan_in_init(std::int64_t in) {
  return {InitKind::kUniform, 1.0 / std::sqrt(static_cast<double>(in))};
}

void take_name(std::unordered_set<std::string>& names, const std::string& name,
               std::string_view what) {
  if (name.empty()) throw InputError(fmt::format("a new {}", what), "the name is empty");
  if (!names.insert(name).second) {
    throw InputError(name, fmt::format("there is already {} {} of this name",
                                       what[0] == 'o' ? "an" : "a", what));
  }
}

const Tensor& tensor_of(const Graph& graph, const std::string& name, TensorId x) {
  GP_CHECK(x.valid() && x.index() < graph.tensors.size(), "input {} of {}", x.value, name);
  return graph.tensor(x);
}

// The last dimension of x, from which the sizes of parameters follow.
std::int64_t last_dimension(const Graph& graph, const std::string& name, TensorId x) {
  const Tensor& tensor = tensor_of(graph, name, x);
  if (tensor.shape.empty()) {
    throw InputError(name, fmt::format("input \"{}\" is one number a sample, expected at least 1 "
                                       "dimension",
                                       tensor.name));
  }
  return tensor.shape.back();
}

}  // namespace

GraphBuilder::GraphBuilder(std::string graph_name, DType floating) : floating_(floating) {
  GP_CHECK(is_floating(floating), "dtype {}", dtype_name(floating));
  graph_.name = std::move(graph_name);
}

TensorId GraphBuilder::input(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                             bool batched) {
  take_name(tensor_names_, name, "tensor");
  const TensorId id(graph_.tensors.size());
  graph_.tensors.push_back({name, dtype, batched, std::move(shape), OpId()});
  graph_.inputs.push_back(id);
  return id;
}

TensorId GraphBuilder::input(const std::string& name, std::vector<std::int64_t> shape) {
  return input(name, floating_, std::move(shape));
}

ParamId GraphBuilder::param(const std::string& name, std::vector<std::int64_t> shape, Init init,
                            bool trainable) {
  take_name(param_names_, name, "parameter");
  graph_.params.push_back({name, floating_, std::move(shape), init, trainable});
  return ParamId(graph_.params.size() - 1);
}

ParamId GraphBuilder::given(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                            std::shared_ptr<const std::string> values, bool trainable) {
  const ParamId id = param(name, std::move(shape), {InitKind::kGiven, 0}, trainable);
  Parameter& added = graph_.params[id.index()];
  added.dtype = dtype;
  added.values = std::move(values);
  return id;
}

std::vector<TensorId> GraphBuilder::add_op(
    const std::string& name, OpKind kind, std::vector<TensorId> inputs, std::vector<ParamId> params,
    std::vector<std::pair<std::string, Attribute>> attributes,
    std::vector<std::string> output_names) {
  for (const TensorId t : inputs) tensor_of(graph_, name, t);
  for (const ParamId p : params) {
    GP_CHECK(p.valid() && p.index() < graph_.params.size(), "parameter {} of {}", p.value, name);
  }
  take_name(op_names_, name, "operator");
  const OpId id(graph_.ops.size());
  Operator op{name, kind, std::move(attributes), std::move(inputs), std::move(params), {}};
  std::sort(op.attributes.begin(), op.attributes.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Tensor> outputs = infer_outputs(graph_, op, name);
  if (output_names.empty() && outputs.size() == 1) output_names = {name};
  GP_CHECK(output_names.size() == outputs.size(), "{} output names for {} outputs of {}",
           output_names.size(), outputs.size(), name);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    take_name(tensor_names_, output_names[i], "tensor");
    outputs[i].name = output_names[i];
    outputs[i].producer = id;
    op.outputs.push_back(TensorId(graph_.tensors.size()));
    graph_.tensors.push_back(std::move(outputs[i]));
  }
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().outputs;
}

std::vector<TensorId> GraphBuilder::custom(
    const std::string& name, const std::string& function, std::vector<TensorId> inputs,
    std::vector<ParamId> params, std::vector<std::pair<std::string, Attribute>> attributes) {
  for (const TensorId t : inputs) tensor_of(graph_, name, t);
  attributes.emplace_back("function", function);
  std::ranges::sort(attributes, {}, &std::pair<std::string, Attribute>::first);
  const Operator op{name, OpKind::kCustom, attributes, inputs, params, {}};
  const std::size_t outputs = infer_outputs(graph_, op, name).size();
  std::vector<std::string> names;
  for (std::size_t i = 0; outputs > 1 && i < outputs; ++i) {
    names.push_back(fmt::format("{}.{}", name, i));
  }
  return add_op(name, OpKind::kCustom, std::move(inputs), std::move(params), std::move(attributes),
                std::move(names));
}

TensorId GraphBuilder::linear(const std::string& name, TensorId x, std::int64_t out, bool bias) {
  const std::int64_t in = last_dimension(graph_, name, x);
  std::vector<ParamId> params{param(name + ".weight", {out, in}, fan_in_init(in))};
  if (bias) params.push_back(param(name + ".bias", {out}, {}));
  return add_op(name, OpKind::kLinear, {x}, params, {})[0];
}

TensorId GraphBuilder::matmul(const std::string& name, TensorId a, TensorId b, bool transpose_b) {
  return add_op(name, OpKind::kMatmul, {a, b}, {}, {{"transpose_b", transpose_b}})[0];
}

TensorId GraphBuilder::attention(const std::string& name, TensorId x, std::int64_t heads,
                                 bool causal) {
  const std::int64_t channels = last_dimension(graph_, name, x);
  const Init init = fan_in_init(channels);
  const std::vector<ParamId> params{param(name + ".in_weight", {3 * channels, channels}, init),
                                    param(name + ".in_bias", {3 * channels}, {}),
                                    param(name + ".out_weight", {channels, channels}, init),
                                    param(name + ".out_bias", {channels}, {})};
  return add_op(name, OpKind::kAttention, {x}, params, {{"causal", causal}, {"heads", heads}})[0];
}

TensorId GraphBuilder::layer_norm(const std::string& name, TensorId x, double epsilon) {
  const std::int64_t channels = last_dimension(graph_, name, x);
  const std::vector<ParamId> params{param(name + ".weight", {channels}, {InitKind::kOnes, 0}),
                                    param(name + ".bias", {channels}, {})};
  return add_op(name, OpKind::kLayerNorm, {x}, params, {{"epsilon", epsilon}})[0];
}

TensorId GraphBuilder::softmax(const std::string& name, TensorId x) {
  return add_op(name, OpKind::kSoftmax, {x}, {}, {})[0];
}

TensorId GraphBuilder::gelu(const std::string& name, TensorId x) {
  return add_op(name, OpKind::kGelu, {x}, {}, {})[0];
}

TensorId GraphBuilder::relu(const std::string& name, TensorId x) {
  return add_op(name, OpKind::kRelu, {x}, {}, {})[0];
}

TensorId GraphBuilder::add(const std::string& name, std::vector<TensorId> xs) {
  return add_op(name, OpKind::kAdd, std::move(xs), {}, {})[0];
}

TensorId GraphBuilder::mul(const std::string& name, TensorId a, TensorId b) {
  return add_op(name, OpKind::kMul, {a, b}, {}, {})[0];
}

TensorId GraphBuilder::add_parameter(const std::string& name, TensorId x, Init init) {
  const ParamId weight = param(name + ".weight", tensor_of(graph_, name, x).shape, init);
  return add_op(name, OpKind::kAddParameter, {x}, {weight}, {})[0];
}

TensorId GraphBuilder::concat(const std::string& name, std::vector<TensorId> xs,
                              std::int64_t axis) {
  return add_op(name, OpKind::kConcat, std::move(xs), {}, {{"axis", axis}})[0];
}

TensorId GraphBuilder::embedding(const std::string& name, TensorId ids, std::int64_t entries,
                                 std::int64_t dim, double scale) {
  const ParamId table = param(name + ".weight", {entries, dim}, {InitKind::kNormal, scale});
  return add_op(name, OpKind::kEmbedding, {ids}, {table}, {})[0];
}

TensorId GraphBuilder::embedding_bag(const std::string& name, TensorId ids, std::int64_t entries,
                                     std::int64_t dim, const std::string& mode, double scale) {
  const ParamId table = param(name + ".weight", {entries, dim}, {InitKind::kNormal, scale});
  return add_op(name, OpKind::kEmbeddingBag, {ids}, {table}, {{"mode", mode}})[0];
}

TensorId GraphBuilder::dropout(const std::string& name, TensorId x, double rate) {
  return add_op(name, OpKind::kDropout, {x}, {}, {{"rate", rate}})[0];
}

TensorId GraphBuilder::reshape(const std::string& name, TensorId x,
                               std::vector<std::int64_t> shape) {
  return add_op(name, OpKind::kReshape, {x}, {}, {{"shape", std::move(shape)}})[0];
}

TensorId GraphBuilder::transpose(const std::string& name, TensorId x,
                                 std::vector<std::int64_t> permutation) {
  return add_op(name, OpKind::kTranspose, {x}, {}, {{"permutation", std::move(permutation)}})[0];
}

TensorId GraphBuilder::slice(const std::string& name, TensorId x, std::int64_t axis,
                             std::int64_t start, std::int64_t length) {
  return add_op(name, OpKind::kSlice, {x}, {},
                {{"axis", axis}, {"start", start}, {"length", length}})[0];
}

TensorId GraphBuilder::mean(const std::string& name, TensorId x, std::int64_t axis) {
  return add_op(name, OpKind::kMean, {x}, {}, {{"axis", axis}})[0];
}

TensorId GraphBuilder::mse_loss(const std::string& name, TensorId prediction, TensorId target) {
  return add_op(name, OpKind::kMseLoss, {prediction, target}, {}, {})[0];
}

TensorId GraphBuilder::cross_entropy(const std::string& name, TensorId logits, TensorId target) {
  return add_op(name, OpKind::kCrossEntropy, {logits, target}, {}, {})[0];
}

TensorId GraphBuilder::binary_cross_entropy(const std::string& name, TensorId logits,
                                            TensorId target) {
  return add_op(name, OpKind::kBinaryCrossEntropy, {logits, target}, {}, {})[0];
}

TensorId GraphBuilder::correct(const std::string& name, TensorId logits, TensorId target) {
  return add_op(name, OpKind::kCorrect, {logits, target}, {}, {})[0];
}

void GraphBuilder::loss(TensorId tensor, double weight, Normaliser normaliser) {
  graph_.losses.push_back({tensor, weight, normaliser});
}

void GraphBuilder::metric(const std::string& name, const std::string& kind, TensorId tensor) {
  graph_.metrics.push_back({name, kind, tensor});
}

Graph GraphBuilder::build() && {
  validate(graph_, graph_.name);
  return std::move(graph_);
}

}  // namespace graphpipe
