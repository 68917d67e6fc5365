#include "models/zoo/parts.h"

#include <fmt/format.h>

#include "base/error.h"

namespace graphpipe {

TensorId encoder_layer(GraphBuilder& g, const std::string& name, TensorId x,
                       const EncoderSizes& sizes) {
  const std::int64_t channels = g.graph().tensor(x).shape.back();
  TensorId a = g.attention(name + ".attention", x, sizes.heads);
  if (sizes.dropout > 0) a = g.dropout(name + ".dropout1", a, sizes.dropout);
  const TensorId h = g.layer_norm(name + ".norm1", g.add(name + ".add1", {x, a}));
  TensorId f = g.gelu(name + ".gelu", g.linear(name + ".fc1", h, sizes.ffn));
  f = g.linear(name + ".fc2", f, channels);
  if (sizes.dropout > 0) f = g.dropout(name + ".dropout2", f, sizes.dropout);
  return g.layer_norm(name + ".norm2", g.add(name + ".add2", {h, f}));
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

void classification_head(GraphBuilder& g, TensorId logits) {
  const TensorId label = g.input("label", DType::kInt64, {});
  g.loss(g.cross_entropy("loss", logits, label));
  g.metric("accuracy", "mean", g.correct("correct", logits, label));
}

double rate(const ZooArguments& arguments, std::string_view name) {
  return static_cast<double>(arguments[name]) / 1000;
}

void expect_multiple(const ZooArguments& arguments, std::string_view whole, std::string_view part) {
  if (arguments[whole] % arguments[part] == 0) return;
  throw InputError("MODEL", fmt::format("{} is {}, expected a multiple of {}, which is {}", whole,
                                        arguments[whole], part, arguments[part]));
}

}  // namespace graphpipe
