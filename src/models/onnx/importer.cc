#include "models/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace graphpipe::onnx_import {
namespace {

// Names by which exporters call the samples' dimension, in order of preference.
constexpr std::string_view kBatchNames[] = {"batch_size", "batch", "N", "n", "B", "b"};

const Registered* find_registered(const OnnxNode& node) {
  const auto& all = registered_operators();
  const auto found =
      std::ranges::lower_bound(all, std::string_view(node.type), {}, &Registered::type);
  const bool known = node.domain.empty() && found != all.end() && found->type == node.type;
  return known ? &*found : nullptr;
}

// A file may leave a dimension without a name; those are all the samples'.
constexpr std::string_view kUnnamed = "?";
std::string symbol_of(const OnnxDim& dim) {
  return dim.symbol.empty() ? std::string(kUnnamed) : dim.symbol;
}

}  // namespace

Importer::Importer(const OnnxModel& model, const OnnxOptions& options, std::string file)
    : model_(model),
      options_(options),
      file_(std::move(file)),
      builder_(model.name.empty() ? "onnx" : model.name) {
  read_.insert(options.of);
  for (const OnnxNode& node : model.nodes) read_.insert(node.inputs.begin(), node.inputs.end());
  for (const OnnxValue& output : model.outputs) read_.insert(output.name);
}

// --- the whole

ImportedOnnx Importer::run() {
  const std::set<std::string> results = result_names();
  const std::vector<bool> wanted = wanted_nodes(results);
  list_unsupported(wanted);
  find_batch();
  for (const OnnxTensor& tensor : model_.initializers) {
    Value value;
    value.dtype = tensor.dtype;
    value.dims = plain_dims(tensor.shape);
    value.bytes = std::make_shared<const std::string>(tensor.bytes);
    value.weight = tensor.name;
    values_[tensor.name] = std::move(value);
  }
  for (const OnnxValue& input : model_.inputs) add_input(input);
  for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
    if (wanted[i]) run_node(model_.nodes[i]);
  }
  node_ = nullptr;
  ImportedOnnx imported;
  for (const std::string& name : results) {
    if (!values_.contains(name)) {
      throw InputError(file_, fmt::format("nothing makes \"{}\", which is asked for", name));
    }
  }
  if (options_.loss.empty()) {
    for (const OnnxValue& output : model_.outputs) {
      imported.outputs.push_back(output_of(output.name));
    }
  } else {
    add_loss(*results.begin());
  }
  if (builder_.graph().ops.empty() && !options_.loss.empty()) {
    throw InputError(file_, "has no operator that depends on an input");
  }
  if (builder_.graph().ops.empty()) {
    imported.graph = builder_.graph();
  } else {
    imported.graph = std::move(builder_).build();
  }
  return imported;
}

// With a loss only what it depends on is kept.
std::set<std::string> Importer::result_names() const {
  if (!options_.of.empty()) return {options_.of};
  std::set<std::string> names;
  std::string text;
  for (const OnnxValue& output : model_.outputs) {
    names.insert(output.name);
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", output.name);
  }
  if (!options_.loss.empty() && names.size() != 1) {
    throw InputError(file_, fmt::format("has the outputs {}; say with of=NAME which of them, or "
                                        "which other tensor, the loss is of",
                                        text));
  }
  return names;
}

std::vector<bool> Importer::wanted_nodes(const std::set<std::string>& results) const {
  std::set<std::string> needed = results;
  std::vector<bool> wanted(model_.nodes.size(), false);
  for (std::size_t i = model_.nodes.size(); i-- > 0;) {
    const OnnxNode& node = model_.nodes[i];
    wanted[i] = std::ranges::any_of(
        node.outputs, [&](const std::string& o) { return !o.empty() && needed.contains(o); });
    if (wanted[i]) needed.insert(node.inputs.begin(), node.inputs.end());
  }
  return wanted;
}

