// What an imported ONNX model computes, in ONNX's own shapes.

#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "models/onnx/import.h"

namespace graphpipe {

at::Tensor to_tensor(const OnnxTensor& tensor);

// The outputs, in the order of the model. Inputs by name, as ONNX has them; those that the
// graph holds samples of have them along axis `batch_axes[name]` (not there: 0).
std::vector<at::Tensor> evaluate(
    const ImportedOnnx& imported, const std::map<std::string, at::Tensor>& inputs,
    const std::map<std::string, std::size_t, std::less<>>& batch_axes = {});

}  // namespace graphpipe
