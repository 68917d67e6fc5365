#include "runtime/rank_trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/checkpoint/training_state.h"
#include "runtime/clock.h"
#include "runtime/counting_allocator.h"
#include "runtime/parameters.h"
#include "runtime/rank_executor.h"

namespace graphpipe {
namespace {

std::uint64_t options_hash(const TrainOptions& options) {
  std::uint64_t hash = options.seed;
  hash = combine_hash(hash, static_cast<std::uint64_t>(options.optimizer));
  for (const double number :
       {options.learning_rate, options.momentum, options.weight_decay, options.clip}) {
    hash = combine_hash(hash, hash_bytes(fmt::format("{}", number)));
  }
  hash = combine_hash(hash, hash_bytes(to_text(options.rate_schedule)));
  hash = combine_hash(hash, static_cast<std::uint64_t>(options.on_nan));
  // Ranks of several hosts look for the newest checkpoint each for itself.
  const std::string& resume = options.checkpoint.resume;
  hash = combine_hash(hash, hash_bytes(resume.substr(resume.rfind('/') + 1)));
  return combine_hash(hash, static_cast<std::uint64_t>(options.accumulate));
}

// All ranks must have been started with the same plan, model and options: message sizes
// follow from them, and the transport cannot recover from a size that differs. Collective.
void check_agreement(Transport& transport, std::uint64_t what) {
  const auto own = static_cast<std::int64_t>(what);
  const at::Tensor all = at::zeros({transport.size()}, at::kLong);
  std::int64_t* hashes = all.data_ptr<std::int64_t>();
  hashes[transport.rank()] = own;
  transport.all_reduce_sum(all);
  for (int r = 0; r < transport.size(); ++r) {
    if (hashes[r] == own) continue;
    throw RunError(
        fmt::format("rank {} was started with another plan, model or options than rank {}", r,
                    transport.rank()));
  }
}

// Every value is known to one rank and 0 on the others, so the sums are exact.
std::vector<double> all_reduce(Transport& transport, const std::vector<double>& values) {
  const at::Tensor sums = at::zeros({static_cast<std::int64_t>(values.size())}, at::kDouble);
  std::copy(values.begin(), values.end(), sums.data_ptr<double>());
  transport.all_reduce_sum(sums);
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + values.size()};
}

// The model's loss over so many samples; `sums`: of each of the graph's losses.
double model_loss(const Graph& graph, std::span<const double> sums, std::int64_t samples) {
  double total = 0;
  for (std::size_t i = 0; i < graph.losses.size(); ++i) {
    const Loss& loss = graph.losses[i];
    const bool mean = loss.normaliser == Normaliser::kMeanOverSamples;
    total += loss.weight * sums[i] / (mean ? static_cast<double>(samples) : 1.0);
  }
  return total;
}

}  // namespace

struct RankTrainer::State {
  State(const Plan& plan_in, const Graph& graph_in, const Cluster& cluster, const Dataset& dataset,
        Transport& transport_in, const RankTrainerOptions& options)
      : plan(plan_in),
        graph(graph_in),
        transport(transport_in),
        clip(options.train.clip),
        skips(options.train.on_nan == OnNan::kSkip),
        running(running_statistics(graph_in)),
        executor(plan_in, graph_in, cluster, dataset, transport_in, options) {}

  IterationResult result(std::int64_t samples);
  void step_or_skip(IterationResult& result);
  void keep_statistics();
  void drop_step();

  const Plan& plan;
  const Graph& graph;
  Transport& transport;
  double clip;
  bool skips;                 // steps whose loss or gradients are no numbers
  std::vector<bool> running;  // [parameter]: running_statistics()
  RankExecutor executor;
  std::int64_t iteration = 0;            // the last one trained
  std::vector<at::Tensor> saved_params;  // save_weights()
  std::vector<at::Tensor> statistics;    // keep_statistics()
};

// Totals are taken in the order of the graph and do not depend on the partition.
IterationResult RankTrainer::State::result(std::int64_t samples) {
  std::vector<double> values;
  for (const Loss& loss : graph.losses) {
    values.push_back(executor.watched_sums()[loss.tensor.index()]);
  }
  const std::vector<double>& squares = executor.gradient_squares();
  values.insert(values.end(), squares.begin(), squares.end());
  values = all_reduce(transport, values);
  IterationResult result;
  double squared_norm = 0;
  result.loss = model_loss(graph, values, samples);
  for (std::size_t i = graph.losses.size(); i < values.size(); ++i) squared_norm += values[i];
  result.grad_norm = std::sqrt(squared_norm);
  return result;
}

