// The computation graph: operators, the tensors between them, and parameters.
// It says what is computed, and nothing about where, when or how fast.
//
// Terms: a tensor is *batched* when dimension 0 is the sample; its `shape` is then
// the shape of one sample. An operator *mixes samples* when the result of one
// sample depends on the others; batch norm does, in training (mixes_samples()).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/id.h"
#include "graph/op_kinds.h"

namespace graphpipe {

enum class DType { kFloat32, kFloat64, kInt64, kBool };

std::int64_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);  // "float32", ...
std::optional<DType> parse_dtype(std::string_view name);
constexpr bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

struct Tensor {
  std::string name;
  DType dtype = DType::kFloat32;
  bool batched = true;
  std::vector<std::int64_t> shape;  // of one sample where batched; all positive
  OpId producer;                    // none: an input of the graph
};

// How a parameter starts. Values are drawn by (seed, name, element), so they do not
// depend on the order of parameters or on the rank that holds them.
enum class InitKind {
  kZeros,
  kOnes,
  kConstant,  // `scale`
  kUniform,   // in [-scale, scale)
  kNormal,    // with standard deviation `scale`
  kGiven,     // the parameter's own values: those of a file
};

struct Init {
  InitKind kind = InitKind::kZeros;
  double scale = 0;
  friend bool operator==(const Init&, const Init&) = default;
};

// A parameter has an identity of its own: several operators may hold the same one
// (tied weights).
struct Parameter {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  Init init;
  bool trainable = true;
  // Where they are given: elements in row-major order, as this machine holds them. Shared, since
  // they can be most of a graph. Not there where a graph was read without its weights.
  std::shared_ptr<const std::string> values = nullptr;
};

using Attribute = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

struct Operator {
  std::string name;
  OpKind kind = OpKind::kAdd;
  std::vector<std::pair<std::string, Attribute>> attributes;  // sorted by name
  std::vector<TensorId> inputs;
  std::vector<ParamId> params;
  std::vector<TensorId> outputs;

  // The attribute's value. Requires: it is there and of that type (validate() saw to
  // it for the attributes that the kind declares).
  std::int64_t integer(std::string_view attribute) const;
  double number(std::string_view attribute) const;
  bool flag(std::string_view attribute) const;
  const std::string& text(std::string_view attribute) const;
  const std::vector<std::int64_t>& list(std::string_view attribute) const;
};

// How the losses of samples make one number, and so how gradients are scaled. It is
// applied once, over the whole mini-batch, whatever the micro-batches.
enum class Normaliser {
  kMeanOverSamples,
  kSum,
};

// A sink of the forward pass and a seed of the backward pass. The tensor is batched,
// floating, and one number a sample. The model's loss is the sum over its losses of
// weight * normalised tensor.
struct Loss {
  TensorId tensor;
  double weight = 1.0;
  Normaliser normaliser = Normaliser::kMeanOverSamples;
};

// What evaluation reports: "rmse" is the root of the mean of `tensor` (a loss tensor
// of squared errors), "accuracy" the mean of a tensor of zeros and ones, "mean" the
// mean of a tensor.
struct Metric {
  std::string name;  // as it stands in the output: "rmse", "accuracy", "loss"
  std::string kind;  // "mean", "root_mean"
  TensorId tensor;
};

struct Graph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Parameter> params;
  std::vector<Operator> ops;     // in an order in which they can run (G5)
  std::vector<TensorId> inputs;  // tensors without a producer, labels among them
  std::vector<Loss> losses;
  std::vector<Metric> metrics;

  const Tensor& tensor(TensorId id) const { return tensors[id.index()]; }
  const Parameter& param(ParamId id) const { return params[id.index()]; }
  const Operator& op(OpId id) const { return ops[id.index()]; }
  std::size_t op_count() const { return ops.size(); }
};

// Invariants, checked by validate() in this order:
//   G1  at most 100,000 operators; ids are in range; names of tensors, parameters and operators
//       are UTF-8, not empty and unique within their kind
//   G2  shapes are positive (at most 8 dimensions, at most 2^40 elements); what is given of a
//       parameter has its size, and what is not floating is given and not trained
//   G3  an operator has the inputs, parameters, outputs and attributes of its kind
//   G4  every tensor is an output of its producer, or an input of the graph
//   G5  operators stand in an order in which they can run (so there is no cycle)
//   G6  the output types and shapes are those that infer_outputs() gives
//   G7  a loss is batched, floating, and one number a sample; there is at least one
//       loss, unless the graph is for inference or planning only; metrics likewise
// Throws InputError(where + ": /ops/3", "G3: ...") naming the first that is broken.
void validate(const Graph& graph, const std::string& where);

// What the operator's outputs are, from its inputs, parameters and attributes.
// Returned tensors have no name and no producer. Throws InputError(where, "G3: ...")
// where the inputs do not fit the kind, naming expected and found shapes.
std::vector<Tensor> infer_outputs(const Graph& graph, const Operator& op, const std::string& where);

// Bytes of `samples` samples of the tensor (of the whole where it is not batched).
std::int64_t tensor_bytes(const Tensor& tensor, std::int64_t samples);
std::int64_t element_count(const std::vector<std::int64_t>& shape);
std::int64_t param_bytes(const Parameter& param);

// The operators that read the tensor, ascending.
std::vector<std::vector<OpId>> consumers(const Graph& graph);

// Whether a gradient flows into the tensor when training: it is floating, a loss
// depends on it, and it depends on a trainable parameter. Indexed by TensorId.
std::vector<bool> needs_gradient(const Graph& graph);
// Whether it flows into an output of the operator, which then has a backward. `needs`:
// needs_gradient().
bool has_backward(const Operator& op, const std::vector<bool>& needs);

// The parameters that hold what a batch norm has seen: its mean and its variance. No gradient
// changes them, and counts of parameters leave them out. Indexed by ParamId.
std::vector<bool> running_statistics(const Graph& graph);

// The kinds of the graph's operators that mix samples, each once, as they first stand.
std::vector<OpKind> sample_mixing_kinds(const Graph& graph);

// Depends on all that changes what is computed (kinds, attributes, shapes, wiring,
// parameter names, initialisation, losses) and on the names by which things are looked
// up (operators: randomness is keyed by them; inputs: fields of the data set), not on
// names of other tensors, nor on metrics. Given values count where they are not trained.
std::uint64_t graph_hash(const Graph& graph);

// What makes two operators cost the same: kind, attributes, dtypes, and shapes of
// inputs, parameters and outputs per sample. One line of text, stable across runs.
std::string op_signature(const Graph& graph, OpId op);

// Floating-point operations of the forward pass over one sample (a multiply-add
// counts two).
double forward_flops_per_sample(const Graph& graph, OpId op);

}  // namespace graphpipe