void Importer::list_unsupported(const std::vector<bool>& wanted) const {
  std::map<std::string, int> counts;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const OnnxNode& node = model_.nodes[i];
    if (!wanted[i] || find_registered(node) != nullptr) continue;
    ++counts[node.domain.empty() ? node.type : node.domain + "." + node.type];
  }
  if (counts.empty()) return;
  std::vector<std::string> texts;
  for (const auto& [type, count] : counts) texts.push_back(fmt::format("{} ({})", type, count));
  throw InputError(file_, fmt::format("has operators that are not supported: {}; "
                                      "docs/onnx.md has the list of those that are",
                                      fmt::join(texts, ", ")));
}

void Importer::find_batch() {
  if (options_.batched_inputs) {
    has_samples_ = !options_.batched_inputs->empty();
    return;
  }
  if (options_.batch == "none") return;
  std::vector<std::string> symbols;  // in order of their appearance
  for (const OnnxValue& input : model_.inputs) {
    for (const OnnxDim& dim : input.dims) {
      if (dim.size >= 0 || options_.sizes.contains(symbol_of(dim))) continue;
      if (std::ranges::find(symbols, symbol_of(dim)) == symbols.end()) {
        symbols.push_back(symbol_of(dim));
      }
    }
  }
  has_samples_ = !model_.inputs.empty();
  if (!options_.batch.empty()) {
    batch_symbol_ = options_.batch;
  } else if (symbols.size() == 1) {
    batch_symbol_ = symbols.front();
  } else if (symbols.size() > 1) {
    for (const std::string_view name : kBatchNames) {
      if (batch_symbol_.empty() && std::ranges::find(symbols, name) != symbols.end()) {
        batch_symbol_ = name;
      }
    }
    const auto& first = model_.inputs.front().dims;
    if (batch_symbol_.empty() && !first.empty() && first.front().size < 0) {
      batch_symbol_ = symbol_of(first.front());
    }
  }
  if (!batch_symbol_.empty()) {
    if (std::ranges::find(symbols, batch_symbol_) != symbols.end()) return;
    throw InputError(file_, fmt::format("no input has a dimension \"{}\"; {}", batch_symbol_,
                                        symbols.empty() ? "all have fixed sizes"
                                                        : fmt::format("expected one of {}",
                                                                      fmt::join(symbols, ", "))));
  }
  if (!symbols.empty()) {
    throw InputError(file_, fmt::format("of the dimensions {}, say with batch=NAME which holds "
                                        "the samples, and with NAME=SIZE how large the others are",
                                        fmt::join(symbols, ", ")));
  }
  for (const OnnxValue& input : model_.inputs) {
    const bool fits =
        !input.dims.empty() && (static_batch_ == 0 || input.dims.front().size == static_batch_);
    if (fits) static_batch_ = input.dims.front().size;
    if (!fits) has_samples_ = false;
  }
  if (!has_samples_) static_batch_ = 0;
}

Dims Importer::input_dims(const OnnxValue& input) const {
  const std::string where = fmt::format("{}: input \"{}\"", file_, input.name);
  if (!input.has_shape) throw InputError(where, "has no shape, expected one");
  Dims dims;
  for (std::size_t i = 0; i < input.dims.size(); ++i) {
    const OnnxDim& dim = input.dims[i];
    const auto size = options_.sizes.find(symbol_of(dim));
    if (options_.batched_inputs) {
      dims.push_back({dim.size, false});
      const auto axis = options_.batched_inputs->find(input.name);
      if (axis != options_.batched_inputs->end() && axis->second == i) dims.back() = {1, true};
    } else if (dim.size >= 0) {
      dims.push_back({dim.size, false});
      if (i == 0 && static_batch_ > 0) dims.back() = {1, true};
    } else if (symbol_of(dim) == batch_symbol_) {
      dims.push_back({1, true});
    } else if (size != options_.sizes.end()) {
      dims.push_back({size->second, false});
    } else {
      throw InputError(where, fmt::format("has a dimension \"{0}\"; say with {0}=SIZE how large it "
                                          "is, or with batch={0} that it holds the samples",
                                          symbol_of(dim)));
    }
  }
  if (std::ranges::count(dims, true, &Dim::batch) > 1) {
    throw InputError(where, fmt::format("has the samples' dimension twice: {}", dims_text(dims)));
  }
  return dims;
}

