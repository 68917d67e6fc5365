#include "runtime/stage_runner.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/gradient_watch.h"

namespace graphpipe {
namespace {

std::size_t position(const std::vector<TensorId>& tensors, TensorId tensor) {
  const auto at = std::ranges::find(tensors, tensor);
  GP_CHECK(at != tensors.end(), "tensor {} is not of the stage", tensor.value);
  return static_cast<std::size_t>(at - tensors.begin());
}

// In a const map or another.
template <typename Tasks>
auto& find_task(Tasks& tasks, SampleRange samples) {
  const auto at = tasks.find(samples);
  GP_CHECK(at != tasks.end(), "samples [{},{}) have not run forward", samples.lo, samples.hi);
  return at->second;
}

at::Tensor sum_in_order(const std::vector<at::Tensor>& parts) {
  if (parts.size() == 1) return parts.front();
  at::Tensor sum = at::add(parts[0], parts[1]);
  for (std::size_t i = 2; i < parts.size(); ++i) sum.add_(parts[i]);
  return sum;
}

}  // namespace

StageRunner::StageRunner(const Graph& graph, const Plan& plan, StageId stage,
                         const std::vector<at::Tensor>& params, bool in_halves)
    : StageWork(graph, plan, stage), graph_(graph), in_halves_(in_halves) {
  const std::vector<bool> needs = needs_gradient(graph);
  const std::vector<OpId>& ops = plan.stage(stage).ops;
  for (const StageInput& input : inputs()) slots_.push_back(input.tensor);
  for (const OpId op : ops) {
    const std::vector<TensorId>& made = graph.op(op).outputs;
    slots_.insert(slots_.end(), made.begin(), made.end());
  }
  find_losses();
  for (const StageOutput& output : outputs()) {
    output_slots_.push_back(position(slots_, output.tensor));
  }
  for (const TensorId tensor : watched()) watched_slots_.push_back(position(slots_, tensor));
  make_steps(ops, needs, params);
}

void StageRunner::find_losses() {
  for (const Loss& loss : graph_.losses) {
    const auto at = std::ranges::find(watched(), loss.tensor);
    if (at == watched().end()) continue;
    losses_.push_back({static_cast<std::size_t>(at - watched().begin()), loss});
  }
}

void StageRunner::make_steps(const std::vector<OpId>& ops, const std::vector<bool>& needs,
                             const std::vector<at::Tensor>& params) {
  std::vector<std::size_t> last_use(slots_.size(), 0);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Step step;
    step.id = ops[i];
    step.op = &graph_.op(ops[i]);
    for (const TensorId tensor : step.op->inputs) {
      step.inputs.push_back(position(slots_, tensor));
      last_use[step.inputs.back()] = i;
    }
    for (const TensorId tensor : step.op->outputs) {
      step.outputs.push_back(position(slots_, tensor));
      last_use[step.outputs.back()] = i;
      step.recorded = step.recorded || needs[tensor.index()];
    }
    steps_.push_back(std::move(step));
  }
  use_params(params);
  const auto kept = [&](std::size_t slot) {
    return std::ranges::find(output_slots_, slot) != output_slots_.end() ||
           std::ranges::find(watched_slots_, slot) != watched_slots_.end();
  };
  for (std::size_t slot = 0; slot < slots_.size() && !steps_.empty(); ++slot) {
    if (!kept(slot)) steps_[last_use[slot]].last_uses.push_back(slot);
  }
}

void StageRunner::use_params(const std::vector<at::Tensor>& params) {
  for (Step& step : steps_) {
    step.params.clear();
    step.trained.clear();
    for (const ParamId param : step.op->params) {
      GP_CHECK(params[param.index()].defined(), "parameter {} is not on this rank", param.value);
      step.params.push_back(params[param.index()]);
      if (graph_.param(param).trainable) step.trained.push_back(params[param.index()]);
    }
  }
}

