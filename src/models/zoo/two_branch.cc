// The case study of GraphPipe's evaluation (Jeon et al., ASPLOS 2025): two branches, each
// four times multi-head attention and two linear layers, and one concatenation. The paper
// gives no sizes; these are this project's. A mean and a squared error follow, because
// training needs a loss.

#include <fmt/format.h>

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

Graph build_two_branch(const ZooArguments& arguments, DType floating) {
  expect_multiple(arguments, "hidden", "heads");
  GraphBuilder g("two-branch", floating);
  const std::int64_t hidden = arguments["hidden"];
  std::vector<TensorId> branches;
  for (int branch = 0; branch < 2; ++branch) {
    TensorId x = g.input(fmt::format("input{}", branch), {arguments["sequence"], hidden});
    for (std::int64_t block = 0; block < arguments["blocks"]; ++block) {
      const std::string name = fmt::format("branch{}.block{}", branch, block);
      x = g.attention(name + ".attention", x, arguments["heads"]);
      x = g.linear(name + ".fc1", x, arguments["ffn"]);
      x = g.linear(name + ".fc2", x, hidden);
    }
    branches.push_back(x);
  }
  const TensorId y = g.mean("mean", g.concat("concat", branches, -1), 0);
  const TensorId target = g.input("target", {2 * hidden});
  const TensorId loss = g.mse_loss("loss", y, target);
  g.loss(loss);
  g.metric("loss", "mean", loss);
  return std::move(g).build();
}

}  // namespace

ZooModel two_branch_model() {
  return {"two-branch",
          "two branches of attention and linear layers (GraphPipe's case study)",
          {{"blocks", 4, 1, 1024, "blocks of a branch: attention and two linear layers"},
           {"sequence", 256, 1, 65536, "positions"},
           {"hidden", 1024, 1, 65536, "width of a position"},
           {"heads", 16, 1, 1024, "attention heads"},
           {"ffn", 4096, 1, 262144, "width between the two linear layers"}},
          build_two_branch};
}

}  // namespace graphpipe
