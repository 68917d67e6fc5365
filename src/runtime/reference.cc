#include "runtime/reference.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "runtime/batch_reader.h"
#include "runtime/operators.h"
#include "runtime/optimizer.h"
#include "runtime/parameters.h"

namespace graphpipe {
namespace {

std::vector<at::Tensor> make_parameters(const Graph& graph, std::uint64_t seed) {
  std::vector<at::Tensor> params;
  for (const Parameter& parameter : graph.params) {
    params.push_back(make_parameter(parameter, seed));
  }
  return params;
}

std::vector<at::Tensor> trainable(const std::vector<at::Tensor>& params) {
  std::vector<at::Tensor> result;
  std::ranges::copy_if(params, std::back_inserter(result),
                       [](const at::Tensor& param) { return param.requires_grad(); });
  return result;
}

}  // namespace

void run_operators(const Graph& graph, const std::vector<at::Tensor>& params,
                   const OpContext& context, std::vector<at::Tensor>& tensors) {
  for (const Operator& op : graph.ops) {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> op_params;
    for (const TensorId input : op.inputs) inputs.push_back(tensors[input.index()]);
    for (const ParamId param : op.params) op_params.push_back(params[param.index()]);
    const std::vector<at::Tensor> outputs = forward_op(graph, op, inputs, op_params, context);
    for (std::size_t i = 0; i < outputs.size(); ++i) tensors[op.outputs[i].index()] = outputs[i];
  }
}

struct ReferenceTrainer::State {
  State(const Graph& graph_in, const Dataset& dataset, TrainOptions options_in)
      : graph(graph_in),
        options(std::move(options_in)),
        reader(graph_in, dataset),
        params(make_parameters(graph_in, options.seed)),
        optimizer(trainable(params), options) {}

  // Every tensor of the graph for these samples.
  std::vector<at::Tensor> forward(const OpContext& context) const {
    std::vector<at::Tensor> tensors(graph.tensors.size());
    for (const TensorId input : graph.inputs) {
      tensors[input.index()] = reader.read(input, context.sample_ids);
    }
    run_operators(graph, params, context, tensors);
    return tensors;
  }

  // What a sample's value of the loss counts in the model's loss.
  static double factor(const Loss& loss, std::int64_t step_samples) {
    return loss.normaliser == Normaliser::kSum ? loss.weight
                                               : loss.weight / static_cast<double>(step_samples);
  }

  // Of the model, by loss_sums.
  double loss(std::int64_t step_samples) const {
    double total = 0;
    for (std::size_t i = 0; i < loss_sums.size(); ++i) {
      const Loss& loss = graph.losses[i];
      const bool mean = loss.normaliser == Normaliser::kMeanOverSamples;
      total += loss.weight * loss_sums[i] / (mean ? static_cast<double>(step_samples) : 1.0);
    }
    return total;
  }

  void backward(const std::vector<at::Tensor>& tensors, std::int64_t step_samples) const {
    std::vector<at::Tensor> losses;
    std::vector<at::Tensor> seeds;
    for (const Loss& loss : graph.losses) {
      const at::Tensor& values = tensors[loss.tensor.index()];
      if (!values.requires_grad()) continue;  // no parameter leads there
      losses.push_back(values);
      seeds.push_back(at::full(values.sizes(), factor(loss, step_samples),
                               values.options().requires_grad(false)));
    }
    if (!losses.empty()) torch::autograd::backward(losses, seeds);
  }