void StageRunner::forward(SampleRange samples, std::vector<at::Tensor> values,
                          const OpContext& context, Keep keep) {
  GP_CHECK(values.size() == inputs().size(), "{} inputs, expected {}", values.size(),
           inputs().size());
  const auto [at, is_new] = tasks_.try_emplace(samples);
  GP_CHECK(is_new, "samples [{},{}) run forward twice", samples.lo, samples.hi);
  Task& task = at->second;
  task.inputs = std::move(values);
  run_operators(task, context, context.training && keep == Keep::kAll);
  if (keep == Keep::kInputs) return;
  for (at::Tensor& input : task.inputs) {
    if (!input.requires_grad()) input.reset();
  }
}

void StageRunner::recompute(SampleRange samples, const OpContext& context) {
  Task& task = find_task(tasks_, samples);
  GP_CHECK(task.inputs.size() == inputs().size(), "samples [{},{}) kept no inputs", samples.lo,
           samples.hi);
  drop_results(samples);
  run_operators(task, context, context.training);
}

void StageRunner::drop_results(SampleRange samples) {
  Task& task = find_task(tasks_, samples);
  task.outputs.clear();
  task.watched.clear();
}

// `recorded`: for a backward. Inputs with a gradient become leaves.
void StageRunner::run_operators(Task& task, const OpContext& context, bool recorded) {
  std::vector<at::Tensor> table = task.inputs;
  for (std::size_t i = 0; i < inputs().size(); ++i) {
    if (recorded && inputs()[i].gradient) table[i].set_requires_grad(true);
  }
  table.resize(slots_.size());
  std::vector<at::Tensor> inputs;
  for (const Step& step : steps_) {
    inputs.clear();
    for (const std::size_t slot : step.inputs) inputs.push_back(table[slot]);
    std::vector<at::Tensor> outputs =
        run_operator(step, inputs, task, context, recorded && step.recorded);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      table[step.outputs[i]] = std::move(outputs[i]);
    }
    inputs.clear();
    for (const std::size_t slot : step.last_uses) table[slot].reset();
  }
  for (const std::size_t slot : output_slots_) task.outputs.push_back(table[slot]);
  for (const std::size_t slot : watched_slots_) task.watched.push_back(table[slot]);
}

std::vector<at::Tensor> StageRunner::run_operator(const Step& step,
                                                  const std::vector<at::Tensor>& inputs, Task& task,
                                                  const OpContext& context, bool recorded) {
  const at::AutoGradMode mode(recorded);
  if (!recorded || !in_halves_) {
    return forward_op(graph_, *step.op, inputs, step.params, context);
  }
  const std::vector<at::Tensor> leaves = OperatorTape::leaves(inputs);
  std::vector<at::Tensor> outputs = forward_op(graph_, *step.op, leaves, step.params, context);
  task.tape.add(step.inputs, leaves, step.outputs, outputs, step.trained);
  return outputs;
}

// What a sample's value of the loss counts in the model's loss.
at::Tensor StageRunner::loss_seed(const StageLoss& loss, const at::Tensor& values,
                                  std::int64_t mini_batch_samples) const {
  double seed = loss.loss.weight;
  switch (loss.loss.normaliser) {
    case Normaliser::kMeanOverSamples:
      seed /= static_cast<double>(mini_batch_samples);
      break;
    case Normaliser::kSum:
      break;
  }
  return at::full(values.sizes(), seed, values.options().requires_grad(false));
}

void StageRunner::backward_input(SampleRange samples,
                                 const std::vector<std::vector<at::Tensor>>& gradients,
                                 std::int64_t mini_batch_samples) {
  Task& task = find_task(tasks_, samples);
  OperatorTape::Gradients table(slots_.size());
  for (std::size_t i = 0; i < outputs().size(); ++i) {
    if (!gradients[i].empty()) table[output_slots_[i]] = sum_in_order(gradients[i]);
  }
  for (const StageLoss& loss : losses_) {
    OperatorTape::accumulate(table[watched_slots_[loss.watched]],
                             loss_seed(loss, task.watched[loss.watched], mini_batch_samples));
  }
  task.tape.backward_inputs(table);
  table.resize(inputs().size());
  task.input_gradients = std::move(table);
  task.inputs.clear();
  drop_results(samples);
}

