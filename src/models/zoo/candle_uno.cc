// CANDLE-Uno, how tumours respond to drugs, in the size of GraphPipe's evaluation (Jeon et
// al., ASPLOS 2025): branches of feed-forward layers, concatenated under four more.
//
//   feature0 ── fc, relu ... ──┐
//   feature1 ── fc, relu ... ──┴── concat ── fc, relu ... ── fc ── growth
//
// variant=flexflow has the inputs and sizes of FlexFlow's public example: the two doses, one
// number each, go to the concatenation as they are, the other five inputs have a branch of 8
// layers. (Biases, which that example has not, are kept.) The paper's text gives no width of
// the inputs; here they are as wide as a layer.

#include <fmt/format.h>

#include "base/error.h"
#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kFlexflow = 1;  // of the variants

struct Feature {
  std::string name;
  std::int64_t width = 1;
  bool layers = true;  // else it is concatenated as it is
};

std::vector<Feature> flexflow_features() {
  return {{"dose1", 1, false},         {"dose2", 1, false},          {"cell.rnaseq", 942},
          {"drug1.descriptors", 5270}, {"drug1.fingerprints", 2048}, {"drug2.descriptors", 5270},
          {"drug2.fingerprints", 2048}};
}

std::vector<Feature> features_of(const ZooArguments& arguments) {
  if (arguments["variant"] == kFlexflow) {
    for (const char* name : {"branches", "features"}) {
      if (!arguments.given(name)) continue;
      throw InputError("MODEL", fmt::format("{} is for variant=paper; flexflow has its own 7 "
                                            "inputs",
                                            name));
    }
    return flexflow_features();
  }
  std::vector<Feature> features;
  for (std::int64_t b = 0; b < arguments["branches"]; ++b) {
    features.push_back({fmt::format("feature{}", b), arguments["features"]});
  }
  return features;
}

// The parameter, or what the variant has where it is not given.
std::int64_t size_of(const ZooArguments& arguments, const char* name, std::int64_t flexflow) {
  const bool of_variant = arguments["variant"] == kFlexflow && !arguments.given(name);
  return of_variant ? flexflow : arguments[name];
}

Graph build_candle_uno(const ZooArguments& arguments, DType floating) {
  GraphBuilder g("candle-uno", floating);
  const std::int64_t layers = size_of(arguments, "layers", 8);
  const std::int64_t hidden = size_of(arguments, "hidden", 4192);
  std::vector<TensorId> branches;
  for (const Feature& feature : features_of(arguments)) {
    const TensorId x = g.input(feature.name, {feature.width});
    branches.push_back(feature.layers ? feed_forward(g, feature.name, x, layers, hidden) : x);
  }
  const TensorId x =
      feed_forward(g, "top", concat_last(g, "concat", branches), arguments["top_layers"], hidden);
  const TensorId growth = g.reshape("head.reshape", g.linear("head.fc", x, 1), {});
  const TensorId loss = g.mse_loss("loss", growth, g.input("growth", {}));
  g.loss(loss);
  g.metric("loss", "mean", loss);
  return std::move(g).build();
}

}  // namespace

ZooModel candle_uno_model() {
  return {"candle-uno",
          "response of tumours to drugs, a branch a feature (GraphPipe, ASPLOS 2025)",
          {{"variant",
            0,
            0,
            1,
            "flexflow: layers=8,hidden=4192 and the 7 inputs of its example",
            {"paper", "flexflow"}},
           {"branches", 7, 1, 256, "branches of feed-forward layers"},
           {"layers", 4, 1, 1024, "feed-forward layers of a branch"},
           {"hidden", 4096, 1, 262144, "width of a layer, of a branch or on top"},
           {"features", 4096, 1, 262144, "numbers that a branch reads"},
           {"top_layers", 4, 1, 1024, "feed-forward layers on top"}},
          build_candle_uno};
}

}  // namespace graphpipe
