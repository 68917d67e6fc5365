// GPT-2 small (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): a
// causal Transformer with the norms in front, whose output layer is its table of tokens.
// 124,439,808 parameters at the published sizes. It learns each position's next token: "label"
// is "tokens" moved on by one.
// Departs from the paper: the exact GELU in place of its approximation by tanh, and output
// layers of blocks that start as all others do.

#include <fmt/format.h>

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

constexpr double kInitScale = 0.02;  // of tables at the start

Graph build_gpt(const ZooArguments& arguments, DType floating) {
  expect_multiple(arguments, "hidden", "heads");
  GraphBuilder g("gpt", floating);
  const std::int64_t hidden = arguments["hidden"];
  const double dropout = rate(arguments, "dropout");
  const EncoderSizes sizes{arguments["heads"], 4 * hidden, dropout, true};
  const TensorId tokens = g.input("tokens", DType::kInt64, {arguments["sequence"]});
  const ParamId table =
      g.param("tokens.weight", {arguments["vocabulary"], hidden}, {InitKind::kNormal, kInitScale});
  TensorId x = g.add_op("embedding", OpKind::kEmbedding, {tokens}, {table}, {})[0];
  x = g.add_parameter("positions", x, {InitKind::kNormal, kInitScale});
  x = dropped(g, "dropout", x, dropout);
  for (std::int64_t layer = 0; layer < arguments["layers"]; ++layer) {
    x = pre_norm_layer(g, fmt::format("layer{}", layer), x, sizes);
  }
  const TensorId logits = tied_linear(g, "logits", g.layer_norm("norm", x), table, false);
  classification_head(g, logits);
  return std::move(g).build();
}

}  // namespace

ZooModel gpt_model() {
  return {
      "gpt",
      "GPT-2 small: a causal Transformer, its token table tied to the output (2019)",
      {{"layers", 12, 1, 1024, "Transformer layers"},
       {"sequence", 1024, 1, 65536, "positions"},
       {"hidden", 768, 1, 65536, "width of a position; the feed-forward part has four times it"},
       {"heads", 12, 1, 1024, "attention heads"},
       {"vocabulary", 50257, 2, 1048576, "tokens"},
       {"dropout", 100, 0, 900, "dropout rate, per mille"}},
      build_gpt};
}

}  // namespace graphpipe