void StageRunner::backward_weight(SampleRange samples) {
  find_task(tasks_, samples).tape.backward_params();
}

void StageRunner::backward(SampleRange samples,
                           const std::vector<std::vector<at::Tensor>>& gradients,
                           std::int64_t mini_batch_samples,
                           const std::vector<BackwardPoint>& points) {
  Task& task = find_task(tasks_, samples);
  std::vector<GradientWatch::Point> watched;
  for (const BackwardPoint& point : points) {
    watched.push_back({completed_params(point.after), point.reached});
  }
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> seeds;
  for (std::size_t i = 0; i < outputs().size(); ++i) {
    if (gradients[i].empty()) continue;  // no consumer answers
    roots.push_back(task.outputs[i]);
    seeds.push_back(sum_in_order(gradients[i]));
  }
  for (const StageLoss& loss : losses_) {
    const at::Tensor& values = task.watched[loss.watched];
    if (!values.requires_grad()) continue;
    roots.push_back(values);
    seeds.push_back(loss_seed(loss, values, mini_batch_samples));
  }
  GradientWatch watch(std::move(watched));
  if (!roots.empty()) torch::autograd::backward(roots, seeds);
  // What was recorded has been used; only the gradients of the inputs are asked for now.
  for (const at::Tensor& input : task.inputs) {
    task.input_gradients.push_back(input.defined() ? input.grad() : at::Tensor());
  }
  task.inputs.clear();
  drop_results(samples);
  watch.finish();
}

// Trained parameters that this operator or later ones read, and none before.
std::vector<at::Tensor> StageRunner::completed_params(OpId after) const {
  std::vector<at::Tensor> before;
  std::vector<at::Tensor> params;
  const auto has = [](const std::vector<at::Tensor>& list, const at::Tensor& param) {
    return std::ranges::any_of(list, [&](const at::Tensor& one) { return one.is_same(param); });
  };
  for (const Step& step : steps_) {  // ascending
    if (!step.recorded) continue;
    std::vector<at::Tensor>& list = step.id < after ? before : params;
    for (const at::Tensor& param : step.trained) {
      if (!has(before, param) && !has(params, param)) list.push_back(param);
    }
  }
  return params;
}

const at::Tensor& StageRunner::output(SampleRange samples, TensorId tensor) const {
  const Task& task = find_task(tasks_, samples);
  GP_CHECK(task.outputs.size() == outputs().size(), "the results of samples [{},{}) are gone",
           samples.lo, samples.hi);
  for (std::size_t i = 0; i < outputs().size(); ++i) {
    if (outputs()[i].tensor == tensor) return task.outputs[i];
  }
  GP_CHECK(false, "tensor {} does not leave the stage", tensor.value);
}

const at::Tensor& StageRunner::watched_value(SampleRange samples, std::size_t i) const {
  return find_task(tasks_, samples).watched[i];
}

at::Tensor StageRunner::input_gradient(SampleRange samples, TensorId tensor) const {
  const Task& task = find_task(tasks_, samples);
  for (std::size_t i = 0; i < inputs().size(); ++i) {
    if (inputs()[i].tensor != tensor) continue;
    return task.input_gradients[i];
  }
  GP_CHECK(false, "tensor {} does not enter the stage", tensor.value);
}

void StageRunner::free(SampleRange samples) {
  const auto erased = tasks_.erase(samples);
  GP_CHECK(erased == 1, "samples [{},{}) have no value to be freed", samples.lo, samples.hi);
}

}  // namespace graphpipe
