// Inception-v3 (Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR
// 2016, table 1), as torchvision has it: six convolutions, then eleven modules of four branches or
// three that are concatenated (figures 5 to 7 and 10), and an auxiliary classifier at the end of
// the 17x17 modules. 27,161,264 trained parameters at the published sizes, 23,834,568 without the
// auxiliary classifier. Its loss weighs 0.4 of the main one's, as in TensorFlow's model.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

constexpr double kAuxiliaryWeight = 0.4;
constexpr std::int64_t kUnit = 32;  // the width at which channels are as published

// The network so far, and how wide all is.
class Tower {
 public:
  Tower(GraphBuilder& g, const ZooArguments& arguments)
      : g_(g), width_(arguments["width"]), norm_(arguments["batch_norm"] != 0) {}

  // A convolution with `channels` at the published width. Windows of more than a pixel keep the
  // image's size where `same`.
  TensorId conv(const std::string& name, TensorId x, std::int64_t channels, Window window,
                std::int64_t stride = 1, bool same = true) {
    const std::int64_t rows = same ? window.rows / 2 : 0;
    const std::int64_t columns = same ? window.columns / 2 : 0;
    return window_unit(g_, name, x, channels * width_ / kUnit, window,
                       {.stride = stride, .padding_rows = rows, .padding_columns = columns}, norm_);
  }

  TensorId average(const std::string& name, TensorId x) { return g_.avg_pool2d(name, x, 3, 1, 1); }
  TensorId halve(const std::string& name, TensorId x) { return g_.max_pool2d(name, x, 3, 2); }
  TensorId concat(const std::string& name, const std::vector<TensorId>& xs) {
    return g_.concat(name, xs, 0);
  }

 private:
  GraphBuilder& g_;
  std::int64_t width_;
  bool norm_;
};

constexpr Window k1x1{1, 1}, k3x3{3, 3}, k5x5{5, 5}, k1x7{1, 7}, k7x1{7, 1}, k1x3{1, 3}, k3x1{3, 1};

TensorId stem(Tower& t, TensorId x) {
  x = t.conv("conv1", x, 32, k3x3, 2, false);
  x = t.conv("conv2", x, 32, k3x3, 1, false);
  x = t.halve("pool1", t.conv("conv3", x, 64, k3x3));
  x = t.conv("conv4", x, 80, k1x1);
  return t.halve("pool2", t.conv("conv5", x, 192, k3x3, 1, false));
}

// 35x35 pixels: figure 5, with one 5x5 left.
TensorId module_35(Tower& t, const std::string& name, TensorId x, std::int64_t pooled) {
  const TensorId one = t.conv(name + ".one", x, 64, k1x1);
  const TensorId five = t.conv(name + ".five2", t.conv(name + ".five1", x, 48, k1x1), 64, k5x5);
  TensorId three = t.conv(name + ".three2", t.conv(name + ".three1", x, 64, k1x1), 96, k3x3);
  three = t.conv(name + ".three3", three, 96, k3x3);
  const TensorId pool = t.conv(name + ".pool.conv", t.average(name + ".pool", x), pooled, k1x1);
  return t.concat(name + ".concat", {one, five, three, pool});
}

TensorId reduction_35(Tower& t, const std::string& name, TensorId x) {
  const TensorId three = t.conv(name + ".three", x, 384, k3x3, 2, false);
  TensorId twice = t.conv(name + ".twice2", t.conv(name + ".twice1", x, 64, k1x1), 96, k3x3);
  twice = t.conv(name + ".twice3", twice, 96, k3x3, 2, false);
  return t.concat(name + ".concat", {three, twice, t.halve(name + ".pool", x)});
}

// 17x17 pixels: figure 6, with n = 7.
TensorId module_17(Tower& t, const std::string& name, TensorId x, std::int64_t inner) {
  const TensorId one = t.conv(name + ".one", x, 192, k1x1);
  TensorId seven = t.conv(name + ".seven2", t.conv(name + ".seven1", x, inner, k1x1), inner, k1x7);
  seven = t.conv(name + ".seven3", seven, 192, k7x1);
  TensorId twice = t.conv(name + ".twice2", t.conv(name + ".twice1", x, inner, k1x1), inner, k7x1);
  twice = t.conv(name + ".twice4", t.conv(name + ".twice3", twice, inner, k1x7), inner, k7x1);
  twice = t.conv(name + ".twice5", twice, 192, k1x7);
  const TensorId pool = t.conv(name + ".pool.conv", t.average(name + ".pool", x), 192, k1x1);
  return t.concat(name + ".concat", {one, seven, twice, pool});
}

