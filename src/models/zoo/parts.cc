#include "models/zoo/parts.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace graphpipe {

TensorId encoder_layer(GraphBuilder& g, const std::string& name, TensorId x,
                       const EncoderSizes& sizes) {
  const std::int64_t channels = g.graph().tensor(x).shape.back();
  TensorId a = g.attention(name + ".attention", x, sizes.heads, sizes.causal);
  a = dropped(g, name + ".dropout1", a, sizes.dropout);
  const TensorId h = g.layer_norm(name + ".norm1", g.add(name + ".add1", {x, a}));
  TensorId f = g.gelu(name + ".gelu", g.linear(name + ".fc1", h, sizes.ffn));
  f = g.linear(name + ".fc2", f, channels);
  f = dropped(g, name + ".dropout2", f, sizes.dropout);
  return g.layer_norm(name + ".norm2", g.add(name + ".add2", {h, f}));
}

TensorId pre_norm_layer(GraphBuilder& g, const std::string& name, TensorId x,
                        const EncoderSizes& sizes) {
  const std::int64_t channels = g.graph().tensor(x).shape.back();
  const TensorId a =
      g.attention(name + ".attention", g.layer_norm(name + ".norm1", x), sizes.heads, sizes.causal);
  x = g.add(name + ".add1", {x, dropped(g, name + ".dropout1", a, sizes.dropout)});
  TensorId f = g.linear(name + ".fc1", g.layer_norm(name + ".norm2", x), sizes.ffn);
  f = g.linear(name + ".fc2", g.gelu(name + ".gelu", f), channels);
  return g.add(name + ".add2", {x, dropped(g, name + ".dropout2", f, sizes.dropout)});
}

TensorId dropped(GraphBuilder& g, const std::string& name, TensorId x, double rate) {
  return rate > 0 ? g.dropout(name, x, rate) : x;
}

TensorId tied_linear(GraphBuilder& g, const std::string& name, TensorId x, ParamId table,
                     bool bias) {
  std::vector<ParamId> params{table};
  if (bias) params.push_back(g.param(name + ".bias", {g.graph().param(table).shape[0]}, {}));
  return g.add_op(name, OpKind::kLinear, {x}, params, {})[0];
}

TensorId feed_forward(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t layers,
                      std::int64_t hidden) {
  for (std::int64_t l = 1; l <= layers; ++l) {
    x = g.linear(fmt::format("{}.fc{}", name, l), x, hidden);
    x = g.relu(fmt::format("{}.relu{}", name, l), x);
  }
  return x;
}

TensorId concat_last(GraphBuilder& g, const std::string& name, const std::vector<TensorId>& xs) {
  return xs.size() == 1 ? xs[0] : g.concat(name, xs, -1);
}

void regression_head(GraphBuilder& g, TensorId x, std::int64_t outputs) {
  const TensorId target = g.input("target", {outputs});
  const TensorId y = g.linear("head.fc", g.mean("head.mean", x, 0), outputs);
  const TensorId loss = g.mse_loss("loss", y, target);
  g.loss(loss);
  g.metric("loss", "mean", loss);
}

TensorId conv_norm(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t out,
                   std::int64_t kernel, const Conv& conv, bool norm) {
  x = g.conv2d(name, x, out, kernel, conv);
  return norm ? g.batch_norm(name + ".norm", x) : x;
}

TensorId conv_unit(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t out,
                   std::int64_t kernel, const Conv& conv, bool norm) {
  return g.relu(name + ".relu", conv_norm(g, name, x, out, kernel, conv, norm));
}

TensorId window_unit(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t out,
                     const Window& window, const WindowConv& conv, bool norm) {
  const std::int64_t in = g.graph().tensor(x).shape[0];
  // As the builder's convolutions start (He et al., ICCV 2015).
  const double bound = std::sqrt(6.0 / static_cast<double>(in * window.rows * window.columns));
  std::vector<ParamId> params{g.param(name + ".weight", {out, in, window.rows, window.columns},
                                      {InitKind::kUniform, bound})};
  if (!norm) params.push_back(g.param(name + ".bias", {out}, {}));
  using List = std::vector<std::int64_t>;
  x = g.add_op(name, OpKind::kConv2d, {x}, params,
               {{"dilation", List{1, 1}},
                {"groups", std::int64_t{1}},
                {"padding", List{conv.padding_rows, conv.padding_columns}},
                {"stride", List{conv.stride, conv.stride}}})[0];
  return g.relu(name + ".relu", norm ? g.batch_norm(name + ".norm", x) : x);
}

TensorId classification_head(GraphBuilder& g, TensorId logits, const std::string& label) {
  const std::vector<std::int64_t>& shape = g.graph().tensor(logits).shape;
  const TensorId wanted = g.input(label, DType::kInt64, {shape.begin(), shape.end() - 1});
  g.loss(g.cross_entropy("loss", logits, wanted));
  g.metric("accuracy", "mean", g.correct("correct", logits, wanted));
  return wanted;
}

double rate(const ZooArguments& arguments, std::string_view name) {
  return static_cast<double>(arguments[name]) / 1000;
}

void expect_multiple(const ZooArguments& arguments, std::string_view whole, std::string_view part) {
  if (arguments[whole] % arguments[part] == 0) return;
  throw InputError("MODEL", fmt::format("{} is {}, expected a multiple of {}, which is {}", whole,
                                        arguments[whole], part, arguments[part]));
}

void expect_multiple(const ZooArguments& arguments, std::string_view whole, std::int64_t part) {
  if (arguments[whole] % part == 0) return;
  throw InputError(
      "MODEL", fmt::format("{} is {}, expected a multiple of {}", whole, arguments[whole], part));
}

}  // namespace graphpipe