  const Graph& graph;
  TrainOptions options;
  BatchReader reader;
  std::vector<at::Tensor> params;
  Optimizer optimizer;
  std::vector<double> loss_sums;  // [loss], over the step so far
};

ReferenceTrainer::ReferenceTrainer(const Graph& graph, const Dataset& dataset, TrainOptions options)
    : state_(std::make_unique<State>(graph, dataset, std::move(options))) {}

ReferenceTrainer::~ReferenceTrainer() = default;

IterationResult ReferenceTrainer::train(const std::vector<std::int64_t>& ids,
                                        std::int64_t iteration, std::int64_t micro_batch) {
  return train(ids, iteration, micro_batch, {iteration, static_cast<std::int64_t>(ids.size())});
}

IterationResult ReferenceTrainer::train(const std::vector<std::int64_t>& ids,
                                        std::int64_t iteration, std::int64_t micro_batch,
                                        const StepPart& part) {
  State& s = *state_;
  s.reader.check_ids(ids);
  if (part.first) {
    for (const at::Tensor& param : s.params) param.mutable_grad().reset();
    s.loss_sums.assign(s.graph.losses.size(), 0);
  }
  for (std::size_t lo = 0; lo < ids.size(); lo += static_cast<std::size_t>(micro_batch)) {
    const std::size_t n = std::min(static_cast<std::size_t>(micro_batch), ids.size() - lo);
    const std::vector<at::Tensor> tensors =
        s.forward({true, s.options.seed, iteration, std::span(ids).subspan(lo, n)});
    for (std::size_t i = 0; i < s.loss_sums.size(); ++i) {
      double& sum = s.loss_sums[i];
      sum = add_elements(sum, tensors[s.graph.losses[i].tensor.index()]);
    }
    s.backward(tensors, part.samples);
  }
  if (!part.last) return {};
  IterationResult result;
  result.loss = s.loss(part.samples);
  double squares = 0;
  for (const at::Tensor& param : s.params) squares += sum_of_squares(param.grad());
  result.grad_norm = std::sqrt(squares);
  const double factor = clip_factor(result.grad_norm, s.options.clip);
  for (const at::Tensor& param : s.params) scale(param.grad(), factor);
  s.optimizer.step(learning_rate_at(s.options, part.step));
  return result;
}

std::map<std::string, double> ReferenceTrainer::evaluate(const std::vector<std::int64_t>& ids,
                                                         std::int64_t micro_batch) {
  State& s = *state_;
  GP_CHECK(!ids.empty(), "no samples to evaluate");
  s.reader.check_ids(ids);
  const at::NoGradGuard no_gradients;
  std::vector<double> sums(s.graph.tensors.size(), 0);
  for (std::size_t lo = 0; lo < ids.size(); lo += static_cast<std::size_t>(micro_batch)) {
    const std::size_t n = std::min(static_cast<std::size_t>(micro_batch), ids.size() - lo);
    const std::vector<at::Tensor> tensors =
        s.forward({false, s.options.seed, 0, std::span(ids).subspan(lo, n)});
    for (std::size_t t = 0; t < sums.size(); ++t) {
      // Only losses and metrics are asked for below; they have one number a sample.
      if (tensors[t].dim() == 1 && tensors[t].is_floating_point()) {
        sums[t] = add_elements(sums[t], tensors[t]);
      }
    }
  }
  const auto count = static_cast<double>(ids.size());
  std::map<std::string, double> values;
  double total = 0;
  for (const Loss& loss : s.graph.losses) {
    const double mean = sums[loss.tensor.index()] / count;
    values[s.graph.tensor(loss.tensor).name] = mean;
    total += loss.weight * mean;
  }
  for (const Metric& metric : s.graph.metrics) {
    const double mean = sums[metric.tensor.index()] / count;
    values[metric.name] = metric.kind == "root_mean" ? std::sqrt(mean) : mean;
  }
  values["loss"] = total;
  return values;
}

std::map<std::string, at::Tensor> ReferenceTrainer::parameters() const {
  std::map<std::string, at::Tensor> result;
  for (std::size_t i = 0; i < state_->params.size(); ++i) {
    result[state_->graph.params[i].name] = state_->params[i].detach().clone();
  }
  return result;
}

std::map<std::string, at::Tensor> ReferenceTrainer::gradients() const {
  std::map<std::string, at::Tensor> result;
  for (std::size_t i = 0; i < state_->params.size(); ++i) {
    const at::Tensor& gradient = state_->params[i].grad();
    if (gradient.defined()) result[state_->graph.params[i].name] = gradient.clone();
  }
  return result;
}

DelayedReference::DelayedReference(const Plan& plan, const Graph& graph, const Dataset& dataset,
                                   TrainOptions options)
    : plan_(plan),
      plain_(graph, dataset, std::move(options)),
      masters_(plain_.state_->params),
      stage_of_(graph.params.size(), 0) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const OpId op : plan.stages[s].ops) {
      for (const ParamId param : graph.op(op).params) stage_of_[param.index()] = s;
    }
  }
}