TensorId reduction_17(Tower& t, const std::string& name, TensorId x) {
  TensorId three = t.conv(name + ".three1", x, 192, k1x1);
  three = t.conv(name + ".three2", three, 320, k3x3, 2, false);
  TensorId seven = t.conv(name + ".seven2", t.conv(name + ".seven1", x, 192, k1x1), 192, k1x7);
  seven = t.conv(name + ".seven4", t.conv(name + ".seven3", seven, 192, k7x1), 192, k3x3, 2, false);
  return t.concat(name + ".concat", {three, seven, t.halve(name + ".pool", x)});
}

// 1x3 and 3x1 side by side.
TensorId forked(Tower& t, const std::string& name, TensorId x) {
  return t.concat(name + ".concat",
                  {t.conv(name + ".rows", x, 384, k1x3), t.conv(name + ".columns", x, 384, k3x1)});
}

// 8x8 pixels: figure 7.
TensorId module_8(Tower& t, const std::string& name, TensorId x) {
  const TensorId one = t.conv(name + ".one", x, 320, k1x1);
  const TensorId three = forked(t, name + ".three", t.conv(name + ".three1", x, 384, k1x1));
  const TensorId twice =
      t.conv(name + ".twice2", t.conv(name + ".twice1", x, 448, k1x1), 384, k3x3);
  const TensorId pool = t.conv(name + ".pool.conv", t.average(name + ".pool", x), 192, k1x1);
  return t.concat(name + ".concat", {one, three, forked(t, name + ".twice", twice), pool});
}

// 17x17 to 5x5 to one pixel; windows are no larger than the image where that is small.
TensorId auxiliary_logits(GraphBuilder& g, Tower& t, TensorId x, std::int64_t classes) {
  const auto window = [&] { return std::min<std::int64_t>(5, g.graph().tensor(x).shape.back()); };
  x = t.conv("auxiliary.conv1", g.avg_pool2d("auxiliary.pool1", x, window(), 3), 128, k1x1);
  x = t.conv("auxiliary.conv2", x, 768, {window(), window()}, 1, false);
  return g.linear("auxiliary.fc", g.global_avg_pool("auxiliary.pool2", x), classes);
}

Graph build_inception_v3(const ZooArguments& arguments, DType floating) {
  expect_multiple(arguments, "width", 2);
  GraphBuilder g("inception-v3", floating);
  Tower t(g, arguments);
  const std::int64_t image = arguments["image"];
  const auto modules = [&](std::int64_t published) {
    return arguments["modules"] > 0 ? arguments["modules"] : published;
  };
  TensorId x = stem(t, g.input("image", {arguments["channels"], image, image}));
  for (std::int64_t i = 1; i <= modules(3); ++i) {
    x = module_35(t, fmt::format("a{}", i), x, i == 1 ? 32 : 64);
  }
  x = reduction_35(t, "b", x);
  for (std::int64_t i = 1; i <= modules(4); ++i) {
    x = module_17(t, fmt::format("c{}", i), x, i == 1 ? 128 : i < 4 ? 160 : 192);
  }
  const TensorId middle = x;
  x = reduction_17(t, "d", x);
  for (std::int64_t i = 1; i <= modules(2); ++i) x = module_8(t, fmt::format("e{}", i), x);
  x = dropped(g, "dropout", g.global_avg_pool("pool3", x), rate(arguments, "dropout"));
  const TensorId label = classification_head(g, g.linear("fc", x, arguments["classes"]));
  if (arguments["auxiliary"] != 0) {
    const TensorId logits = auxiliary_logits(g, t, middle, arguments["classes"]);
    g.loss(g.cross_entropy("auxiliary.loss", logits, label), kAuxiliaryWeight);
  }
  return std::move(g).build();
}

}  // namespace

ZooModel inception_v3_model() {
  return {"inception-v3",
          "Inception-v3: modules of branches, an auxiliary classifier (CVPR 2016)",
          {{"image", 299, 75, 4096, "height and width of an image"},
           {"channels", 3, 1, 1024, "channels of an image"},
           {"classes", 1000, 1, 1048576, "classes"},
           {"width", kUnit, 2, 4096, "channels of the first convolution; scales all others"},
           {"modules", 0, 0, 64, "modules in each of the three groups; 0: 3, 4 and 2"},
           {"auxiliary", 1, 0, 1, "0: without the auxiliary classifier"},
           {"batch_norm", 1, 0, 1, "0: biases in place of the batch norms"},
           {"dropout", 500, 0, 900, "dropout rate in front of the last layer, per mille"}},
          build_inception_v3};
}

}  // namespace graphpipe
