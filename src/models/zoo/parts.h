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
};

// A Transformer encoder layer with the norms behind the sums (Vaswani et al., 2017):
// attention, add, norm, linear, GELU, linear, add, norm. x: (T, C) -> (T, C).
TensorId encoder_layer(GraphBuilder& g, const std::string& name, TensorId x,
                       const EncoderSizes& sizes);

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

// Cross-entropy of logits (classes) against the input "label", and the metric "accuracy".
void classification_head(GraphBuilder& g, TensorId logits);

// Parameters in per mille to a rate.
double rate(const ZooArguments& arguments, std::string_view name);

// Throws InputError("MODEL", ...) unless `whole` is a multiple of `part`.
void expect_multiple(const ZooArguments& arguments, std::string_view whole, std::string_view part);

}  // namespace graphpipe
