#include "runtime/rank_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cost/analytic.h"
#include "plan/stage_memory.h"
#include "runtime/clock.h"
#include "runtime/counting_allocator.h"
#include "runtime/finite.h"
#include "runtime/parameters.h"
#include "runtime/stage_runner.h"
#include "runtime/stand_in_stage.h"
#include "schedule/buckets.h"
#include "schedule/build.h"
#include "schedule/drawing.h"
#include "schedule/lower.h"
#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/trained_params.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

// A library's message without the stack that it carries.
std::string cause_of(const std::exception& error) {
  if (const auto* library = dynamic_cast<const c10::Error*>(&error)) {
    return library->what_without_backtrace();
  }
  return error.what();
}

bool takes_part_in_message(ActionKind kind) {
  return kind == ActionKind::kStartSend || kind == ActionKind::kWaitSend ||
         kind == ActionKind::kWaitReceive;
}

// Adds what passes between construction and destruction to two sums, or to one.
class Stopwatch {
 public:
  Stopwatch(double* wall, double& cpu)
      : wall_(wall), cpu_(cpu), start_s_(wall_s()), start_cpu_s_(thread_cpu_s()) {}
  ~Stopwatch() {
    cpu_ += thread_cpu_s() - start_cpu_s_;
    if (wall_) *wall_ += wall_s() - start_s_;
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double* wall_;
  double& cpu_;
  double start_s_;
  double start_cpu_s_;
};

// The reductions that follow the action within it.
void find_within(const ActionCursor& backward, std::vector<Action>& within) {
  within.clear();
  if (backward.action().kind != ActionKind::kBackward) return;
  ActionCursor at = backward;
  for (at.next(); !at.done() && at.action().after.valid(); at.next()) {
    within.push_back(at.action());
  }
}

}  // namespace

ActionError::ActionError(const Action& action, const std::string& place, const std::string& cause,
                         bool peer_lost)
    : RunError(place + ": " + cause), action_(action), cause_(cause), peer_lost_(peer_lost) {}

RankExecutor::RankExecutor(const Plan& plan, const Graph& graph, const Cluster& cluster,
                           const Dataset& dataset, Transport& transport,
                           const RankTrainerOptions& options)
    : plan_(plan),
      graph_(graph),
      cluster_(cluster),
      options_(options),
      stand_ins_(options.stand_ins ? std::make_unique<const Graph>(stand_in_graph(graph))
                                   : nullptr),
      values_graph_(stand_ins_ ? *stand_ins_ : graph),
      reader_(values_graph_, dataset),
      rank_(transport.rank()),
      ranks_(transport.size()),
      params_(graph.params.size()),
      recomputes_(stages_that_recompute(plan, stages_with_backward(plan, graph))),
      buckets_(reduction_buckets(plan, graph)),
      tags_(Mailbox::channels(plan) + static_cast<std::int64_t>(buckets_.size())),
      mailbox_(plan, values_graph_, transport, tags_, options.stand_ins),
      values_(plan, values_graph_, mailbox_, rank_),
      reducer_(values_graph_, buckets_, plan_hash(plan), params_, transport, tags_,
               Mailbox::channels(plan)) {
  if (is_asynchronous(plan.weights)) rule_.emplace(plan);
  make_stages();
  reset_sums();
}

void RankExecutor::make_stages() {
  const std::vector<DeviceId> devices = used_devices(plan_);
  if (static_cast<std::size_t>(ranks_) != devices.size()) {
    throw InputError(
        "plan", fmt::format("uses {} devices, and {} ranks were started", devices.size(), ranks_));
  }
  const std::vector<std::vector<Placement>> placed = placements(plan_);
  for (const Placement& own : placed[rank_.index()]) make_stage(own.stage);
  const DeviceId device = devices[rank_.index()];
  for (const ParamHolders& held : trained_params(plan_, graph_)) {
    if (held.devices.front() == device) counted_.insert(held.param);
  }
}

