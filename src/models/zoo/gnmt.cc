// GNMT (Wu et al., "Google's Neural Machine Translation System: Bridging the Gap between Human and
// Machine Translation", arXiv:1609.08144, 2016, figure 1): an encoder of LSTMs, the lowest of which
// reads both ways, a decoder of LSTMs whose lowest asks the encoder what matters, and sums around
// the LSTMs from the third on. Eight layers each of 1024 units and 32,000 word pieces make 277
// million parameters; the paper's model has 278 million (Shazeer et al., ICLR 2017, table 4).
//
// "target" is the translation behind its start mark, "label" the translation and its end mark.
// Departs from the paper: the decoder's lowest layer does not read what it asked for (as in
// TensorFlow's and MLPerf's GNMT v2), so that each layer is one LSTM over the whole sentence; and
// scores are products of projected states, not a layer of their own.

#include <fmt/format.h>

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

// x (T, C) from its end to its start.
TensorId reversed(GraphBuilder& g, const std::string& name, TensorId x) {
  const std::int64_t steps = g.graph().tensor(x).shape[0];
  if (steps == 1) return x;
  std::vector<TensorId> rows =
      g.split(name + ".split", x, 0, std::vector<std::int64_t>(static_cast<std::size_t>(steps), 1));
  return g.concat(name, {rows.rbegin(), rows.rend()}, 0);
}

struct Sizes {
  std::int64_t layers;
  std::int64_t hidden;
  double dropout;
};

TensorId encoder(GraphBuilder& g, TensorId x, const Sizes& sizes) {
  x = dropped(g, "encoder.dropout1", x, sizes.dropout);
  const TensorId forth = g.lstm("encoder.forth", x, sizes.hidden);
  const TensorId back = g.lstm("encoder.back", reversed(g, "encoder.turned", x), sizes.hidden);
  x = concat_last(g, "encoder.both", {forth, reversed(g, "encoder.returned", back)});
  for (std::int64_t layer = 2; layer <= sizes.layers; ++layer) {
    const auto name = [&](const char* part) { return fmt::format("encoder.{}{}", part, layer); };
    const TensorId y =
        g.lstm(name("lstm"), dropped(g, name("dropout"), x, sizes.dropout), sizes.hidden);
    x = layer > 2 ? g.add(name("add"), {y, x}) : y;
  }
  return x;
}

// What of the memory (S, M) matters to each of the queries (T, C): (T, M).
TensorId attended(GraphBuilder& g, TensorId queries, TensorId memory, std::int64_t hidden) {
  const TensorId asked = g.linear("attention.query", queries, hidden, false);
  const TensorId keys = g.linear("attention.key", memory, hidden, false);
  const TensorId scores = g.matmul("attention.scores", asked, keys, true);
  return g.matmul("attention.context", g.softmax("attention.softmax", scores), memory);
}

TensorId decoder(GraphBuilder& g, TensorId x, TensorId memory, const Sizes& sizes) {
  x = g.lstm("decoder.lstm1", dropped(g, "decoder.dropout1", x, sizes.dropout), sizes.hidden);
  const TensorId context = attended(g, x, memory, sizes.hidden);
  for (std::int64_t layer = 2; layer <= sizes.layers; ++layer) {
    const auto name = [&](const char* part) { return fmt::format("decoder.{}{}", part, layer); };
    const TensorId read = concat_last(g, name("concat"), {x, context});
    const TensorId y =
        g.lstm(name("lstm"), dropped(g, name("dropout"), read, sizes.dropout), sizes.hidden);
    x = layer > 2 ? g.add(name("add"), {y, x}) : y;
  }
  return x;
}

Graph build_gnmt(const ZooArguments& arguments, DType floating) {
  GraphBuilder g("gnmt", floating);
  const Sizes sizes{arguments["layers"], arguments["hidden"], rate(arguments, "dropout")};
  const auto embedded = [&](const std::string& name, std::int64_t steps) {
    const TensorId words = g.input(name, DType::kInt64, {steps});
    return g.embedding(name + ".table", words, arguments["vocabulary"], sizes.hidden);
  };
  const TensorId memory = encoder(g, embedded("source", arguments["source"]), sizes);
  const TensorId x = decoder(g, embedded("target", arguments["target"]), memory, sizes);
  classification_head(g, g.linear("logits", x, arguments["vocabulary"]));
  return std::move(g).build();
}

}  // namespace

ZooModel gnmt_model() {
  return {"gnmt",
          "GNMT: translation by LSTMs with attention and residual sums (2016)",
          {{"layers", 8, 2, 64, "LSTMs of the encoder, and of the decoder"},
           {"source", 50, 1, 4096, "word pieces of a sentence"},
           {"target", 50, 1, 4096, "word pieces of its translation"},
           {"hidden", 1024, 1, 65536, "hidden units of an LSTM, width of an embedding"},
           {"vocabulary", 32000, 2, 1048576, "word pieces of a language"},
           {"dropout", 200, 0, 900, "dropout rate in front of LSTMs, per mille"}},
          build_gnmt};
}

}  // namespace graphpipe
