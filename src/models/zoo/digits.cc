// Hand-written digits in quadrants: each quarter of an 8x8 image goes through a branch of
// its own. Small enough for any machine, and real data (scikit-learn's digits).

#include <fmt/format.h>

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

constexpr int kQuadrants = 4;
constexpr std::int64_t kPixels = 16;  // of a quadrant, row by row
constexpr std::int64_t kClasses = 10;

Graph build_digits(const ZooArguments& arguments, DType floating) {
  GraphBuilder g("digits", floating);
  const std::int64_t hidden = arguments["hidden"];
  std::vector<TensorId> branches;
  for (int q = 0; q < kQuadrants; ++q) {
    const std::string name = fmt::format("quadrant{}", q);
    TensorId x = g.input(name, {kPixels});
    x = g.relu(name + ".relu1", g.linear(name + ".fc1", x, hidden));
    branches.push_back(g.relu(name + ".relu2", g.linear(name + ".fc2", x, hidden)));
  }
  const TensorId label = g.input("label", DType::kInt64, {});
  TensorId x = g.concat("concat", branches, -1);
  x = g.relu("head.relu", g.linear("head.fc1", x, hidden));
  if (arguments["dropout"] > 0) x = g.dropout("head.dropout", x, rate(arguments, "dropout"));
  const TensorId logits = g.linear("head.fc2", x, kClasses);
  const TensorId loss = g.cross_entropy("loss", logits, label);
  g.loss(loss);
  g.metric("accuracy", "mean", g.correct("correct", logits, label));
  return std::move(g).build();
}

}  // namespace

ZooModel digits_model() {
  return {"digits",
          "hand-written digits, a branch a quadrant of the image",
          {{"hidden", 64, 1, 65536, "width of the layers"},
           {"dropout", 0, 0, 900, "dropout rate in the head, per mille"}},
          build_digits};
}

}  // namespace graphpipe
