#include "models/zoo/bottlenecks.h"

#include <fmt/format.h>

namespace graphpipe {
namespace {

constexpr std::int64_t kBlocks[] = {3, 4, 6, 3};
constexpr std::int64_t kExpansion = 4;  // a block's width to its channels out

struct Block {
  std::int64_t width;
  std::int64_t stride;
  bool norm;
  Bottlenecks inner;
};

// 1x1, 3x3, 1x1 and the sum with what came in, which a 1x1 brings to size where it differs.
TensorId bottleneck(GraphBuilder& g, const std::string& name, TensorId x, const Block& b) {
  const bool bias = !b.norm;  // a norm subtracts it again
  const std::int64_t inner = b.width * b.inner.widths;
  TensorId y = conv_unit(g, name + ".conv1", x, inner, 1, {.bias = bias}, b.norm);
  y = conv_unit(g, name + ".conv2", y, inner, 3,
                {.stride = b.stride, .padding = 1, .groups = b.inner.groups, .bias = bias}, b.norm);
  y = conv_norm(g, name + ".conv3", y, kExpansion * b.width, 1, {.bias = bias}, b.norm);
  if (g.graph().tensor(x).shape != g.graph().tensor(y).shape) {
    x = conv_norm(g, name + ".shortcut", x, kExpansion * b.width, 1,
                  {.stride = b.stride, .bias = bias}, b.norm);
  }
  return g.relu(name + ".relu", g.add(name + ".add", {y, x}));
}

}  // namespace

Graph bottleneck_network(const std::string& name, const ZooArguments& arguments, DType floating,
                         const Bottlenecks& blocks) {
  GraphBuilder g(name, floating);
  const std::int64_t image = arguments["image"];
  const bool norm = arguments["batch_norm"] != 0;
  TensorId x = g.input("image", {arguments["channels"], image, image});
  x = conv_unit(g, "conv1", x, arguments["width"], 7, {.stride = 2, .padding = 3, .bias = !norm},
                norm);
  x = g.max_pool2d("pool1", x, 3, 2, 1);
  std::int64_t width = arguments["width"];
  for (std::size_t group = 0; group < std::size(kBlocks); ++group, width *= 2) {
    const std::int64_t count = arguments["blocks"] > 0 ? arguments["blocks"] : kBlocks[group];
    for (std::int64_t block = 1; block <= count; ++block) {
      const std::int64_t stride = group > 0 && block == 1 ? 2 : 1;
      x = bottleneck(g, fmt::format("group{}.block{}", group + 1, block), x,
                     {width, stride, norm, blocks});
    }
  }
  classification_head(g, g.linear("fc", g.global_avg_pool("pool2", x), arguments["classes"]));
  return std::move(g).build();
}

std::vector<ZooParameter> bottleneck_parameters() {
  return {{"image", 224, 1, 4096, "height and width of an image"},
          {"channels", 3, 1, 1024, "channels of an image"},
          {"classes", 1000, 1, 1048576, "classes"},
          {"width", 64, 1, 4096, "channels of the first convolution"},
          {"blocks", 0, 0, 64, "blocks in each of the four groups; 0: 3, 4, 6 and 3"},
          {"batch_norm", 1, 0, 1, "0: biases in place of the batch norms"}};
}

}  // namespace graphpipe