void RankExecutor::make_stage(StageId id) {
  OwnStage made{id, nullptr, {}, nullptr, recomputes_[id.index()]};
  std::vector<at::Tensor> trained;
  for (const ParamId param : stage_params(graph_, plan_.stage(id).ops)) {
    if (params_[param.index()].defined()) continue;  // an earlier stage of this rank steps it
    params_[param.index()] = make_parameter(values_graph_.param(param), options_.train.seed);
    if (!graph_.param(param).trainable) continue;
    made.trained.push_back(param);
    trained.push_back(params_[param.index()]);
  }
  if (stand_ins_) {
    made.runner = std::make_unique<StandInStage>(values_graph_, plan_, made.id);
  } else {
    made.runner = std::make_unique<StageRunner>(graph_, plan_, made.id, params_,
                                                plan_.schedule == ScheduleKind::kZbH1);
  }
  made.optimizer = std::make_unique<Optimizer>(std::move(trained), options_.train);
  if (rule_) made.versions = std::make_unique<VersionStore>(params_, made.trained);
  values_.add(id, *made.runner);
  stages_.push_back(std::move(made));
}

void RankExecutor::reset_sums() {
  watched_sums_.assign(graph_.tensors.size(), 0);
  gradient_squares_.assign(graph_.params.size(), 0);
}

std::vector<double> RankExecutor::exchange_watched_sums(std::vector<double> sums) {
  std::swap(watched_sums_, sums);
  return sums;
}

void RankExecutor::drop_gradients() {
  for (const at::Tensor& param : params_) {
    if (param.defined()) param.mutable_grad().reset();
  }
}

// No program runs that is not proven, those of short mini-batches included. Whether memory
// suffices (V5) was judged before the start, by the costs that the plan was made with.
const Schedule& RankExecutor::schedule(std::int64_t samples, bool training) {
  const auto known = schedules_.find({samples, training});
  if (known != schedules_.end()) return known->second;
  Schedule lowered = lower(training ? build_schedule(plan_, graph_, samples)
                                    : build_forward_schedule(plan_, graph_, samples),
                           plan_, graph_);
  for (const Fault& fault : verify(lowered, plan_, graph_, cluster_, AnalyticCosts()).faults) {
    if (fault.rule == "V5") continue;
    throw InputError("plan", fmt::format("{} of {} samples: {}: {}: {}",
                                         training ? "a mini-batch" : "an evaluation", samples,
                                         fault.where, fault.rule, fault.message));
  }
  return schedules_.emplace(std::pair(samples, training), std::move(lowered)).first->second;
}

RankExecutor::OwnStage& RankExecutor::stage(StageId id) {
  for (OwnStage& own : stages_) {
    if (own.id == id) return own;
  }
  GP_CHECK(false, "stage {} is not of rank {}", id.value, rank_.value);
}

Optimizer* RankExecutor::optimizer_of(ParamId param) {
  for (OwnStage& own : stages_) {
    if (std::ranges::find(own.trained, param) != own.trained.end()) return own.optimizer.get();
  }
  return nullptr;
}

void RankExecutor::run(const Run& what) {
  run_ = what;
  const bool recorded = options_.trace && run_.training;
  if (recorded) {
    trace_ = {};
    trace_.samples = mini_batch_samples();
    trace_.ranks.resize(static_cast<std::size_t>(ranks_));
  }
  const char* phase = run_.training ? "train" : "evaluate";
  const Schedule& program = schedule(mini_batch_samples(), run_.training);
  mailbox_.begin({run_.training, run_.iteration, run_.ids});
  values_.begin(mini_batch_samples());
  if (rule_) begin_stream();
  start_s_ = wall_s();
  for (ActionCursor at(program, plan_, rank_); !at.done(); at.next()) {
    const Action& action = at.action();
    find_within(at, within_);
    try {
      if (options_.on_action) options_.on_action(action, run_.iteration, at.position(), phase);
      if (recorded) {
        perform_and_record(action);
      } else {
        perform(action);
      }
    } catch (const std::exception& error) {
      rethrow(error, action);
    }
    ++measured_.actions;
  }
  if (recorded) trace_.iteration_s = wall_s() - start_s_;
  mailbox_.finish();
  values_.finish();
  for (const OwnStage& own : stages_) {
    GP_CHECK(!own.runner->holds_values(), "stage {} holds values at the end of a run",
             own.id.value);
  }
}

void RankExecutor::rethrow(const std::exception& error, const Action& action) const {
  if (dynamic_cast<const ActionError*>(&error)) throw;  // of an action within this one
  const std::string place =
      fmt::format("rank {} ({} {}, stage {}, micro-batch {}, {})", rank_.value,
                  run_.training ? "iteration" : "evaluation after iteration", run_.iteration,
                  action.stage.value, action.micro_batch, to_text(action, plan_));
  if (dynamic_cast<const InternalError*>(&error)) {
    throw InternalError(place + ": " + error.what());
  }
  const bool peer_lost = dynamic_cast<const PeerError*>(&error) != nullptr;
  throw ActionError(action, place, cause_of(error), peer_lost);
}

