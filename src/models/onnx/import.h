// From an ONNX model to a Graph that trains. Which axis of which input holds the samples is
// found out, shape arithmetic is done while importing, and the weights are the parameters'
// given values.

#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "models/onnx/onnx_model.h"

namespace graphpipe {

struct OnnxOptions {
  // The loss of the training: "cross_entropy", "mse", "binary_cross_entropy" (on logits), or
  // "own": a tensor of the model that has one number a sample. "": none; the graph can be planned.
  std::string loss;
  std::string of;                  // the tensor that it is of; "": the model's only output
  std::string labels = "label";    // the input that holds what is right; added where there is none
  std::int64_t classes_axis = -1;  // of `of`, in ONNX's counting
  std::string batch;               // the symbol of the samples' dimension; "": found out
  std::map<std::string, std::int64_t, std::less<>> sizes;  // of other symbols
  std::set<std::string, std::less<>> frozen;               // weights that are not trained

  // What follows overrides what the file says of inputs, for tests.
  std::map<std::string, OnnxTensor, std::less<>> constants;  // inputs with these values
  // Axes that hold the samples; other inputs have none.
  std::optional<std::map<std::string, std::size_t, std::less<>>> batched_inputs;
};

struct OnnxOutput {
  std::string name;
  DType dtype = DType::kFloat32;
  TensorId tensor;                        // of the graph; none: a constant
  std::optional<std::size_t> batch_axis;  // where the samples stand in ONNX's shape
  std::int64_t axes_before = 0;           // of the graph's sample, before the samples
  std::vector<std::int64_t> shape;        // ONNX's, 1 in place of the samples
  OnnxTensor constant;
};

struct ImportedOnnx {
  Graph graph;  // validated
  std::vector<OnnxOutput> outputs;
};

// An operator takes an input only as a constant, and it is none.
class NeedsConstant final : public InputError {
 public:
  NeedsConstant(const std::string& where, const std::string& what, std::string input)
      : InputError(where, what), input_(std::move(input)) {}
  const std::string& input() const { return input_; }

 private:
  std::string input_;
};

// Throws InputError("FILE: node \"...\" (Conv)", ...). Operators that are not supported are
// listed all at once, with counts.
ImportedOnnx import_onnx(const OnnxModel& model, const OnnxOptions& options,
                         const std::string& file);

// Sorted by name.
std::vector<std::string> supported_onnx_operators();

}  // namespace graphpipe
