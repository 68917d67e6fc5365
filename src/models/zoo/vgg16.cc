// VGG-16 (Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
// Recognition", ICLR 2015, table 1, configuration D): thirteen 3x3 convolutions in five
// groups, each group with a 2x2 maximum behind it, and three linear layers. 138,357,544
// parameters at the published sizes.

#include <fmt/format.h>

#include "base/error.h"
#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

struct Group {
  int convolutions;
  std::int64_t widths;  // in units of the first group's width
};
constexpr Group kGroups[] = {{2, 1}, {2, 2}, {3, 4}, {3, 8}, {3, 8}};
constexpr std::int64_t kShrinks = 32;  // five halvings

// The paper's two hidden layers, each with dropout behind it where there is any.
TensorId classifier(GraphBuilder& g, TensorId x, const ZooArguments& arguments) {
  for (int layer = 1; layer <= 2; ++layer) {
    const std::string name = fmt::format("fc{}", layer);
    x = g.relu(name + ".relu", g.linear(name, x, arguments["hidden"]));
    x = dropped(g, name + ".dropout", x, rate(arguments, "dropout"));
  }
  return g.linear("fc3", x, arguments["classes"]);
}

Graph build_vgg16(const ZooArguments& arguments, DType floating) {
  GraphBuilder g("vgg16", floating);
  const std::int64_t image = arguments["image"];
  if (image % kShrinks != 0) {
    throw InputError("MODEL", fmt::format("image is {}, expected a multiple of {}: the model "
                                          "halves it five times",
                                          image, kShrinks));
  }
  TensorId x = g.input("image", {arguments["channels"], image, image});
  for (std::size_t group = 0; group < std::size(kGroups); ++group) {
    const std::int64_t width = kGroups[group].widths * arguments["width"];
    for (int i = 1; i <= kGroups[group].convolutions; ++i) {
      x = conv_unit(g, fmt::format("conv{}_{}", group + 1, i), x, width, 3,
                    {.padding = 1, .bias = true}, arguments["batch_norm"] != 0);
    }
    x = g.max_pool2d(fmt::format("pool{}", group + 1), x, 2, 2);
  }
  const std::int64_t features = element_count(g.graph().tensor(x).shape);
  classification_head(g, classifier(g, g.reshape("flatten", x, {features}), arguments));
  return std::move(g).build();
}

}  // namespace

ZooModel vgg16_model() {
  return {"vgg16",
          "VGG-16: thirteen convolutions and three linear layers (ICLR 2015)",
          {{"image", 224, 1, 4096, "height and width of an image"},
           {"channels", 3, 1, 1024, "channels of an image"},
           {"classes", 1000, 1, 1048576, "classes"},
           {"width", 64, 1, 4096, "channels of the first convolutions"},
           {"hidden", 4096, 1, 65536, "width of the hidden linear layers"},
           {"batch_norm", 0, 0, 1, "1: batch norms behind the convolutions"},
           {"dropout", 500, 0, 900, "dropout rate behind the hidden layers, per mille"}},
          build_vgg16};
}

}  // namespace graphpipe
