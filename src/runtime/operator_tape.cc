#include "runtime/operator_tape.h"

#include <ATen/ops/add.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <ranges>
#include <utility>

namespace graphpipe {

void OperatorTape::accumulate(at::Tensor& sum, const at::Tensor& gradient) {
  sum = sum.defined() ? at::add(sum, gradient) : gradient;
}

std::vector<at::Tensor> OperatorTape::leaves(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& input : inputs) {
    result.push_back(input.detach().set_requires_grad(input.requires_grad()));
  }
  return result;
}

void OperatorTape::add(const std::vector<std::size_t>& input_slots,
                       const std::vector<at::Tensor>& leaves,
                       const std::vector<std::size_t>& output_slots,
                       const std::vector<at::Tensor>& outputs,
                       const std::vector<at::Tensor>& params) {
  Record record;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].requires_grad()) continue;
    record.input_slots.push_back(input_slots[i]);
    record.leaves.push_back(leaves[i]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    record.output_slots.push_back(output_slots[i]);
    record.outputs.push_back(outputs[i]);
  }
  record.params = params;
  if (!record.outputs.empty()) records_.push_back(std::move(record));
}

void OperatorTape::backward_inputs(Gradients& table) {
  for (Record& record : records_ | std::views::reverse) backward_inputs(record, table);
}

void OperatorTape::backward_inputs(Record& record, Gradients& table) const {
  bool any = false;
  for (std::size_t i = 0; i < record.outputs.size(); ++i) {
    record.seeds.push_back(std::exchange(table[record.output_slots[i]], {}));
    any = any || record.seeds.back().defined();
  }
  if (!any) {  // no loss depends on it
    record = {};
    return;
  }
  for (std::size_t i = 0; i < record.outputs.size(); ++i) {
    if (!record.seeds[i].defined()) record.seeds[i] = at::zeros_like(record.outputs[i]);
  }
  if (!record.leaves.empty()) {
    const auto gradients = torch::autograd::grad(record.outputs, record.leaves, record.seeds,
                                                 /*retain_graph=*/!record.params.empty(),
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      // The hooks that make gradients contiguous do not see those that are asked for.
      if (gradients[i].defined()) {
        accumulate(table[record.input_slots[i]], gradients[i].contiguous());
      }
    }
    record.leaves.clear();
  }
  if (record.params.empty()) record = {};
}

void OperatorTape::backward_params() {
  for (const Record& record : records_ | std::views::reverse) {
    if (record.params.empty()) continue;
    const auto gradients =
        torch::autograd::grad(record.outputs, record.params, record.seeds, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      at::Tensor& sum = record.params[i].mutable_grad();
      // The first may be another tensor's memory, the operator's own seed say.
      sum =
          sum.defined() ? sum.add_(gradients[i]) : gradients[i].clone(at::MemoryFormat::Contiguous);
    }
  }
  records_.clear();
}

}  // namespace graphpipe
