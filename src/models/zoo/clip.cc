// CLIP with a ViT-B/32 (Radford et al., "Learning Transferable Visual Models From Natural Language
// Supervision", ICML 2021): a Transformer over the patches of an image, a causal one over the
// tokens of a text, and the likeness of what both say. 151,277,313 trained parameters at the
// published sizes, the scale of the likeness among them.
//
// Departs from the paper where its loss tells each image's text from all others of the mini-batch:
// it would make a sample's gradient depend on the other samples, and so on how a pipeline cuts the
// mini-batch. Here a sample is one image, one text and whether they match (0 or 1), and the loss
// is the cross-entropy of that, as SigLIP has it for each pair (Zhai et al., ICCV 2023). Also: the
// scale itself is learned, not its logarithm; the exact GELU; and a text ends at the last position.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

using namespace std::string_literals;
using List = std::vector<std::int64_t>;

constexpr double kLogitScale = 0.02;      // of tables at the start
constexpr double kTemperature = 0.07;     // the likeness starts divided by it
constexpr std::int64_t kFeedForward = 4;  // its width, in units of a tower's

TensorId layers(GraphBuilder& g, const std::string& tower, TensorId x, std::int64_t count,
                const EncoderSizes& sizes) {
  for (std::int64_t layer = 0; layer < count; ++layer) {
    x = pre_norm_layer(g, fmt::format("{}.layer{}", tower, layer), x, sizes);
  }
  return x;
}

// The position's row of x (T, C), normed, in the space that the towers share, of length one:
// (1, outputs).
TensorId said(GraphBuilder& g, const std::string& tower, TensorId x, std::int64_t position,
              std::int64_t outputs) {
  x = g.layer_norm(tower + ".norm", g.slice(tower + ".slice", x, 0, position, 1));
  x = g.linear(tower + ".projection", x, outputs, false);
  const TensorId length = g.add_op(tower + ".length", OpKind::kReduce, {x}, {},
                                   {{"axes", List{1}}, {"function", "l2"s}, {"keep", true}})[0];
  return g.add_op(
      tower + ".said", OpKind::kElementwise, {x, length}, {},
      {{"alpha", 0.0}, {"beta", 0.0}, {"function", "div"s}, {"operands", List{0, 1}}})[0];
}

// A square patch a position, behind one that is learned and that the image's meaning gathers in.
TensorId image_tower(GraphBuilder& g, const ZooArguments& arguments) {
  const std::int64_t width = arguments["image_width"];
  const std::int64_t side = arguments["image"] / arguments["patch"];
  TensorId x = g.input("image", {arguments["channels"], arguments["image"], arguments["image"]});
  x = g.conv2d("image.patches", x, width, arguments["patch"],
               {.stride = arguments["patch"], .bias = false});
  x = g.transpose("image.transpose", g.reshape("image.reshape", x, {width, side * side}), {1, 0});
  const TensorId padded = g.pad("image.pad", x, {1, 0}, {0, 0});  // with a row of zeros
  const TensorId token = g.add_parameter("image.token", g.slice("image.zeros", padded, 0, 0, 1),
                                         {InitKind::kNormal, kLogitScale});
  x = g.concat("image.concat", {token, x}, 0);
  x = g.layer_norm("image.norm0",
                   g.add_parameter("image.positions", x, {InitKind::kNormal, kLogitScale}));
  const EncoderSizes sizes{arguments["image_heads"], kFeedForward * width, 0, false};
  return said(g, "image", layers(g, "image", x, arguments["layers"], sizes), 0,
              arguments["outputs"]);
}

TensorId text_tower(GraphBuilder& g, const ZooArguments& arguments) {
  const std::int64_t width = arguments["text_width"];
  const std::int64_t tokens = arguments["tokens"];
  TensorId x = g.embedding("text.table", g.input("text", DType::kInt64, {tokens}),
                           arguments["vocabulary"], width, kLogitScale);
  x = g.add_parameter("text.positions", x, {InitKind::kNormal, kLogitScale});
  const EncoderSizes sizes{arguments["text_heads"], kFeedForward * width, 0, true};
  return said(g, "text", layers(g, "text", x, arguments["layers"], sizes), tokens - 1,
              arguments["outputs"]);
}

Graph build_clip(const ZooArguments& arguments, DType floating) {
  expect_multiple(arguments, "image", "patch");
  expect_multiple(arguments, "image_width", "image_heads");
  expect_multiple(arguments, "text_width", "text_heads");
  GraphBuilder g("clip", floating);
  const TensorId image = image_tower(g, arguments);
  const TensorId product = g.matmul("product", image, text_tower(g, arguments), true);
  const ParamId weight = g.param("scale.weight", {1, 1}, {InitKind::kConstant, 1 / kTemperature});
  const TensorId scaled = g.add_op("scale", OpKind::kLinear, {product}, {weight}, {})[0];
  const TensorId loss =
      g.binary_cross_entropy("loss", g.reshape("logit", scaled, {}), g.input("match", {}));
  g.loss(loss);
  g.metric("loss", "mean", loss);
  return std::move(g).build();
}

}  // namespace

ZooModel clip_model() {
  return {"clip",
          "CLIP with a ViT-B/32: an image tower and a text tower (ICML 2021)",
          {{"layers", 12, 1, 1024, "Transformer layers of a tower"},
           {"image", 224, 1, 4096, "height and width of an image"},
           {"channels", 3, 1, 1024, "channels of an image"},
           {"patch", 32, 1, 4096, "height and width of a patch"},
           {"image_width", 768, 1, 65536, "width of a position of the image tower"},
           {"image_heads", 12, 1, 1024, "its attention heads"},
           {"tokens", 77, 1, 65536, "tokens of a text"},
           {"vocabulary", 49408, 1, 1048576, "tokens there are"},
           {"text_width", 512, 1, 65536, "width of a position of the text tower"},
           {"text_heads", 8, 1, 1024, "its attention heads"},
           {"outputs", 512, 1, 65536, "width of what both towers say"}},
          build_clip};
}

}  // namespace graphpipe
