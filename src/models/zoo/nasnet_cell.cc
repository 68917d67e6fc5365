// NASNet-A of normal and reduction cells (Zoph et al., "Learning Transferable Architectures for
// Scalable Image Recognition", CVPR 2018, figures 2 and 4), in its mobile size, NASNet-A (4 @
// 1056): two reduction cells as a stem, then three groups of four normal cells with a reduction
// cell in front of the second and the third. A cell reads what the two cells before it made:
// the graph is no series of parallel branches. 5,289,978 trained parameters at the published
// sizes. With groups=1, cells=1 it is little more than one cell of each kind.
// Departs from the authors' model: windows that halve an image are padded alike on both sides,
// averages count the padding as zeros, and there is no auxiliary classifier and no drop-path.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

// A cell under construction: its name, its channels, and the graph it goes into.
class Cell {
 public:
  Cell(GraphBuilder& g, std::string name, std::int64_t filters, bool norm)
      : g_(g), name_(std::move(name)), filters_(filters), norm_(norm) {}

  // Both return what the next cell reads. `before`: what the cell before the last made.
  TensorId normal(TensorId last, TensorId before);
  TensorId reduction(TensorId last, TensorId before);

 private:
  std::string part(const std::string& what) const { return name_ + "." + what; }
  std::int64_t channels(TensorId x) const { return g_.graph().tensor(x).shape[0]; }
  std::int64_t side(TensorId x) const { return g_.graph().tensor(x).shape[1]; }

  TensorId squeeze(const std::string& what, TensorId x);
  TensorId fit(TensorId before, TensorId last);
  TensorId halved(const std::string& what, TensorId x);
  TensorId separable(const std::string& what, TensorId x, std::int64_t kernel,
                     std::int64_t stride = 1);
  TensorId average(const std::string& what, TensorId x, std::int64_t stride = 1) {
    return g_.avg_pool2d(part(what), x, 3, stride, 1);
  }
  TensorId maximum(const std::string& what, TensorId x) {
    return g_.max_pool2d(part(what), x, 3, 2, 1);
  }
  TensorId add(const std::string& what, TensorId a, TensorId b) {
    return g_.add(part(what), {a, b});
  }

  GraphBuilder& g_;
  std::string name_;
  std::int64_t filters_;
  bool norm_;
};

// A 1x1 convolution to the cell's channels.
TensorId Cell::squeeze(const std::string& what, TensorId x) {
  return conv_norm(g_, part(what), g_.relu(part(what + ".relu"), x), filters_, 1, {.bias = !norm_},
                   norm_);
}

// x of half the size and half the cell's channels: every other pixel of every other row.
TensorId Cell::halved(const std::string& what, TensorId x) {
  return g_.conv2d(part(what), g_.avg_pool2d(part(what + ".pool"), x, 1, 2), filters_ / 2, 1,
                   {.bias = !norm_});
}

// Brings what the cell before the last made to the size and channels of this one.
TensorId Cell::fit(TensorId before, TensorId last) {
  if (before == last) return last;  // the first cell reads the stem twice, as it is
  if (side(before) != side(last)) {
    const std::int64_t pixels = side(before);
    const TensorId x = g_.relu(part("fit.relu"), before);
    TensorId moved = g_.pad(part("fit.pad"), x, {0, 0, 0}, {0, 1, 1});
    moved = g_.slice(part("fit.rows"), moved, 1, 1, pixels);
    moved = g_.slice(part("fit.columns"), moved, 2, 1, pixels);
    const TensorId even = halved("fit.even", x);
    const TensorId both = g_.concat(part("fit"), {even, halved("fit.odd", moved)}, 0);
    return norm_ ? g_.batch_norm(part("fit.norm"), both) : both;
  }
  return channels(before) == filters_ ? before : squeeze("fit", before);
}