DelayedReference::~DelayedReference() = default;

// In micro-batches that it contains. W of a stage: micro-batches in flight.
std::int64_t DelayedReference::version(std::size_t stage, std::int64_t micro_batch) const {
  const auto newest_at_forward = [&](std::size_t s) {
    const std::int64_t in_flight = plan_.stages[s].in_flight_samples / plan_.stages[s].micro_batch;
    return std::max<std::int64_t>(0, micro_batch - (in_flight - 1));
  };
  if (plan_.weights == WeightPolicy::k2bw) {
    const std::int64_t group = plan_.mini_batch / plan_.stages[stage].micro_batch;
    return std::max<std::int64_t>(0, micro_batch / group - 1) * group;
  }
  std::int64_t version = newest_at_forward(stage);
  if (plan_.weights != WeightPolicy::kVerticalSync) return version;
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    const bool fed = std::ranges::any_of(
        plan_.edges, [&](const StageEdge& edge) { return edge.to == StageId(s); });
    if (!fed) version = std::min(version, newest_at_forward(s));
  }
  return version;
}

void DelayedReference::remember(std::int64_t version) {
  for (const at::Tensor& master : masters_) {
    values_[version].push_back(master.detach().clone());
  }
}

void DelayedReference::use_old_weights(std::int64_t micro_batch) {
  for (std::size_t p = 0; p < masters_.size(); ++p) {
    if (!masters_[p].requires_grad()) continue;
    const at::Tensor& values = values_.at(version(stage_of_[p], micro_batch))[p];
    plain_.state_->params[p] = values.clone().requires_grad_(true);
  }
}

std::vector<double> DelayedReference::train_stream(const std::vector<std::int64_t>& ids,
                                                   std::int64_t first) {
  ReferenceTrainer::State& s = *plain_.state_;
  s.reader.check_ids(ids);
  values_.clear();
  remember(0);
  const std::int64_t b = plan_.stages[0].micro_batch;
  const std::int64_t in_step = plan_.mini_batch / b;
  const auto samples = static_cast<std::int64_t>(ids.size());
  std::vector<double> losses;
  for (std::int64_t i = 0; i * b < samples; ++i) {
    const std::int64_t mini_batch = i / in_step;
    const std::int64_t of_step =
        std::min(plan_.mini_batch, samples - mini_batch * plan_.mini_batch);
    const auto lo = static_cast<std::size_t>(i * b);
    const std::size_t n = std::min(static_cast<std::size_t>(b), ids.size() - lo);
    if (i % in_step == 0) s.loss_sums.assign(s.graph.losses.size(), 0);
    use_old_weights(i);
    const std::vector<at::Tensor> tensors =
        s.forward({true, s.options.seed, first + mini_batch, std::span(ids).subspan(lo, n)});
    for (std::size_t l = 0; l < s.loss_sums.size(); ++l) {
      s.loss_sums[l] = add_elements(s.loss_sums[l], tensors[s.graph.losses[l].tensor.index()]);
    }
    for (std::size_t p = 0; p < masters_.size(); ++p) {
      if (plan_.weights != WeightPolicy::kNaive || !masters_[p].requires_grad()) continue;
      s.params[p].variable_data().copy_(masters_[p].detach());
    }
    s.backward(tensors, of_step);
    for (std::size_t p = 0; p < masters_.size(); ++p) {
      const at::Tensor& gradient = s.params[p].grad();
      if (!masters_[p].requires_grad() || !gradient.defined()) continue;
      at::Tensor& sum = masters_[p].mutable_grad();
      sum.defined() ? sum.add_(gradient) : sum = gradient;
    }
    if ((i + 1) % in_step != 0 && (i + 1) * b < samples) continue;
    losses.push_back(s.loss(of_step));
    s.optimizer.step(learning_rate_at(s.options, first + mini_batch));
    for (const at::Tensor& master : masters_) master.mutable_grad().reset();
    remember(i + 1);
  }
  s.params = masters_;
  return losses;
}

}  // namespace graphpipe
