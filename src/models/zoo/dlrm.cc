// DLRM, recommendation from dense features and ids (Naumov et al., 2019), in the size of
// GraphPipe's evaluation (Jeon et al., ASPLOS 2025): dense branches of feed-forward layers,
// branches that look a bag of ids up in a table, all concatenated under top layers.
//
//   dense0 ── fc, relu ... ──────┐
//   ids0 ──── table ── reshape ──┴── concat ── fc, relu ... ── fc ── click
//
// The paper gives neither the width of the dense features nor the number of top layers:
// they are as wide as a layer, and as many as a branch has. The bag's embeddings are
// concatenated, not added up.

#include <fmt/format.h>

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

TensorId table_branch(GraphBuilder& g, std::int64_t index, const ZooArguments& arguments) {
  const std::string name = fmt::format("sparse{}", index);
  const TensorId ids = g.input(name, DType::kInt64, {arguments["bag"]});
  const TensorId rows =
      g.embedding(name + ".table", ids, arguments["entries"], arguments["dimension"]);
  return g.reshape(name + ".reshape", rows, {arguments["bag"] * arguments["dimension"]});
}

Graph build_dlrm(const ZooArguments& arguments, DType floating) {
  GraphBuilder g("dlrm", floating);
  std::vector<TensorId> branches;
  for (std::int64_t b = 0; b < arguments["branches"]; ++b) {
    const std::string name = fmt::format("dense{}", b);
    const TensorId x = g.input(name, {arguments["features"]});
    branches.push_back(feed_forward(g, name, x, arguments["layers"], arguments["hidden"]));
  }
  for (std::int64_t t = 0; t < arguments["tables"]; ++t) {
    branches.push_back(table_branch(g, t, arguments));
  }
  const TensorId x = feed_forward(g, "top", concat_last(g, "concat", branches),
                                  arguments["top_layers"], arguments["hidden"]);
  const TensorId logit = g.reshape("head.reshape", g.linear("head.fc", x, 1), {});
  const TensorId loss = g.binary_cross_entropy("loss", logit, g.input("click", {}));
  g.loss(loss);
  g.metric("loss", "mean", loss);
  return std::move(g).build();
}

}  // namespace

ZooModel dlrm_model() {
  return {"dlrm",
          "recommendation from dense features and tables of ids (GraphPipe, ASPLOS 2025)",
          {{"branches", 7, 1, 256, "branches of feed-forward layers over dense features"},
           {"tables", 7, 0, 256, "branches with a table"},
           {"layers", 4, 1, 1024, "feed-forward layers of a dense branch"},
           {"hidden", 4096, 1, 262144, "width of a layer, of a branch or on top"},
           {"features", 4096, 1, 262144, "numbers that a dense branch reads"},
           {"entries", 1000000, 1, 1000000000, "entries of a table"},
           {"dimension", 64, 1, 65536, "width of an entry"},
           {"bag", 100, 1, 65536, "entries that a sample takes from a table"},
           {"top_layers", 4, 1, 1024, "feed-forward layers on top"}},
          build_dlrm};
}

}  // namespace graphpipe
