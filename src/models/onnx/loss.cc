// The loss that training asks for, on top of what the file computes.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "models/onnx/importer.h"

namespace graphpipe::onnx_import {

// The labels: an input of the file, or one more.
TensorId Importer::label_input(DType dtype, const Shape& shape) {
  const auto found = values_.find(options_.labels);
  if (found == values_.end()) return builder_.input(options_.labels, dtype, shape);
  const Value& value = found->second;
  if (value.is_constant() || value.dtype != dtype || value.shape() != shape) {
    throw InputError(file_,
                     fmt::format("labels \"{}\" are {} {}, expected {} ({})", options_.labels,
                                 dtype_name(value.dtype), dims_text(value.dims), dtype_name(dtype),
                                 fmt::join(shape, ", ")));
  }
  return value.tensor;
}

TensorId Importer::classes_last(const Value& value) {
  const std::int64_t own = sample_axis(options_.classes_axis, value.dims);
  const TensorId x = materialize(value);
  Shape permutation;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(tensor(x).shape.size()); ++d) {
    if (d != own) permutation.push_back(d);
  }
  permutation.push_back(own);
  return transpose(x, permutation);
}

void Importer::add_label_loss(const Value& value) {
  if (options_.loss == "cross_entropy") {
    const TensorId logits = classes_last(value);
    const Shape shape = tensor(logits).shape;
    const TensorId labels = label_input(DType::kInt64, {shape.begin(), shape.end() - 1});
    builder_.loss(builder_.cross_entropy("loss", logits, labels));
    builder_.metric("accuracy", "mean", builder_.correct("accuracy", logits, labels));
    return;
  }
  const TensorId x = materialize(value);
  const TensorId labels = label_input(tensor(x).dtype, tensor(x).shape);
  if (options_.loss == "mse") {
    const TensorId loss = builder_.mse_loss("loss", x, labels);
    builder_.loss(loss);
    builder_.metric("rmse", "root_mean", loss);
  } else {
    builder_.loss(builder_.binary_cross_entropy("loss", x, labels));
  }
}

void Importer::add_loss(const std::string& of) {
  static constexpr std::string_view kLosses[] = {"cross_entropy", "mse", "binary_cross_entropy",
                                                 "own"};
  if (std::ranges::find(kLosses, options_.loss) == std::end(kLosses)) {
    throw InputError(file_, fmt::format("loss is \"{}\", expected one of {}", options_.loss,
                                        fmt::join(kLosses, ", ")));
  }
  const Value value = values_.at(of);
  if (value.is_constant() || !tensor(value.tensor).batched || !is_floating(value.dtype)) {
    throw InputError(file_, fmt::format("\"{}\" is {} {}, expected a floating tensor with samples "
                                        "to take the loss of",
                                        of, dtype_name(value.dtype), dims_text(value.dims)));
  }
  if (options_.loss != "own") return add_label_loss(value);
  if (element_count(value.shape()) != 1) {
    throw InputError(file_, fmt::format("\"{}\" is {}, expected one number a sample", of,
                                        dims_text(value.dims)));
  }
  builder_.loss(reshape(value.tensor, {}));
}

}  // namespace graphpipe::onnx_import