void Importer::add_input(const OnnxValue& input) {
  const std::string where = fmt::format("{}: input \"{}\"", file_, input.name);
  const auto fixed = options_.constants.find(input.name);
  if (fixed != options_.constants.end()) {
    Value value;
    value.dtype = fixed->second.dtype;
    value.dims = plain_dims(fixed->second.shape);
    value.bytes = std::make_shared<const std::string>(fixed->second.bytes);
    value.weight = input.name;
    values_[input.name] = std::move(value);
    return;
  }
  if (!input.other_type.empty()) {
    throw InputError(
        where, fmt::format("is {}, expected float32, float64, int64 or bool", input.other_type));
  }
  const Dims dims = input_dims(input);
  const bool batched = batch_axis(dims).has_value();
  Value value;
  value.dtype = input.dtype;
  value.dims = dims;
  value.tensor = builder_.input(input.name, input.dtype, value.shape(), batched);
  const bool better = batched && first_input_.valid() && !tensor(first_input_).batched;
  if (!first_input_.valid() || better) first_input_ = value.tensor;
  values_[input.name] = std::move(value);
}

void Importer::run_node(const OnnxNode& node) {
  node_ = &node;
  ops_of_node_ = 0;
  for (const std::string& input : node.inputs) {
    if (input.empty() || values_.contains(input)) continue;
    fail(fmt::format("reads \"{}\", which no input, weight or node before it makes", input));
  }
  try {
    if (!fold(*this)) find_registered(node)->handler(*this);
  } catch (const NeedsConstant&) {
    throw;
  } catch (const InputError& error) {
    if (error.where() == place()) throw;
    throw InputError(place(), error.message());
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!wants_output(i) || values_.contains(node.outputs[i])) continue;
    fail(fmt::format("its output {} is not supported", i));
  }
}

OnnxOutput Importer::output_of(const std::string& name) const {
  const Value& value = values_.at(name);
  OnnxOutput output;
  output.name = name;
  output.dtype = value.dtype;
  for (const Dim& dim : value.dims) output.shape.push_back(dim.total());
  output.batch_axis = batch_axis(value.dims);
  if (output.batch_axis) {
    output.axes_before = axes_before(value.dims, *output.batch_axis) +
                         static_cast<std::int64_t>(value.dims[*output.batch_axis].outer > 1);
  }
  if (!value.is_constant()) {
    output.tensor = value.tensor;
    return output;
  }
  if (depends_on_samples(value)) {
    throw InputError(file_,
                     fmt::format("output \"{}\" depends on the number of samples alone", name));
  }
  output.constant = {name, value.dtype, value.shape(), *bytes_of(value)};
  return output;
}

// --- the node at hand

std::string Importer::place() const {
  if (node_ == nullptr) return file_;
  const std::string name =
      node_->name.empty() && !node_->outputs.empty() ? node_->outputs.front() : node_->name;
  return fmt::format("{}: node \"{}\" ({})", file_, name, node_->type);
}

void Importer::fail(const std::string& what) const { throw InputError(place(), what); }

bool Importer::has_input(std::size_t i) const {
  return i < node_->inputs.size() && !node_->inputs[i].empty();
}

const Value& Importer::in(std::size_t i) const {
  if (!has_input(i)) fail(fmt::format("has no input {}, expected one", i));
  return values_.at(node_->inputs[i]);
}

bool Importer::wants_output(std::size_t i) const {
  if (i >= node_->outputs.size() || node_->outputs[i].empty()) return false;
  return read_.contains(node_->outputs[i]);
}

const OnnxAttribute* Importer::attribute(std::string_view name) const {
  const auto found = node_->attributes.find(name);
  return found == node_->attributes.end() ? nullptr : &found->second;
}

std::int64_t Importer::integer(std::string_view name, std::int64_t otherwise) const {
  const OnnxAttribute* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (const auto* value = std::get_if<std::int64_t>(found)) return *value;
  fail(fmt::format("attribute {} is not a whole number", name));
}

double Importer::number(std::string_view name, double otherwise) const {
  const OnnxAttribute* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (const auto* value = std::get_if<double>(found)) return *value;
  fail(fmt::format("attribute {} is not a number", name));
}

