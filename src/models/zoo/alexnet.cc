// AlexNet in one column (Krizhevsky, "One weird trick for parallelizing convolutional neural
// networks", arXiv:1404.5997, 2014), as torchvision has it: five convolutions, three 3x3 maxima
// and three linear layers. 61,100,840 parameters at the published sizes; the two-column
// network of NIPS 2012 has other widths, response normalisation, and 60,965,224.

#include <fmt/format.h>

#include "base/error.h"
#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

struct Layer {
  std::int64_t width;  // in units of the first layer's, 64
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  bool pool;
};
constexpr Layer kLayers[] = {{2, 11, 4, 2, true},
                             {6, 5, 1, 2, true},
                             {12, 3, 1, 1, false},
                             {8, 3, 1, 1, false},
                             {8, 3, 1, 1, true}};
constexpr std::int64_t kSmallest = 63;  // leaves one pixel behind the last maximum

Graph build_alexnet(const ZooArguments& arguments, DType floating) {
  GraphBuilder g("alexnet", floating);
  const std::int64_t image = arguments["image"];
  expect_multiple(arguments, "width", 2);
  TensorId x = g.input("image", {arguments["channels"], image, image});
  int number = 0;
  for (const Layer& layer : kLayers) {
    const std::string name = fmt::format("conv{}", ++number);
    x = conv_unit(g, name, x, layer.width * arguments["width"] / 2, layer.kernel,
                  {.stride = layer.stride, .padding = layer.padding}, false);
    if (layer.pool) x = g.max_pool2d(fmt::format("pool{}", number), x, 3, 2);
  }
  x = g.reshape("flatten", x, {element_count(g.graph().tensor(x).shape)});
  for (int layer = 1; layer <= 2; ++layer) {
    const std::string name = fmt::format("fc{}", layer);
    x = dropped(g, name + ".dropout", x, rate(arguments, "dropout"));
    x = g.relu(name + ".relu", g.linear(name, x, arguments["hidden"]));
  }
  classification_head(g, g.linear("fc3", x, arguments["classes"]));
  return std::move(g).build();
}

}  // namespace

ZooModel alexnet_model() {
  return {"alexnet",
          "AlexNet in one column: five convolutions, three linear layers (2014)",
          {{"image", 224, kSmallest, 4096, "height and width of an image"},
           {"channels", 3, 1, 1024, "channels of an image"},
           {"classes", 1000, 1, 1048576, "classes"},
           {"width", 64, 2, 4096, "channels of the first convolution"},
           {"hidden", 4096, 1, 65536, "width of the hidden linear layers"},
           {"dropout", 500, 0, 900, "dropout rate in front of the hidden layers, per mille"}},
          build_alexnet};
}

}  // namespace graphpipe
