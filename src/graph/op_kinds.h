// The kinds of operators. Adding one: a line here, its rules in op_kinds.cc (name,
// arity, attributes, shapes, FLOPs), its cost where the general rule does not do
// (cost/analytic.cc), its forward in runtime/operators.cc. The compiler names each
// place that misses it.
//
// Shapes below leave out the sample; B is the sample dimension at run time.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace graphpipe {

enum class OpKind {
  kLinear,     // x (..., in), weight (out, in)[, bias (out)] -> (..., out)
  kMatmul,     // a (..., m, k), b (..., k, n) -> (..., m, n); attribute transpose_b
  kAttention,  // x (T, C), in_weight (3C, C), in_bias (3C), out_weight (C, C), out_bias (C)
               // -> (T, C); multi-head self-attention; attributes heads, causal
  kLayerNorm,  // x (..., C), weight (C), bias (C) -> same; attribute epsilon
  kSoftmax,    // over the last dimension
  kGelu,       // the exact form
  kRelu,
  kAdd,           // two or more of one shape
  kMul,           // two of one shape
  kAddParameter,  // x + parameter of x's shape (position embeddings)
  kConcat,        // two or more along attribute axis (of the sample's shape; may be negative)
  kEmbedding,     // ids (...) int64, table (entries, dim) -> (..., dim)
  kEmbeddingBag,  // ids (n) int64, table (entries, dim) -> (dim): the sum (attribute mode "sum")
                  // or mean ("mean") over the bag; negative ids are padding and count nothing
  kDropout,       // attribute rate; off in evaluation; keyed by (seed, name, iteration, sample)
  kReshape,       // attribute shape (of the sample)
  kTranspose,     // attribute permutation (of the sample's dimensions)
  kSlice,         // attributes axis, start, length
  kMean,          // over attribute axis of the sample's shape
  kMseLoss,       // prediction (...), target (same) -> (): mean of squares over the sample
  kCrossEntropy,  // logits (..., classes), target (...) int64 -> (): mean over the positions
  kBinaryCrossEntropy,  // logits (...), target (same) float -> (): mean over the sample
  kCorrect,  // logits (..., classes), target (...) int64 -> (): share of right argmaxes; no
             // gradient
};

inline constexpr int kOpKindCount = static_cast<int>(OpKind::kCorrect) + 1;

std::string_view op_kind_name(OpKind kind);  // "linear", "layer_norm", ...
std::optional<OpKind> parse_op_kind(std::string_view name);

// Whether a sample's result depends on other samples of the micro-batch.
bool mixes_samples(OpKind kind);

}  // namespace graphpipe