std::string Importer::text(std::string_view name, std::string_view otherwise) const {
  const OnnxAttribute* found = attribute(name);
  if (found == nullptr) return std::string(otherwise);
  if (const auto* value = std::get_if<std::string>(found)) return *value;
  fail(fmt::format("attribute {} is not a string", name));
}

std::optional<Shape> Importer::list(std::string_view name) const {
  const OnnxAttribute* found = attribute(name);
  if (found == nullptr) return std::nullopt;
  if (const auto* value = std::get_if<Shape>(found)) return *value;
  fail(fmt::format("attribute {} is not a list of whole numbers", name));
}

std::size_t Importer::axis_of(std::int64_t axis, const Dims& dims) const {
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < -rank || axis >= rank) {
    fail(fmt::format("axis {} is not one of {}", axis, dims_text(dims)));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

std::int64_t Importer::sample_axis(std::int64_t axis, const Dims& dims) const {
  const std::size_t at = axis_of(axis, dims);
  if (dims[at].batch) {
    fail(fmt::format("works along axis {} of {}, which holds the samples: it would mix them", axis,
                     dims_text(dims)));
  }
  return axes_before(dims, at);
}

void Importer::out(std::size_t i, Value value) {
  if (i >= node_->outputs.size() || node_->outputs[i].empty()) return;
  const std::string& name = node_->outputs[i];
  if (!values_.emplace(name, std::move(value)).second) {
    fail(fmt::format("makes \"{}\" a second time", name));
  }
}

// --- constants

const Value& Importer::constant(std::size_t i) const {
  const Value& value = in(i);
  if (value.is_constant()) return value;
  const std::string& name = node_->inputs[i];
  throw NeedsConstant(place(),
                      fmt::format("input {} \"{}\" is computed from the model's inputs, expected a "
                                  "constant",
                                  i, name),
                      name);
}

std::vector<Item> Importer::items(std::size_t i) const {
  const auto items = items_of(constant(i));
  if (!items) fail(fmt::format("input {} has more elements than are expected there", i));
  return items->items;
}

Shape Importer::integers(std::size_t i) const {
  Shape result;
  for (const Item& item : items(i)) {
    if (item.batch) fail(fmt::format("input {} depends on the number of samples", i));
    constexpr double kMost = 9e18;
    result.push_back(static_cast<std::int64_t>(std::clamp(item.number, -kMost, kMost)));
  }
  return result;
}

double Importer::scalar(std::size_t i) const {
  const std::vector<Item> found = items(i);
  if (found.size() != 1 || found[0].batch) fail(fmt::format("input {} is not one number", i));
  return found[0].number;
}

bool Importer::folds(const Value& value) const {
  if (!value.is_constant()) return false;
  if (!value.items && element_count(value.shape()) > kMostItems) return false;
  return value.weight.empty() || !is_floating(value.dtype) || value.dims.empty();
}

// --- our graph

std::string Importer::name_op() {
  const std::string base = node_ == nullptr       ? "loss"
                           : !node_->name.empty() ? node_->name
                           : !node_->outputs.empty() && !node_->outputs[0].empty()
                               ? node_->outputs[0]
                               : node_->type;
  std::string name = base;
  if (ops_of_node_++ > 0) name = fmt::format("{}.{}", base, ops_of_node_);
  for (int i = 1; !op_names_.insert(name).second; ++i) name = fmt::format("{}#{}", base, i);
  return name;
}

std::vector<TensorId> Importer::ops(OpKind kind, std::vector<TensorId> inputs,
                                    std::vector<ParamId> params,
                                    std::vector<std::pair<std::string, Attribute>> attributes,
                                    std::size_t outputs) {
  const std::string name = name_op();
  // A tensor of the graph may bear the operator's name already: an input.
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs; ++i) {
    names.push_back(outputs == 1 ? name + ":0" : fmt::format("{}:{}", name, i));
  }
  return builder_.add_op(name, kind, std::move(inputs), std::move(params), std::move(attributes),
                         names);
}

