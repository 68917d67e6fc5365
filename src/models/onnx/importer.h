// The importer's state, and the pieces from which operators are put together. Files beside
// this one hold the operators by family; registry.cc has the table of all.

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "models/onnx/import.h"
#include "models/onnx/value.h"

namespace graphpipe::onnx_import {

class Importer;
using Handler = void (*)(Importer& importer);
struct Registered {
  std::string_view type;
  Handler handler;
};
// registry.cc; sorted by type.
const std::vector<Registered>& registered_operators();

class Importer {
 public:
  Importer(const OnnxModel& model, const OnnxOptions& options, std::string file);
  ImportedOnnx run();

  // --- the node at hand
  const OnnxNode& node() const { return *node_; }
  std::int64_t opset() const { return model_.opset; }
  [[noreturn]] void fail(const std::string& what) const;
  std::string place() const;
  bool has_input(std::size_t i) const;
  const Value& in(std::size_t i) const;  // throws where it is left out
  std::size_t inputs() const { return node_->inputs.size(); }
  bool wants_output(std::size_t i) const;
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
  double number(std::string_view attribute, double otherwise) const;
  std::string text(std::string_view attribute, std::string_view otherwise) const;
  std::optional<Shape> list(std::string_view attribute) const;
  const OnnxAttribute* attribute(std::string_view name) const;
  // An axis of `dims` as it is counted from the front.
  std::size_t axis_of(std::int64_t axis, const Dims& dims) const;
  // The same, where it must not be the samples'; of the sample's shape.
  std::int64_t sample_axis(std::int64_t axis, const Dims& dims) const;
  void out(Value value) { out(0, std::move(value)); }
  void out(std::size_t i, Value value);

  // --- constants. Throw NeedsConstant where the input is none.
  const Value& constant(std::size_t i) const;
  std::vector<Item> items(std::size_t i) const;
  Shape integers(std::size_t i) const;  // refuses what depends on the samples
  double scalar(std::size_t i) const;

  // --- our graph
  GraphBuilder& graph() { return builder_; }
  std::string name_op();  // a name for the next operator of this node
  TensorId op(OpKind kind, std::vector<TensorId> inputs, std::vector<ParamId> params,
              std::vector<std::pair<std::string, Attribute>> attributes);
  std::vector<TensorId> ops(OpKind kind, std::vector<TensorId> inputs, std::vector<ParamId> params,
                            std::vector<std::pair<std::string, Attribute>> attributes,
                            std::size_t outputs);
  const Tensor& tensor(TensorId id) const { return builder_.graph().tensor(id); }
  // The constant as a parameter of that shape, which has its elements in the same order. `train`:
  // if it stands in the file and is floating.
  ParamId param(const Value& value, const Shape& shape, bool train);
  // A tensor of the sample's shape; a constant becomes one. `samples`: with samples, where the
  // graph has any.
  TensorId materialize(const Value& value, bool train = true, bool samples = false);
  Value value_of(TensorId tensor, Dims dims) const;
  bool is_input(TensorId id) const { return !tensor(id).producer.valid(); }
  // Of a table and indices that are both parameters.
  TensorId gather_params(const std::vector<ParamId>& params, std::int64_t axis, const char* mode);

  // --- pieces on tensors of our graph, axes and shapes those of a sample
  TensorId reshape(TensorId x, const Shape& shape);
  TensorId transpose(TensorId x, const Shape& permutation);
  TensorId slice(TensorId x, std::int64_t axis, std::int64_t start, std::int64_t length);
  TensorId pick(TensorId x, std::int64_t axis, const Shape& indices);  // along an axis
  TensorId unary(std::string_view function, TensorId x, double alpha = 0, double beta = 0);
  TensorId binary(std::string_view function, TensorId a, TensorId b);
  TensorId with_constant(std::string_view function, TensorId x, const Value& constant,
                         bool constant_first = false);
  TensorId with_number(std::string_view function, TensorId x, double number,
                       bool number_first = false);
  TensorId reduce(std::string_view function, TensorId x, Shape axes, bool keep);

  // --- pieces on values
  // Any function of elements; operands broadcast as ONNX says.
  Value elementwise(std::string_view function, const std::vector<Value>& operands, double alpha = 0,
                    double beta = 0);
  Dims broadcast(const std::vector<Value>& operands) const;
  // The shape in which a value of `dims` broadcasts within a sample of `out`.
  Shape aligned_shape(const Dims& dims, const Dims& out) const;
  Value reshaped(const Value& value, Dims dims);
  Value transposed(const Value& value, const std::vector<std::size_t>& permutation);
  // Throws where the value is not (samples, C, ...) with `spatial` further dimensions.
  TensorId image(const Value& value, std::size_t spatial);
  Value product(const Value& a, const Value& b);
  // Whether arithmetic may be done on it now: it is small and no weight of the file.
  bool folds(const Value& value) const;
  // A suffix for a weight that this node needs a copy of its own of: "" where nobody holds it.
  std::string fresh_copy(const std::string& weight) const;
  bool has_samples() const { return has_samples_; }
  std::int64_t static_batch() const { return static_batch_; }

 private:
  struct Stored {
    ParamId param;
    Shape shape;
    bool transposed = false;
  };
  void list_unsupported(const std::vector<bool>& wanted) const;
  std::vector<bool> wanted_nodes(const std::set<std::string>& results) const;
  std::set<std::string> result_names() const;
  void find_batch();
  void add_input(const OnnxValue& input);
  Dims input_dims(const OnnxValue& input) const;
  void run_node(const OnnxNode& node);
  void add_loss(const std::string& of);
  void add_label_loss(const Value& value);
  TensorId classes_last(const Value& value);
  TensorId label_input(DType dtype, const Shape& shape);
  TensorId carrier() const;
  std::string unique_param_name(const std::string& wanted);
  OnnxOutput output_of(const std::string& name) const;

  const OnnxModel& model_;
  const OnnxOptions& options_;
  std::string file_;
  GraphBuilder builder_;
  const OnnxNode* node_ = nullptr;
  int ops_of_node_ = 0;
  std::map<std::string, Value> values_;
  std::set<std::string> read_;  // names that something reads
  std::set<std::string> op_names_;
  std::set<std::string> param_names_;
  std::map<std::string, Stored> stored_;  // by weight
  std::string batch_symbol_;
  std::int64_t static_batch_ = 0;  // of a file without symbols; 0: not so
  bool has_samples_ = false;
  TensorId first_input_;
};

// Folding: does the node on constants, where it can. fold.cc
bool fold(Importer& importer);

// Makes the node's result from shape arithmetic alone: reshapes by dims. structure.cc
std::optional<Dims> reshaped_dims(const Dims& from, const std::vector<Item>& wanted,
                                  bool zero_copies, std::int64_t static_batch);

}  // namespace graphpipe::onnx_import
