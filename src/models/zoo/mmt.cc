// The multi-modal Transformer of GraphPipe's evaluation (Jeon et al., ASPLOS 2025): one
// Transformer encoder a modality, side by side, concatenated at the end.
//
// The paper does not say what follows the concatenation; here it is as light as a loss
// allows.

#include <fmt/format.h>

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

Graph build_mmt(const ZooArguments& arguments, DType floating) {
  expect_multiple(arguments, "hidden", "heads");
  GraphBuilder g("mmt", floating);
  const EncoderSizes sizes{arguments["heads"], arguments["ffn"], rate(arguments, "dropout")};
  std::vector<TensorId> branches;
  for (std::int64_t b = 0; b < arguments["branches"]; ++b) {
    TensorId x =
        g.input(fmt::format("modality{}", b), {arguments["sequence"], arguments["hidden"]});
    for (std::int64_t l = 0; l < arguments["layers"]; ++l) {
      x = encoder_layer(g, fmt::format("branch{}.layer{}", b, l), x, sizes);
    }
    branches.push_back(x);
  }
  regression_head(g, concat_last(g, "concat", branches), arguments["outputs"]);
  return std::move(g).build();
}

}  // namespace

ZooModel mmt_model() {
  return {"mmt",
          "multi-modal Transformer, a branch a modality (GraphPipe, ASPLOS 2025)",
          {{"branches", 4, 1, 256, "branches, one a modality"},
           {"layers", 8, 1, 1024, "Transformer layers of a branch"},
           {"sequence", 256, 1, 65536, "positions"},
           {"hidden", 1024, 1, 65536, "width of a position"},
           {"heads", 16, 1, 1024, "attention heads"},
           {"ffn", 4096, 1, 262144, "width of the feed-forward part"},
           {"outputs", 16, 1, 65536, "numbers that the head predicts"},
           {"dropout", 0, 0, 900, "dropout rate, per mille"}},
          build_mmt};
}

}  // namespace graphpipe