TensorId Importer::op(OpKind kind, std::vector<TensorId> inputs, std::vector<ParamId> params,
                      std::vector<std::pair<std::string, Attribute>> attributes) {
  return ops(kind, std::move(inputs), std::move(params), std::move(attributes), 1).front();
}

std::string Importer::unique_param_name(const std::string& wanted) {
  std::string base = wanted;
  if (base.empty()) {
    base = (node_ == nullptr || node_->outputs.empty() ? "loss" : node_->outputs.front()) +
           ".constant";
  }
  std::string name = base;
  for (int i = 1; !param_names_.insert(name).second; ++i) name = fmt::format("{}.{}", base, i);
  return name;
}

ParamId Importer::param(const Value& value, const Shape& shape, bool train) {
  if (depends_on_samples(value)) fail("needs a tensor that depends on the number of samples");
  const bool trained = train && !value.weight.empty() && is_floating(value.dtype) &&
                       !options_.frozen.contains(value.weight);
  const auto held = stored_.find(value.weight);
  if (!value.weight.empty() && held != stored_.end()) {
    const bool same = held->second.shape == shape && held->second.transposed == value.transposed;
    const bool was_trained = builder_.graph().param(held->second.param).trainable;
    if (same && was_trained == trained) return held->second.param;
    if (same && was_trained) return held->second.param;  // read elsewhere, trained where it counts
    if (trained && was_trained) {
      fail(
          fmt::format("takes weight \"{}\" in a form other than the operators before it; name it "
                      "with frozen={} to have it as a constant",
                      value.weight, value.weight));
    }
  }
  const auto bytes = bytes_of(value);
  const std::string name = unique_param_name(value.weight);
  const ParamId id = builder_.given(name, value.dtype, shape, bytes, trained);
  if (!value.weight.empty() && held == stored_.end()) {
    stored_[value.weight] = {id, shape, value.transposed};
  }
  return id;
}

std::string Importer::fresh_copy(const std::string& weight) const {
  std::string suffix;
  for (int i = 1; stored_.contains(weight + suffix); ++i) suffix = fmt::format(".{}", i);
  return suffix;
}

TensorId Importer::carrier() const {
  if (!first_input_.valid()) fail("depends on no input of the model");
  return first_input_;
}

TensorId Importer::materialize(const Value& value, bool train, bool samples) {
  const auto identity = [&](std::vector<TensorId> inputs, std::vector<ParamId> params,
                            std::int64_t operand) {
    return op(OpKind::kElementwise, std::move(inputs), std::move(params),
              {{"alpha", 0.0},
               {"beta", 0.0},
               {"function", std::string("identity")},
               {"operands", Shape{operand}}});
  };
  if (value.is_constant()) {
    const bool weight = train && value.dims.size() >= 2;
    return identity({carrier()}, {param(value, value.shape(), weight)}, -1);
  }
  if (samples && !tensor(value.tensor).batched && tensor(carrier()).batched) {
    return identity({value.tensor, carrier()}, {}, 0);
  }
  return value.tensor;
}

TensorId Importer::gather_params(const std::vector<ParamId>& params, std::int64_t axis,
                                 const char* mode) {
  return op(OpKind::kGather, {carrier()}, params,
            {{"axis", axis}, {"mode", std::string(mode)}, {"operands", Shape{-1, -2}}});
}

Value Importer::value_of(TensorId id, Dims dims) const {
  Value value;
  value.dtype = tensor(id).dtype;
  value.dims = std::move(dims);
  value.tensor = id;
  GP_CHECK(tensor(id).shape == value.shape(), "{}: {} and {}", place(),
           fmt::join(tensor(id).shape, ","), dims_text(value.dims));
  return value;
}

}  // namespace graphpipe::onnx_import

namespace graphpipe {

ImportedOnnx import_onnx(const OnnxModel& model, const OnnxOptions& options,
                         const std::string& file) {
  return onnx_import::Importer(model, options, file).run();
}

std::vector<std::string> supported_onnx_operators() {
  std::vector<std::string> names;
  for (const auto& one : onnx_import::registered_operators()) names.emplace_back(one.type);
  return names;
}

}  // namespace graphpipe