void RankTrainer::State::step_or_skip(IterationResult& result) {
  result.skipped = skips && !(std::isfinite(result.loss) && std::isfinite(result.grad_norm));
  if (result.skipped) return drop_step();
  if (clip > 0 || skips) executor.scale_and_step(clip_factor(result.grad_norm, clip));
}

// What a step's forwards move besides the gradients, so that a skipped one leaves no trace.
void RankTrainer::State::keep_statistics() {
  const at::NoGradGuard no_gradients;
  statistics.resize(running.size());
  for (std::size_t i = 0; i < running.size(); ++i) {
    const at::Tensor& param = executor.params()[i];
    if (running[i] && param.defined()) statistics[i] = param.clone();
  }
}

void RankTrainer::State::drop_step() {
  const at::NoGradGuard no_gradients;
  executor.drop_gradients();
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    if (statistics[i].defined()) executor.params()[i].copy_(statistics[i]);
  }
}

RankTrainer::RankTrainer(const Plan& plan, const Graph& graph, const Cluster& cluster,
                         const Dataset& dataset, Transport& transport, RankTrainerOptions options) {
  validate(plan, graph, cluster, "plan");
  if (is_asynchronous(plan.weights) && options.train.clip > 0) {
    throw InputError("--clip",
                     "an asynchronous pipeline steps each stage by itself, and the norm "
                     "of all gradients is not known then; leave it out");
  }
  if (is_asynchronous(plan.weights) && options.train.on_nan == OnNan::kSkip) {
    throw InputError("--on-nan",
                     "an asynchronous pipeline steps each stage by itself, and can skip "
                     "none on all; leave skip out");
  }
  state_ = std::make_unique<State>(plan, graph, cluster, dataset, transport, options);
  check_agreement(transport, combine_hash(combine_hash(plan_hash(plan), graph_hash(graph)),
                                          options_hash(options.train)));
}

RankTrainer::~RankTrainer() = default;

void RankTrainer::prepare(std::int64_t samples) { state_->executor.prepare(samples, true); }

IterationResult RankTrainer::train(const std::vector<std::int64_t>& ids, std::int64_t iteration,
                                   bool metrics) {
  return train(ids, iteration, metrics, {iteration, static_cast<std::int64_t>(ids.size())});
}

IterationResult RankTrainer::train(const std::vector<std::int64_t>& ids, std::int64_t iteration,
                                   bool metrics, const StepPart& part) {
  State& s = *state_;
  const double start_cpu_s = thread_cpu_s();
  const auto samples = static_cast<std::int64_t>(ids.size());
  GP_CHECK(samples >= 1 && samples <= s.plan.mini_batch, "{} samples in a mini-batch of {}",
           samples, s.plan.mini_batch);
  s.executor.reader().check_ids(ids);
  GP_CHECK(samples <= part.samples, "{} samples in a step of {}", samples, part.samples);
  if (part.first) {
    s.executor.drop_gradients();
    s.executor.reset_sums();
    if (s.skips) s.keep_statistics();
  }
  s.iteration = iteration;
  s.executor.run({true, iteration, ids, metrics, part});
  ++s.executor.measured().iterations;
  const bool steps_later = s.clip > 0 || s.skips;
  IterationResult result;
  if (part.last && (metrics || steps_later)) result = s.result(part.samples);
  if (part.last && steps_later) s.step_or_skip(result);
  if (!metrics && !result.skipped) result = {};
  s.executor.measured().total_cpu_s += thread_cpu_s() - start_cpu_s;
  return result;
}

std::vector<double> RankTrainer::train_stream(const std::vector<std::int64_t>& ids,
                                              std::int64_t first) {
  State& s = *state_;
  GP_CHECK(is_asynchronous(s.plan.weights), "a synchronous plan trains a mini-batch at a time");
  GP_CHECK(!ids.empty(), "no samples to train on");
  const double start_cpu_s = thread_cpu_s();
  s.executor.reader().check_ids(ids);
  const auto samples = static_cast<std::int64_t>(ids.size());
  s.executor.run({true, first, ids, true, {first, samples}});
  const std::vector<std::vector<double>>& sums = s.executor.stream_sums();
  std::vector<double> values;
  for (const std::vector<double>& of_mini_batch : sums) {
    for (const Loss& loss : s.graph.losses) values.push_back(of_mini_batch[loss.tensor.index()]);
  }
  values = all_reduce(s.transport, values);
  std::vector<double> losses;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int64_t before = static_cast<std::int64_t>(i) * s.plan.mini_batch;
    const std::int64_t here = std::min(s.plan.mini_batch, samples - before);
    const auto of_mini_batch = std::span(values).subspan(i * s.graph.losses.size());
    losses.push_back(model_loss(s.graph, of_mini_batch, here));
  }
  s.executor.measured().iterations += static_cast<std::int64_t>(losses.size());
  s.executor.measured().total_cpu_s += thread_cpu_s() - start_cpu_s;
  s.iteration = first + static_cast<std::int64_t>(losses.size()) - 1;
  return losses;
}