// What a forward that is run again made is gone once it has been sent.
void RankExecutor::drop_what_was_sent(const Action& next) {
  const bool is_around_send = next.kind == ActionKind::kStartSend ||
                              next.kind == ActionKind::kWaitSend ||
                              (next.kind == ActionKind::kFree && next.edge.valid());
  if (!to_drop_ || is_around_send) return;
  stage(to_drop_->first).runner->drop_results(to_drop_->second);
  to_drop_.reset();
}

void RankExecutor::perform(const Action& action) {
  drop_what_was_sent(action);
  execute(action);
  // What happened within a backward is over.
  if (options_.after_action && !action.after.valid()) options_.after_action(action);
}

void RankExecutor::execute(const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward:
      return forward(action);
    case ActionKind::kBackward:
      return backward(action);
    case ActionKind::kPostReceive:
      return mailbox_.post_receive(action);
    case ActionKind::kWaitReceive:
      return mailbox_.wait_receive(action);
    case ActionKind::kStartSend:
      return start_send(action);
    case ActionKind::kWaitSend:
      return mailbox_.wait_send(action);
    case ActionKind::kFree:
      if (action.edge.valid()) return mailbox_.free(action);
      return stage(action.stage).runner->free(action.samples);
    case ActionKind::kStep:
      return step(action);
    case ActionKind::kStartReduce:
      if (!action.after.valid()) start_reduce(action);  // else its backward has done it
      return;
    case ActionKind::kWaitReduce:
      if (!action.after.valid()) wait_reduce(action);
      return;
    case ActionKind::kRecompute:
      return recompute(action);
    case ActionKind::kBackwardInput:
      return backward(action);
    case ActionKind::kBackwardWeight:
      return backward_weight(action);
    case ActionKind::kMakeVersion:
      return stage(action.stage).versions->keep(action.micro_batch);
    case ActionKind::kDropVersion:
      return stage(action.stage).versions->drop(action.micro_batch);
  }
  GP_CHECK(false, "unknown action {}", to_text(action, plan_));
}

void RankExecutor::perform_and_record(const Action& action) {
  const double start_s = wall_s() - start_s_;
  perform(action);
  const double end_s = wall_s() - start_s_;
  if (is_compute(action.kind)) trace_.ranks[rank_.index()].busy_s += end_s - start_s;
  if (is_compute(action.kind) || takes_part_in_message(action.kind)) {
    trace_.events.push_back({rank_, action, start_s, end_s});
  }
  if (counting_allocator_installed()) {
    trace_.memory.push_back({rank_, end_s, live_tensor_bytes()});
  }
}

std::int64_t RankExecutor::mini_batch_of(std::int64_t micro_batch) const {
  return is_stream() ? micro_batch / rule_->micro_batches_a_mini_batch() : 0;
}

// Of the mini-batch whose gradients the backward makes.
std::int64_t RankExecutor::step_samples(const Action& backward) const {
  if (!is_stream()) return run_.part.samples;
  const std::int64_t before = mini_batch_of(backward.micro_batch) * plan_.mini_batch;
  return std::min(plan_.mini_batch, mini_batch_samples() - before);
}

void RankExecutor::begin_stream() {
  for (OwnStage& own : stages_) {
    own.runner->use_params(params_);
    own.versions->begin();
  }
  if (!is_stream()) return;
  const std::int64_t mini_batches =
      (mini_batch_samples() + plan_.mini_batch - 1) / plan_.mini_batch;
  stream_sums_.assign(static_cast<std::size_t>(mini_batches),
                      std::vector<double>(graph_.tensors.size(), 0));
}

// Gradients go to the optimiser before the version that they were taken at may end.
void RankExecutor::end_backward_of_stream(const Action& action) {
  const Stage& stage = plan_.stage(action.stage);
  const std::int64_t samples = mini_batch_samples();
  const std::int64_t count = micro_batch_count(stage, samples);
  // A replica that splits them may have no share of a short one, which is the last.
  const bool shares_last = !replica_samples(stage, action.replica, count - 1, samples).empty() ||
                           stage.replication == Replication::kRoundRobin;
  const std::int64_t end = shares_last ? count : count - 1;
  if (!rule_->is_last_of_step(action.stage, action.micro_batch, end)) return;
  this->stage(action.stage)
      .versions->collect_gradients(rule_->version_of(action.stage, action.micro_batch));
}

