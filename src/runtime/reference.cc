#include "runtime/reference.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "plan/stage_memory.h"
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
      stages_(plan.stages.size()) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    StageState& stage = stages_[s];
    std::vector<at::Tensor> trained;
    for (const ParamId param : stage_params(graph, plan.stages[s].ops)) {
      if (!graph.param(param).trainable) continue;
      stage.params.push_back(param.index());
      trained.push_back(masters_[param.index()]);
    }
    stage.optimizer = std::make_unique<Optimizer>(std::move(trained), plain_.state_->options);
  }
}

DelayedReference::~DelayedReference() = default;

std::int64_t DelayedReference::turns(std::size_t stage) const {
  const Stage& of = plan_.stages[stage];
  return of.replication == Replication::kRoundRobin ? static_cast<std::int64_t>(of.devices.size())
                                                    : 1;
}

std::int64_t DelayedReference::micro_batches_a_step(std::size_t stage) const {
  return plan_.weights == WeightPolicy::k2bw ? plan_.mini_batch / plan_.stages[stage].micro_batch
                                             : turns(stage);
}

// In micro-batches that it contains: a replica has so many rounds in flight.
std::int64_t DelayedReference::newest_at_forward(std::size_t stage,
                                                 std::int64_t micro_batch) const {
  const Stage& of = plan_.stages[stage];
  const std::int64_t rounds = of.in_flight_samples / (of.micro_batch * turns(stage));
  const std::int64_t before = micro_batch / turns(stage) - (rounds - 1);
  return before > 0 ? before * turns(stage) : 0;
}

std::int64_t DelayedReference::version(std::size_t stage, std::int64_t micro_batch) const {
  const std::int64_t step = micro_batches_a_step(stage);
  if (plan_.weights == WeightPolicy::k2bw) {
    return std::max<std::int64_t>(0, micro_batch / step - 1) * step;
  }
  std::int64_t version = newest_at_forward(stage, micro_batch);
  if (plan_.weights != WeightPolicy::kVerticalSync) return version;
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    const bool fed = std::ranges::any_of(
        plan_.edges, [&](const StageEdge& edge) { return edge.to == StageId(s); });
    if (!fed) version = std::min(version, newest_at_forward(s, micro_batch) / step * step);
  }
  return version;
}

void DelayedReference::remember(std::size_t stage, std::int64_t version) {
  std::vector<at::Tensor>& values = stages_[stage].values[version];
  for (const std::size_t p : stages_[stage].params) {
    values.push_back(masters_[p].detach().clone());
  }
}

void DelayedReference::use_old_weights(std::int64_t micro_batch) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const std::vector<at::Tensor>& values = stages_[s].values.at(version(s, micro_batch));
    for (std::size_t i = 0; i < values.size(); ++i) {
      plain_.state_->params[stages_[s].params[i]] = values[i].clone().requires_grad_(true);
    }
  }
}

void DelayedReference::use_newest_weights() {
  for (const StageState& stage : stages_) {
    for (const std::size_t p : stage.params) {
      plain_.state_->params[p].variable_data().copy_(masters_[p].detach());
    }
  }
}

void DelayedReference::add_gradients() {
  for (std::size_t p = 0; p < masters_.size(); ++p) {
    const at::Tensor& gradient = plain_.state_->params[p].grad();
    if (!masters_[p].requires_grad() || !gradient.defined()) continue;
    at::Tensor& sum = masters_[p].mutable_grad();
    sum.defined() ? sum.add_(gradient) : sum = gradient;
  }
}

// By the mean over so many micro-batches; of 2BW, whose losses are means over them, by the sum.
void DelayedReference::step(std::size_t stage, std::int64_t micro_batches, double rate) {
  const bool sum = plan_.weights == WeightPolicy::k2bw;
  for (const std::size_t p : stages_[stage].params) {
    scale(masters_[p].grad(), sum ? 1 : 1.0 / static_cast<double>(micro_batches));
  }
  stages_[stage].optimizer->step(rate);
  for (const std::size_t p : stages_[stage].params) masters_[p].mutable_grad().reset();
}

std::vector<double> DelayedReference::train_stream(const std::vector<std::int64_t>& ids,
                                                   std::int64_t first) {
  ReferenceTrainer::State& s = *plain_.state_;
  s.reader.check_ids(ids);
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    stages_[stage].values.clear();
    remember(stage, 0);
  }
  const std::int64_t b = plan_.stages[0].micro_batch;
  const std::int64_t in_mini_batch = plan_.mini_batch / b;
  const auto samples = static_cast<std::int64_t>(ids.size());
  std::vector<double> losses;
  for (std::int64_t i = 0; i * b < samples; ++i) {
    const std::int64_t mini_batch = i / in_mini_batch;
    const std::int64_t of_mini_batch =
        std::min(plan_.mini_batch, samples - mini_batch * plan_.mini_batch);
    const bool is_last = (i + 1) * b >= samples;
    const auto lo = static_cast<std::size_t>(i * b);
    const std::size_t n = std::min(static_cast<std::size_t>(b), ids.size() - lo);
    if (i % in_mini_batch == 0) s.loss_sums.assign(s.graph.losses.size(), 0);
    use_old_weights(i);
    const std::vector<at::Tensor> tensors =
        s.forward({true, s.options.seed, first + mini_batch, std::span(ids).subspan(lo, n)});
    for (std::size_t l = 0; l < s.loss_sums.size(); ++l) {
      s.loss_sums[l] = add_elements(s.loss_sums[l], tensors[s.graph.losses[l].tensor.index()]);
    }
    if (plan_.weights == WeightPolicy::kNaive) use_newest_weights();
    s.backward(tensors, of_mini_batch);
    add_gradients();
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const std::int64_t in_step = micro_batches_a_step(stage);
      if ((i + 1) % in_step != 0 && !is_last) continue;
      step(stage, i % in_step + 1, learning_rate_at(s.options, first + mini_batch));
      remember(stage, i + 1);
    }
    if ((i + 1) % in_mini_batch == 0 || is_last) losses.push_back(s.loss(of_mini_batch));
  }
  s.params = masters_;
  return losses;
}

}  // namespace graphpipe