// Twice: ReLU, a window on each channel, a 1x1 convolution over the channels.
TensorId Cell::separable(const std::string& what, TensorId x, std::int64_t kernel,
                         std::int64_t stride) {
  for (int i = 1; i <= 2; ++i, stride = 1) {
    const std::string layer = fmt::format("{}{}", what, i);
    x = g_.relu(part(layer + ".relu"), x);
    x = g_.conv2d(part(layer + ".window"), x, channels(x), kernel,
                  {.stride = stride, .padding = kernel / 2, .groups = channels(x), .bias = false});
    x = conv_norm(g_, part(layer), x, filters_, 1, {.bias = !norm_}, norm_);
  }
  return x;
}

TensorId Cell::normal(TensorId last, TensorId before) {
  const TensorId p = fit(before, last);
  const TensorId h = squeeze("squeeze", last);
  const TensorId a = add("a", separable("a.left", h, 5), separable("a.right", p, 3));
  const TensorId b = add("b", separable("b.left", p, 5), separable("b.right", p, 3));
  const TensorId c = add("c", average("c.left", h), p);
  const TensorId d = add("d", average("d.left", p), average("d.right", p));
  const TensorId e = add("e", separable("e.left", h, 3), h);
  return g_.concat(part("concat"), {p, a, b, c, d, e}, 0);
}

TensorId Cell::reduction(TensorId last, TensorId before) {
  const TensorId p = fit(before, last);
  const TensorId h = squeeze("squeeze", last);
  const TensorId a = add("a", separable("a.left", h, 5, 2), separable("a.right", p, 7, 2));
  const TensorId b = add("b", maximum("b.left", h), separable("b.right", p, 7, 2));
  const TensorId c = add("c", average("c.left", h, 2), separable("c.right", p, 5, 2));
  const TensorId d = add("d", average("d.left", a), b);
  const TensorId e = add("e", separable("e.left", a, 3), maximum("e.right", h));
  return g_.concat(part("concat"), {b, c, d, e}, 0);
}

Graph build_nasnet_cell(const ZooArguments& arguments, DType floating) {
  expect_multiple(arguments, "filters", 4);
  GraphBuilder g("nasnet-cell", floating);
  const std::int64_t filters = arguments["filters"];
  const bool norm = arguments["batch_norm"] != 0;
  const std::int64_t image = arguments["image"];
  TensorId before = g.input("image", {arguments["channels"], image, image});
  before = conv_norm(g, "stem", before, arguments["stem"], 3, {.stride = 2, .bias = !norm}, norm);
  TensorId last = before;
  // The cell goes behind the last.
  const auto put = [&](TensorId made) { before = std::exchange(last, made); };
  put(Cell(g, "stem1", filters / 4, norm).reduction(last, before));
  put(Cell(g, "stem2", filters / 2, norm).reduction(last, before));
  std::int64_t width = filters;
  for (std::int64_t group = 1; group <= arguments["groups"]; ++group, width *= 2) {
    if (group > 1) {
      put(Cell(g, fmt::format("reduction{}", group), width, norm).reduction(last, before));
    }
    for (std::int64_t cell = 1; cell <= arguments["cells"]; ++cell) {
      put(Cell(g, fmt::format("group{}.cell{}", group, cell), width, norm).normal(last, before));
    }
  }
  TensorId x = g.global_avg_pool("pool", g.relu("relu", last));
  x = dropped(g, "dropout", x, rate(arguments, "dropout"));
  classification_head(g, g.linear("fc", x, arguments["classes"]));
  return std::move(g).build();
}

}  // namespace

ZooModel nasnet_cell_model() {
  return {"nasnet-cell",
          "NASNet-A of normal and reduction cells, mobile size (CVPR 2018)",
          {{"image", 224, 16, 4096, "height and width of an image"},
           {"channels", 3, 1, 1024, "channels of an image"},
           {"classes", 1000, 1, 1048576, "classes"},
           {"stem", 32, 1, 4096, "channels of the first convolution"},
           {"filters", 44, 4, 4096, "channels of a part of the first normal cells"},
           {"groups", 3, 1, 8, "groups of normal cells, each half the size of the one before"},
           {"cells", 4, 1, 64, "normal cells of a group"},
           {"batch_norm", 1, 0, 1, "0: biases in place of the batch norms"},
           {"dropout", 500, 0, 900, "dropout rate in front of the last layer, per mille"}},
          build_nasnet_cell};
}

}  // namespace graphpipe