std::map<std::string, double> RankTrainer::evaluate(const std::vector<std::int64_t>& ids) {
  State& s = *state_;
  GP_CHECK(!ids.empty(), "no samples to evaluate");
  s.executor.reader().check_ids(ids);
  const at::NoGradGuard no_gradients;
  const RankMeasurement of_training = s.executor.measured();
  std::vector<double> of_step = s.executor.exchange_watched_sums(
      std::vector<double>(s.graph.tensors.size(), 0));  // it may stand within a step
  const auto batch = static_cast<std::size_t>(schedule_samples(s.plan));
  for (std::size_t lo = 0; lo < ids.size(); lo += batch) {
    const std::size_t n = std::min(batch, ids.size() - lo);
    s.executor.run({false, s.iteration, std::span(ids).subspan(lo, n), true, {}});
  }
  const std::vector<double> sums =
      all_reduce(s.transport, s.executor.exchange_watched_sums(std::move(of_step)));
  s.executor.measured() = of_training;

  const auto mean = [&](TensorId tensor) {
    return sums[tensor.index()] / static_cast<double>(ids.size());
  };
  std::map<std::string, double> values;
  double total = 0;
  for (const Loss& loss : s.graph.losses) {
    values[s.graph.tensor(loss.tensor).name] = mean(loss.tensor);
    total += loss.weight * mean(loss.tensor);
  }
  for (const Metric& metric : s.graph.metrics) {
    const double value = mean(metric.tensor);
    values[metric.name] = metric.kind == "root_mean" ? std::sqrt(value) : value;
  }
  values["loss"] = total;
  return values;
}

void RankTrainer::save_weights() {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> saved = state_->executor.params();
  for (at::Tensor& param : saved) {
    if (param.defined()) param = param.clone();
  }
  state_->saved_params = std::move(saved);
}

void RankTrainer::restore_weights() {
  const std::vector<at::Tensor>& params = state_->executor.params();
  GP_CHECK(state_->saved_params.size() == params.size(), "no weights were saved");
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].defined()) params[i].copy_(state_->saved_params[i]);
  }
}

TrainingState RankTrainer::training_state(const std::vector<bool>& wanted) const {
  TrainingState state;
  const std::vector<at::Tensor>& params = state_->executor.params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (!wanted[i] || !params[i].defined()) continue;
    const std::string& name = state_->graph.params[i].name;
    state.weights[name] = to_values(params[i]);
    if (!state_->saved_params.empty()) state.best[name] = to_values(state_->saved_params[i]);
    if (const Optimizer* optimizer = state_->executor.optimizer_of(ParamId(i))) {
      add_optimizer_state(*optimizer, params[i], name, state.optimizer);
    }
  }
  return state;
}

void RankTrainer::restore(const TrainingState& state) {
  const std::vector<at::Tensor>& params = state_->executor.params();
  if (!state.best.empty()) state_->saved_params.resize(params.size());
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (!params[i].defined()) continue;
    const std::string& name = state_->graph.params[i].name;
    copy_values(state.weights.at(name), params[i]);
    if (!state.best.empty()) state_->saved_params[i] = to_tensor(state.best.at(name));
    if (Optimizer* optimizer = state_->executor.optimizer_of(ParamId(i))) {
      restore_optimizer_state(*optimizer, params[i], name, state.optimizer);
    }
  }
}

void RankTrainer::reset_measurements() {
  state_->executor.measured() = {};
  if (counting_allocator_installed()) reset_peak_tensor_bytes();
}

RankMeasurement RankTrainer::measurement() const {
  RankMeasurement measured = state_->executor.measured();
  if (counting_allocator_installed()) measured.peak_bytes = peak_tensor_bytes();
  return measured;
}

const Trace& RankTrainer::trace() const { return state_->executor.trace(); }

std::map<std::string, at::Tensor> RankTrainer::parameters() const {
  std::map<std::string, at::Tensor> result;
  const std::vector<at::Tensor>& params = state_->executor.params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].defined()) result[state_->graph.params[i].name] = params[i].detach().clone();
  }
  return result;
}

std::map<std::string, at::Tensor> RankTrainer::gradients() const {
  std::map<std::string, at::Tensor> result;
  const std::vector<at::Tensor>& params = state_->executor.params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (!params[i].defined() || !params[i].grad().defined()) continue;
    result[state_->graph.params[i].name] = params[i].grad().clone();
  }
  return result;
}

}  // namespace graphpipe