// By the mean over the mini-batches of the step, of which replicas that take turns have one each.
void RankExecutor::step_of_stream(const Action& action) {
  OwnStage& own = stage(action.stage);
  const Stopwatch watch(nullptr, measured_.step_cpu_s);
  const std::int64_t last = mini_batch_of(action.micro_batch - 1);
  const std::int64_t step = rule_->micro_batches_a_step(action.stage);
  const std::int64_t mini_batches =
      last + 1 - mini_batch_of((action.micro_batch - 1) / step * step);
  for (const ParamId param : own.trained) {
    scale(params_[param.index()].grad(), 1.0 / static_cast<double>(mini_batches));
  }
  own.optimizer->step(learning_rate_at(options_.train, run_.iteration + last));
  for (const ParamId param : own.trained) params_[param.index()].mutable_grad().reset();
}

OpContext RankExecutor::context(const Action& action) const {
  const SampleRange samples = action.samples;
  return {run_.training, options_.train.seed, run_.iteration + mini_batch_of(action.micro_batch),
          run_.ids.subspan(static_cast<std::size_t>(samples.lo),
                           static_cast<std::size_t>(samples.size()))};
}

void RankExecutor::forward(const Action& action) {
  OwnStage& own = stage(action.stage);
  StageWork& runner = *own.runner;
  const SampleRange samples = action.samples;
  const OpContext context = this->context(action);
  if (is_stream()) {
    runner.use_params(own.versions->leaves(rule_->version_of(action.stage, action.micro_batch)));
  }
  const bool again = run_.training && own.recomputes;
  std::vector<at::Tensor> values;
  for (const StageInput& input : runner.inputs()) {
    values.push_back(input.edge.valid() ? values_.input(input.edge, input.tensor, samples)
                                        : reader_.read(input.tensor, context.sample_ids));
  }
  {
    const Stopwatch watch(&measured_.compute_s, measured_.compute_cpu_s);
    runner.forward(samples, std::move(values), context,
                   again ? StageWork::Keep::kInputs : StageWork::Keep::kAll);
  }
  if (again && !values_.is_read_here(action.stage)) to_drop_ = std::pair(action.stage, samples);
  if (!options_.stand_ins) add_watched(action, runner);  // which have no losses
}

// A loss that is no number is told where it arises, whoever looks at the sums and when.
void RankExecutor::add_watched(const Action& action, const StageWork& runner) {
  const std::int64_t mini_batch = mini_batch_of(action.micro_batch);
  std::vector<double>& sums =
      is_stream() ? stream_sums_[static_cast<std::size_t>(mini_batch)] : watched_sums_;
  const bool stops = run_.training && options_.train.on_nan == OnNan::kStop;
  for (std::size_t i = 0; i < runner.watched().size(); ++i) {
    const TensorId tensor = runner.watched()[i];
    double& sum = sums[tensor.index()];
    sum = add_elements(sum, runner.watched_value(action.samples, i));
    if (!stops || std::isfinite(sum)) continue;
    if (std::ranges::find(graph_.losses, tensor, &Loss::tensor) == graph_.losses.end()) continue;
    throw RunError(
        not_finite_text("loss", sum, fmt::format("at iteration {}", run_.iteration + mini_batch)));
  }
}

void RankExecutor::recompute(const Action& action) {
  const Stopwatch watch(&measured_.compute_s, measured_.compute_cpu_s);
  OpContext context = this->context(action);
  context.update_statistics = false;  // the first forward moved them
  stage(action.stage).runner->recompute(action.samples, context);
}

