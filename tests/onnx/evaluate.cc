#include "onnx/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <numeric>

#include "runtime/operators.h"
#include "runtime/parameters.h"
#include "runtime/reference.h"

namespace graphpipe {
namespace {

// Samples come first in ours; folded into an axis of ONNX's, they are its slower part.
at::Tensor in_onnx_shape(const OnnxOutput& output, at::Tensor y, bool batched,
                         std::int64_t samples) {
  if (!output.batch_axis) return batched ? y.select(0, 0) : y;
  if (!batched) {
    std::vector<std::int64_t> sizes = y.sizes().vec();
    sizes.insert(sizes.begin(), samples);
    y = y.unsqueeze(0).expand(sizes);
  }
  std::vector<std::int64_t> shape = output.shape;
  shape[*output.batch_axis] *= samples;
  return y.movedim(0, output.axes_before).reshape(shape);
}

}  // namespace

at::Tensor to_tensor(const OnnxTensor& tensor) {
  at::Tensor values = at::empty(tensor.shape, scalar_type(tensor.dtype));
  std::memcpy(values.data_ptr(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::vector<at::Tensor> evaluate(
    const ImportedOnnx& imported, const std::map<std::string, at::Tensor>& inputs,
    const std::map<std::string, std::size_t, std::less<>>& batch_axes) {
  const at::NoGradGuard no_gradients;
  const Graph& graph = imported.graph;
  std::vector<at::Tensor> params;
  for (const Parameter& param : graph.params) params.push_back(make_parameter(param, 1));
  std::vector<at::Tensor> tensors(graph.tensors.size());
  std::int64_t samples = 1;
  for (const TensorId id : graph.inputs) {
    const std::string& name = graph.tensor(id).name;
    at::Tensor values = inputs.at(name);
    if (graph.tensor(id).batched) {
      const auto axis = batch_axes.find(name);
      if (axis != batch_axes.end())
        values = values.movedim(static_cast<std::int64_t>(axis->second), 0);
      samples = values.size(0);
    }
    tensors[id.index()] = values.contiguous();
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(samples));
  std::iota(ids.begin(), ids.end(), 0);
  run_operators(graph, params, {.training = false, .sample_ids = ids}, tensors);
  std::vector<at::Tensor> outputs;
  for (const OnnxOutput& output : imported.outputs) {
    const bool computed = output.tensor.valid();
    outputs.push_back(in_onnx_shape(
        output, computed ? tensors[output.tensor.index()] : to_tensor(output.constant),
        computed && graph.tensor(output.tensor).batched, samples));
  }
  return outputs;
}

}  // namespace graphpipe
