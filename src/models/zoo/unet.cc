// U-Net (Ronneberger, Fischer and Brox, "U-Net: Convolutional Networks for Biomedical Image
// Segmentation", MICCAI 2015, figure 1): a way down of 3x3 convolutions and 2x2 maxima, a way
// up of 2x2 transposed convolutions, and at each level a skip from the one to the other,
// cropped and concatenated. 23 convolutions, 31,030,658 parameters at the published sizes.
// The paper's convolutions have no padding, so that 572 pixels give 388; with padding=1 the
// image keeps its size. The loss is the mean over pixels, without the paper's weight map.

#include <fmt/format.h>

#include "base/error.h"
#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

// Two 3x3 convolutions.
TensorId double_conv(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t width,
                     const ZooArguments& arguments) {
  for (int i = 1; i <= 2; ++i) {
    x = conv_unit(g, fmt::format("{}.conv{}", name, i), x, width, 3,
                  {.padding = arguments["padding"]}, arguments["batch_norm"] != 0);
  }
  return x;
}

std::int64_t side(const GraphBuilder& g, TensorId x) { return g.graph().tensor(x).shape.back(); }

// The middle of x, of `wanted` x `wanted` pixels.
TensorId crop(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t wanted) {
  const std::int64_t start = (side(g, x) - wanted) / 2;
  if (side(g, x) == wanted) return x;
  return g.slice(name + ".columns", g.slice(name + ".rows", x, 1, start, wanted), 2, start, wanted);
}

// Throws where some level has an odd number of pixels to halve, or none are left.
void check_image(const ZooArguments& arguments) {
  const std::int64_t lost = arguments["padding"] == 0 ? 4 : 0;  // by two 3x3 convolutions
  const std::int64_t depth = arguments["depth"];
  std::int64_t pixels = arguments["image"];
  bool fits = true;
  for (std::int64_t level = 0; level < depth; ++level) {
    pixels -= lost;
    fits = fits && pixels >= 2 && pixels % 2 == 0;
    pixels /= 2;
  }
  pixels -= lost;
  for (std::int64_t level = 0; level < depth; ++level) pixels = 2 * pixels - lost;
  if (fits && pixels >= 1) return;
  const std::int64_t step = std::int64_t{1} << depth;
  throw InputError("MODEL",
                   fmt::format("image is {}, expected {} and any multiple of {} more, so "
                               "that each of {} halvings is even",
                               arguments["image"], lost > 0 ? 12 * step - 4 : step, step, depth));
}

Graph build_unet(const ZooArguments& arguments, DType floating) {
  check_image(arguments);
  GraphBuilder g("unet", floating);
  const std::int64_t depth = arguments["depth"];
  const std::int64_t image = arguments["image"];
  const auto width = [&](std::int64_t level) { return arguments["width"] << level; };
  TensorId x = g.input("image", {arguments["channels"], image, image});
  std::vector<TensorId> skips;
  for (std::int64_t level = 0; level < depth; ++level) {
    skips.push_back(double_conv(g, fmt::format("down{}", level), x, width(level), arguments));
    x = g.max_pool2d(fmt::format("down{}.pool", level), skips.back(), 2, 2);
  }
  x = double_conv(g, "bottom", x, width(depth), arguments);
  for (std::int64_t level = depth; level-- > 0;) {
    const std::string name = fmt::format("up{}", level);
    x = g.conv_transpose2d(name + ".grow", x, width(level), 2, {.stride = 2});
    const TensorId skip =
        crop(g, name + ".crop", skips[static_cast<std::size_t>(level)], side(g, x));
    x = double_conv(g, name, g.concat(name + ".concat", {skip, x}, 0), width(level), arguments);
  }
  const TensorId scores = g.conv2d("out", x, arguments["classes"], 1);
  const TensorId logits = g.transpose("logits", scores, {1, 2, 0});  // (H, W, classes)
  const TensorId label = g.input("label", DType::kInt64, {side(g, x), side(g, x)});
  g.loss(g.cross_entropy("loss", logits, label));
  g.metric("accuracy", "mean", g.correct("correct", logits, label));
  return std::move(g).build();
}

}  // namespace

ZooModel unet_model() {
  return {"unet",
          "U-Net: segmentation with skips from the way down to the way up (MICCAI 2015)",
          {{"image", 572, 1, 4096, "height and width of an image"},
           {"channels", 1, 1, 1024, "channels of an image"},
           {"classes", 2, 1, 65536, "classes of a pixel"},
           {"width", 64, 1, 4096, "channels of the first convolutions"},
           {"depth", 4, 1, 8, "halvings of the image"},
           {"padding", 0, 0, 1, "1: convolutions keep the size of the image"},
           {"batch_norm", 0, 0, 1, "1: batch norms behind the 3x3 convolutions"}},
          build_unet};
}

}  // namespace graphpipe
