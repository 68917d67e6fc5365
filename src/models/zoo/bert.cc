// BERT-base, uncased, in pre-training (Devlin et al., "BERT: Pre-training of Deep Bidirectional
// Transformers for Language Understanding", NAACL 2019): a Transformer encoder over the sums of
// three embeddings, with two losses: what the masked tokens were, by the table of tokens itself,
// and whether the second sentence follows the first. 109,482,240 parameters at the published
// sizes, 110,106,428 with both heads.
//
// A sample's tokens stand in an order of their own: first [CLS], then the `masked` ones that are
// to be predicted, then all others. "positions" says where each stands in the text; attention
// asks for no order. So the losses read fixed slices, and nothing has to be gathered.

#include <fmt/format.h>

#include "base/error.h"
#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

constexpr double kScale = 0.02;  // of tables at the start
constexpr double kEpsilon = 1e-12;

void expect_room(const ZooArguments& arguments) {
  const std::int64_t sequence = arguments["sequence"];
  if (arguments["masked"] >= sequence) {
    throw InputError("MODEL", fmt::format("masked is {}, expected less than sequence, which is {}",
                                          arguments["masked"], sequence));
  }
  if (arguments["positions"] < sequence) {
    throw InputError("MODEL",
                     fmt::format("positions is {}, expected no less than sequence, which is {}",
                                 arguments["positions"], sequence));
  }
}

TensorId embeddings(GraphBuilder& g, const ZooArguments& arguments, ParamId table) {
  const std::vector<std::int64_t> shape{arguments["sequence"]};
  const std::int64_t hidden = arguments["hidden"];
  const TensorId tokens = g.input("tokens", DType::kInt64, shape);
  const TensorId positions = g.input("positions", DType::kInt64, shape);
  const TensorId segments = g.input("segments", DType::kInt64, shape);
  const TensorId sum =
      g.add("embedding.add",
            {g.add_op("embedding.token", OpKind::kEmbedding, {tokens}, {table}, {})[0],
             g.embedding("embedding.position", positions, arguments["positions"], hidden, kScale),
             g.embedding("embedding.segment", segments, 2, hidden, kScale)});
  return dropped(g, "embedding.dropout", g.layer_norm("embedding.norm", sum, kEpsilon),
                 rate(arguments, "dropout"));
}

// x: (masked, hidden)
void masked_token_head(GraphBuilder& g, TensorId x, std::int64_t hidden, ParamId table) {
  x = g.gelu("token.gelu", g.linear("token.fc", x, hidden));
  x = g.layer_norm("token.norm", x, kEpsilon);
  classification_head(g, tied_linear(g, "token.logits", x, table, true));
}

// x: (1, hidden)
void next_sentence_head(GraphBuilder& g, TensorId x, std::int64_t hidden) {
  x = g.reshape("pooler.reshape", x, {hidden});
  x = g.tanh("pooler.tanh", g.linear("pooler.fc", x, hidden));
  const TensorId follows = g.input("follows", DType::kInt64, {});
  g.loss(g.cross_entropy("follows.loss", g.linear("follows.fc", x, 2), follows));
}

Graph build_bert(const ZooArguments& arguments, DType floating) {
  expect_multiple(arguments, "hidden", "heads");
  expect_room(arguments);
  GraphBuilder g("bert", floating);
  const std::int64_t hidden = arguments["hidden"];
  const ParamId table =
      g.param("tokens.weight", {arguments["vocabulary"], hidden}, {InitKind::kNormal, kScale});
  TensorId x = embeddings(g, arguments, table);
  const EncoderSizes sizes{arguments["heads"], 4 * hidden, rate(arguments, "dropout")};
  for (std::int64_t layer = 0; layer < arguments["layers"]; ++layer) {
    x = encoder_layer(g, fmt::format("layer{}", layer), x, sizes);
  }
  masked_token_head(g, g.slice("token.slice", x, 0, 1, arguments["masked"]), hidden, table);
  next_sentence_head(g, g.slice("pooler.slice", x, 0, 0, 1), hidden);
  return std::move(g).build();
}

}  // namespace

ZooModel bert_model() {
  return {
      "bert",
      "BERT-base in pre-training: masked tokens and next sentences (NAACL 2019)",
      {{"layers", 12, 1, 1024, "Transformer layers"},
       {"sequence", 128, 2, 65536, "tokens of a sample"},
       {"masked", 20, 1, 65536, "tokens that are predicted"},
       {"hidden", 768, 1, 65536, "width of a position; the feed-forward part has four times it"},
       {"heads", 12, 1, 1024, "attention heads"},
       {"vocabulary", 30522, 2, 1048576, "tokens"},
       {"positions", 512, 2, 1048576, "places in a text"},
       {"dropout", 100, 0, 900, "dropout rate, per mille"}},
      build_bert};
}

}  // namespace graphpipe