void RankExecutor::backward(const Action& action) {
  StageWork& runner = *stage(action.stage).runner;
  std::vector<std::vector<at::Tensor>> gradients;  // [output][edge, ascending]
  for (const StageOutput& output : runner.outputs()) {
    std::vector<at::Tensor>& parts = gradients.emplace_back();
    for (const EdgeId edge : output.gradient_edges) {
      parts.push_back(values_.gradient(edge, output.tensor, action.samples));
    }
  }
  {
    const Stopwatch watch(&measured_.compute_s, measured_.compute_cpu_s);
    if (action.kind == ActionKind::kBackwardInput) {
      runner.backward_input(action.samples, gradients, step_samples(action));
    } else {
      runner.backward(action.samples, gradients, step_samples(action), points_within());
    }
  }
  gradients.clear();
  values_.drop_gradients(action.stage, action.samples);
  values_.keep_gradients(action.stage, action.samples);
  if (is_stream()) end_backward_of_stream(action);
}

std::vector<BackwardPoint> RankExecutor::points_within() {
  std::vector<BackwardPoint> points;
  for (const Action& action : within_) {
    points.push_back({action.after, [this, &action] { reduce_within(action); }});
  }
  return points;
}

// The time that it takes is not the backward's.
void RankExecutor::reduce_within(const Action& action) {
  double wall_s = 0;
  double cpu_s = 0;
  try {
    const Stopwatch watch(&wall_s, cpu_s);
    action.kind == ActionKind::kStartReduce ? start_reduce(action) : wait_reduce(action);
    if (options_.after_action) options_.after_action(action);
  } catch (const std::exception& error) {
    rethrow(error, action);
  }
  measured_.compute_s -= wall_s;
  measured_.compute_cpu_s -= cpu_s;
}

void RankExecutor::backward_weight(const Action& action) {
  const Stopwatch watch(&measured_.compute_s, measured_.compute_cpu_s);
  stage(action.stage).runner->backward_weight(action.samples);
}

void RankExecutor::start_send(const Action& action) {
  const StageWork& runner = *stage(action.stage).runner;
  // A message carries a part of what one task made: the task is this action's micro-batch.
  const SampleRange made = replica_samples(plan_.stage(action.stage), action.replica,
                                           action.micro_batch, mini_batch_samples());
  std::vector<TensorPart> parts;
  for (const TensorId tensor : mailbox_.layout(action.edge, action.direction).tensors()) {
    at::Tensor values = action.direction == Direction::kForward
                            ? runner.output(made, tensor).detach()
                            : runner.input_gradient(made, tensor);
    if (values.defined()) values = values.contiguous();
    parts.push_back({tensor, std::move(values), made});
  }
  mailbox_.start_send(action, parts);
  measured_.bytes_sent += action.bytes;
}

void RankExecutor::start_reduce(const Action& action) {
  if (!run_.part.last) return;  // there is more to add up first
  const std::int64_t within = is_stream() ? mini_batch_of(action.micro_batch - 1) : 0;
  reducer_.start(action.bucket, run_.iteration + within);
  const auto holders =
      static_cast<std::int64_t>(buckets_[static_cast<std::size_t>(action.bucket)].ranks.size());
  // To each holder its part of the gradients, and then the sum of the own part.
  measured_.bytes_sent += 2 * action.bytes * (holders - 1) / holders;
}

void RankExecutor::wait_reduce(const Action& action) {
  if (run_.part.last) reducer_.wait(action.bucket);
}

// A program steps after every mini-batch; whether that is now, later or after the run is not
// its concern.
void RankExecutor::step(const Action& action) {
  if (is_stream()) return step_of_stream(action);
  OwnStage& own = stage(action.stage);
  if (!run_.part.last) return;
  if (run_.metrics || steps_later()) {
    for (const ParamId param : own.trained) {
      if (!counted_.contains(param)) continue;  // another holder does
      gradient_squares_[param.index()] = sum_of_squares(params_[param.index()].grad());
    }
  }
  if (!steps_later()) step_stage(own);
}

bool RankExecutor::steps_later() const {
  return options_.train.clip > 0 || options_.train.on_nan == OnNan::kSkip;
}

void RankExecutor::scale_and_step(double factor) {
  for (OwnStage& own : stages_) {
    for (const ParamId param : own.trained) scale(params_[param.index()].grad(), factor);
    step_stage(own);
  }
}

void RankExecutor::step_stage(OwnStage& own) {
  {
    const Stopwatch watch(nullptr, measured_.step_cpu_s);
    own.optimizer->step(learning_rate_at(options_.train, run_.part.step));
  }
  if (options_.keep_gradients) return;
  for (const ParamId param : own.trained) params_[param.index()].mutable_grad().reset();
}

}  // namespace graphpipe
