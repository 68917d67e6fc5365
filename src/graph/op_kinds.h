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
  kMatmul,     // a (..., m, k), b (..., k, n) -> (..., m, n), the leading dimensions broadcast;
               // attribute transpose_b
  kAttention,  // x (T, C), in_weight (3C, C), in_bias (3C), out_weight (C, C), out_bias (C)
               // -> (T, C); multi-head self-attention; attributes heads, causal
  kLayerNorm,  // x (..., C), weight (C), bias (C) -> same; attribute epsilon
  kSoftmax,    // over the last dimension
  kGelu,       // the exact form
  kRelu,
  kSigmoid,
  kTanh,
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
  kSplit,         // attributes axis, sizes: one output for each of the sizes, in order
  kPad,           // attributes before, after (of each dimension), value
  kMean,          // over attribute axis of the sample's shape

  // By attribute function, of which graph/functions.h has the lists. Operands are inputs and
  // parameters as attribute operands says: k is input k, -1 - k is parameter k. A parameter has no
  // samples; a result that comes of parameters alone has those of input 0, each the same.
  kElementwise,  // operands broadcast -> their common shape; attributes alpha, beta, function,
                 // operands
  kReduce,       // over attribute axes, ascending, of the sample's shape; attributes function, keep
                 // (whether the axes stay, with one element each)
  kAlongAxis,    // same shape; attributes axis, function
  kGather,       // data, indices int64 (negative ones from the end); attributes axis, operands,
                 // mode: "index" (as axis of data stand the dimensions of indices), "elements"
                 // (indices of data's rank: one element each -> their shape)
  kExpand,       // x broadcast to attribute shape

  // Windows: kernel, stride, padding (on both sides) and dilation have a number a dimension.
  kConv1d,           // x (C, L), weight (O, C / groups, k)[, bias (O)] -> (O, L'); attributes
                     // dilation, groups, padding, stride
  kConv2d,           // x (C, H, W), weight (O, C / groups, kh, kw)[, bias (O)] -> (O, H', W')
  kConvTranspose2d,  // x (C, H, W), weight (C, O / groups, kh, kw)[, bias (O)] -> (O, H', W');
                     // attributes as conv2d's, and output_padding (at the end only)
  kMaxPool2d,        // x (C, H, W) -> (C, H', W'); attributes kernel, padding, stride
  kAvgPool2d,        // as max_pool2d; padding counts as zeros
  kGlobalAvgPool,    // x (C, ...) -> (C)
  kResize,           // x (C, H, W) -> (C, H', W'); attributes mode ("nearest", "bilinear"), size
  kBatchNorm,        // x (C, ...), weight (C), bias (C), mean (C), variance (C) -> same; attributes
               // epsilon, momentum. Training normalises over the samples of the batch and moves
               // mean and variance, which no gradient changes; evaluation normalises by them

  // Over a sequence x (T, I), from a state of zeros; w_ih (gH, I), w_hh (gH, H), b_ih (gH),
  // b_hh (gH) with the gates in PyTorch's order -> (T, H), the state after every step.
  kLstm,  // g = 4
  kGru,   // g = 3

  kMseLoss,             // prediction (...), target (same) -> (): mean of squares over the sample
  kCrossEntropy,        // logits (..., classes), target (...) int64 -> (): mean over the positions
  kBinaryCrossEntropy,  // logits (...), target (same) float -> (): mean over the sample
  kCorrect,  // logits (..., classes), target (...) int64 -> (): share of right argmaxes; no
             // gradient

  // Of an imported profile: what it computes is not known, what it costs is. Any inputs and
  // parameters -> float32 tensors of so many elements each, and () at the end where it is a loss;
  // attributes backward_s and forward_s (seconds a sample), elements (of each output), loss,
  // saved_bytes (a sample, beyond inputs and outputs). It can be planned and not trained.
  kOpaque,

  // A user's own, registered by the program that builds or runs the graph (graph/custom_op.h):
  // any inputs and parameters; attribute function is its name, others are its own.
  kCustom,
};

inline constexpr int kOpKindCount = static_cast<int>(OpKind::kCustom) + 1;

std::string_view op_kind_name(OpKind kind);  // "linear", "layer_norm", ...
std::optional<OpKind> parse_op_kind(std::string_view name);

// Whether, in training, a sample's result depends on other samples of the micro-batch: then
// it depends on how a mini-batch is cut, and equals that of one device for the same cuts only.
bool mixes_samples(OpKind kind);

}  // namespace graphpipe
