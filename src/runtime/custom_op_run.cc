// Users' own operators under autograd: their plain arrays are the tensors' memory.

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "graph/custom_op.h"
#include "runtime/operator_parts.h"

namespace graphpipe {
namespace {

DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kLong:
      return DType::kInt64;
    default:
      return DType::kBool;
  }
}

// Undefined ones are arrays that are not there.
template <typename Result>
std::vector<Result> arrays(const std::vector<at::Tensor>& tensors) {
  std::vector<Result> result;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      result.emplace_back();
      continue;
    }
    GP_CHECK(tensor.is_contiguous(), "a tensor of {} elements with strides", tensor.numel());
    result.push_back({{dtype_of(tensor), tensor.sizes().vec(), tensor.data_ptr()}});
  }
  return result;
}

// What a backward needs beside tensors. The graph and its operators outlive what autograd
// recorded; `context` is read by the forward alone.
struct Call {
  const Graph* graph = nullptr;
  const Operator* op = nullptr;
  std::int64_t samples = 0;
  const OpContext* context = nullptr;

  void save(torch::autograd::AutogradContext& saved) const {
    saved.saved_data["graph"] = reinterpret_cast<std::int64_t>(graph);
    saved.saved_data["op"] = reinterpret_cast<std::int64_t>(op);
    saved.saved_data["samples"] = samples;
  }
  static Call of(torch::autograd::AutogradContext& saved) {
    return {reinterpret_cast<const Graph*>(saved.saved_data["graph"].toInt()),
            reinterpret_cast<const Operator*>(saved.saved_data["op"].toInt()),
            saved.saved_data["samples"].toInt(), nullptr};
  }
};

// Of a tensor of the graph, as it stands in a batch.
std::vector<std::int64_t> sizes_of(const Tensor& tensor, std::int64_t samples) {
  std::vector<std::int64_t> sizes;
  if (tensor.batched) sizes.push_back(samples);
  sizes.insert(sizes.end(), tensor.shape.begin(), tensor.shape.end());
  return sizes;
}

std::vector<at::Tensor> empty_outputs(const Call& call) {
  std::vector<at::Tensor> outputs;
  for (const TensorId id : call.op->outputs) {
    const Tensor& tensor = call.graph->tensor(id);
    outputs.push_back(at::empty(sizes_of(tensor, call.samples), scalar_type(tensor.dtype)));
  }
  return outputs;
}

std::vector<at::Tensor> part(const std::vector<at::Tensor>& all, std::size_t begin,
                             std::size_t count) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

class CustomFunction : public torch::autograd::Function<CustomFunction> {
 public:
  // all: the inputs, then the parameters.
  static std::vector<at::Tensor> forward(torch::autograd::AutogradContext* saved, const Call* call,
                                         at::TensorList all) {
    const CustomOp& own = custom_op(*call->op);
    const std::size_t inputs = call->op->inputs.size();
    std::vector<at::Tensor> contiguous;
    for (const at::Tensor& tensor : all) contiguous.push_back(tensor.contiguous());
    std::vector<at::Tensor> outputs = empty_outputs(*call);
    own.forward({.op = *call->op,
                 .samples = call->samples,
                 .sample_ids = call->context->sample_ids,
                 .training = call->context->training,
                 .seed = call->context->seed,
                 .iteration = call->context->iteration,
                 .inputs = arrays<ConstArray>(part(contiguous, 0, inputs)),
                 .params = arrays<ConstArray>(part(contiguous, inputs, contiguous.size() - inputs)),
                 .outputs = arrays<Array>(outputs)});

    call->save(*saved);
    std::vector<at::Tensor> kept;
    for (std::size_t i = 0; i < contiguous.size(); ++i) {
      kept.push_back(i >= inputs || own.keeps_inputs ? contiguous[i] : at::Tensor());
    }
    for (const at::Tensor& output : outputs) {
      kept.push_back(own.keeps_outputs ? output : at::Tensor());
    }
    std::vector<at::Tensor> without_gradient;
    for (const at::Tensor& output : outputs) {
      if (!output.is_floating_point() || !own.backward) without_gradient.push_back(output);
    }
    saved->mark_non_differentiable(without_gradient);
    if (own.backward) saved->save_for_backward(std::move(kept));
    return outputs;
  }

  static std::vector<at::Tensor> backward(torch::autograd::AutogradContext* saved,
                                          const std::vector<at::Tensor>& gradients) {
    const Call call = Call::of(*saved);
    const CustomOp& own = custom_op(*call.op);
    const std::size_t inputs = call.op->inputs.size(), params = call.op->params.size();
    const std::vector<at::Tensor> kept = saved->get_saved_variables();
    std::vector<at::Tensor> output_gradients;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const bool floating =
          is_floating(call.graph->tensor(call.op->outputs[i]).dtype) && gradients[i].defined();
      output_gradients.push_back(floating ? gradients[i].contiguous() : at::Tensor());
    }
    std::vector<at::Tensor> results;
    for (std::size_t i = 0; i < inputs + params; ++i) {
      results.push_back(saved->needs_input_grad(i) ? zeros_for(call, i) : at::Tensor());
    }
    own.backward({.op = *call.op,
                  .samples = call.samples,
                  .inputs = arrays<ConstArray>(part(kept, 0, inputs)),
                  .outputs = arrays<ConstArray>(part(kept, inputs + params, gradients.size())),
                  .params = arrays<ConstArray>(part(kept, inputs, params)),
                  .output_gradients = arrays<ConstArray>(output_gradients),
                  .input_gradients = arrays<Array>(part(results, 0, inputs)),
                  .param_gradients = arrays<Array>(part(results, inputs, params))});
    results.insert(results.begin(), at::Tensor());  // of the call
    return results;
  }

 private:
  // i: of the inputs, then the parameters.
  static at::Tensor zeros_for(const Call& call, std::size_t i) {
    const std::size_t inputs = call.op->inputs.size();
    if (i < inputs) {
      const Tensor& tensor = call.graph->tensor(call.op->inputs[i]);
      return at::zeros(sizes_of(tensor, call.samples), scalar_type(tensor.dtype));
    }
    const Parameter& param = call.graph->param(call.op->params[i - inputs]);
    return at::zeros(param.shape, scalar_type(param.dtype));
  }
};

}  // namespace

std::vector<at::Tensor> run_custom_op(const Graph& graph, const Operator& op,
                                      const std::vector<at::Tensor>& inputs,
                                      const std::vector<at::Tensor>& params,
                                      const OpContext& context) {
  std::vector<at::Tensor> all = inputs;
  all.insert(all.end(), params.begin(), params.end());
  const Call call{&graph, &op, static_cast<std::int64_t>(context.sample_ids.size()), &context};
  return CustomFunction::apply(&call, at::TensorList(all));
}

}  // namespace graphpipe
