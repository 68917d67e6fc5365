// The sequential control: the layers of `mmt` in one chain. No planner can gain from
// branches here, so all must tie.

#include <fmt/format.h>

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

Graph build_transformer(const ZooArguments& arguments, DType floating) {
  expect_multiple(arguments, "hidden", "heads");
  GraphBuilder g("transformer", floating);
  const EncoderSizes sizes{arguments["heads"], arguments["ffn"], rate(arguments, "dropout")};
  TensorId x = g.input("sequence", {arguments["sequence"], arguments["hidden"]});
  for (std::int64_t l = 0; l < arguments["layers"]; ++l) {
    x = encoder_layer(g, fmt::format("layer{}", l), x, sizes);
  }
  regression_head(g, x, arguments["outputs"]);
  return std::move(g).build();
}

}  // namespace

ZooModel transformer_model() {
  return {"transformer",
          "the layers of mmt in one chain: the sequential control",
          {{"layers", 32, 1, 4096, "Transformer layers"},
           {"sequence", 256, 1, 65536, "positions"},
           {"hidden", 1024, 1, 65536, "width of a position"},
           {"heads", 16, 1, 1024, "attention heads"},
           {"ffn", 4096, 1, 262144, "width of the feed-forward part"},
           {"outputs", 16, 1, 65536, "numbers that the head predicts"},
           {"dropout", 0, 0, 900, "dropout rate, per mille"}},
          build_transformer};
}

}  // namespace graphpipe
