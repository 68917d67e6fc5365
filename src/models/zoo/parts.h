// What several models of the zoo are made of.

#pragma once

#include <string>
#include <vector>

#include "graph/builder.h"
#include "models/models.h"

namespace graphpipe {

struct EncoderSizes {
  std::int64_t heads = 1;
  std::int64_t ffn = 1;  // width of the feed-forward part
  double dropout = 0;    // 0: no dropout operators
  bool causal = false;   // a position sees none behind it
};

// A Transformer encoder layer with the norms behind the sums (Vaswani et al., 2017):
// attention, add, norm, linear, GELU, linear, add, norm. x: (T, C) -> (T, C).
TensorId encoder_layer(GraphBuilder& g, const std::string& name, TensorId x,
                       const EncoderSizes& sizes);
// The same with the norms in front (Radford et al., 2019): norm, attention, add, norm, linear,
// GELU, linear, add.
TensorId pre_norm_layer(GraphBuilder& g, const std::string& name, TensorId x,
                        const EncoderSizes& sizes);

// Dropout where there is any.
TensorId dropped(GraphBuilder& g, const std::string& name, TensorId x, double rate);

// Logits of the entries of an embedding's table, which is also the weight here (tied weights).
// `bias`: one an entry, NAME.bias.
TensorId tied_linear(GraphBuilder& g, const std::string& name, TensorId x, ParamId table,
                     bool bias);

// `layers` linear layers of width `hidden`, each with a ReLU. x: (n) -> (hidden).
TensorId feed_forward(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t layers,
                      std::int64_t hidden);

// Concatenates along the last axis; one tensor stays as it is.
TensorId concat_last(GraphBuilder& g, const std::string& name, const std::vector<TensorId>& xs);

// A light head for a sequence x (T, C): mean over the positions, linear to `outputs`,
// squared error against the input "target". The loss is also the metric "loss".
void regression_head(GraphBuilder& g, TensorId x, std::int64_t outputs);

// A square convolution, and a batch norm behind it (NAME.norm) where there are `norm`s.
TensorId conv_norm(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t out,
                   std::int64_t kernel, const Conv& conv, bool norm);
// The same with a ReLU at the end (NAME.relu).
TensorId conv_unit(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t out,
                   std::int64_t kernel, const Conv& conv, bool norm);

struct Window {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};
struct WindowConv {
  std::int64_t stride = 1;
  std::int64_t padding_rows = 0;
  std::int64_t padding_columns = 0;
};
// conv_unit() with a window that may be oblong; a bias where there is no norm.
TensorId window_unit(GraphBuilder& g, const std::string& name, TensorId x, std::int64_t out,
                     const Window& window, const WindowConv& conv, bool norm);

// Cross-entropy of logits (..., classes) against the input `label` (...), and the metric
// "accuracy". Returns the label.
TensorId classification_head(GraphBuilder& g, TensorId logits, const std::string& label = "label");

// Parameters in per mille to a rate.
double rate(const ZooArguments& arguments, std::string_view name);

// Throws InputError("MODEL", ...) unless `whole` is a multiple of `part`.
void expect_multiple(const ZooArguments& arguments, std::string_view whole, std::string_view part);
void expect_multiple(const ZooArguments& arguments, std::string_view whole, std::int64_t part);

}  // namespace graphpipe
