#include "runtime/train_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "data/bias_baseline.h"
#include "data/index_stream.h"
#include "job/fault.h"
#include "job/step_part.h"
#include "job/train_lines.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/finite.h"
#include "runtime/run_meter.h"
#include "runtime/stage_report.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/trace_json.h"

namespace graphpipe {
namespace {

class TrainLoop {
 public:
  TrainLoop(const TrainRun& run, const LineSink& emit)
      : run_(run),
        options_(run.options),
        emit_(emit),
        split_(split_dataset(run.dataset, options_.seed)),
        stream_(split_.train, run.plan.mini_batch, options_.seed),
        meter_(run.trainer),
        total_(options_.iterations > 0 ? options_.iterations
                                       : options_.epochs * stream_.iterations_per_epoch()),
        keeps_best_(options_.iterations == 0),
        evaluate_every_(options_.eval_every > 0 ? options_.eval_every
                        : keeps_best_           ? stream_.iterations_per_epoch()
                                                : 0) {
    if (options_.checkpoint.folder.empty()) return;
    checkpoints_ = std::make_unique<CheckpointWriter>(CheckpointRun{.options = options_,
                                                                    .plan = run.plan,
                                                                    .graph = run.graph,
                                                                    .dataset = run.dataset,
                                                                    .trainer = run.trainer,
                                                                    .rank = run.transport.rank(),
                                                                    .files = run.checkpoint_files});
    if (const auto progress = checkpoints_->resume()) resume(*progress);
  }

  void run() {
    run_.trainer.reset_measurements();
    run_.transport.barrier();
    start_s_ = logged_s_ = monotonic_s();
    while (!is_finished()) {
      is_asynchronous(run_.plan.weights) ? train_stream() : train_one();
      if (is_evaluation_due()) evaluate();
      if (checkpoints_) save_where_due();
    }
    finish();
  }

 private:
  bool is_rank_0() const { return run_.transport.rank() == 0; }
  double elapsed_s() const { return monotonic_s() - start_s_; }
  double epochs() const {
    return static_cast<double>(done_) / static_cast<double>(stream_.iterations_per_epoch());
  }

  bool is_finished() const { return (total_ > 0 && done_ >= total_) || is_out_of_patience(); }
  bool is_out_of_patience() const {
    return keeps_best_ && options_.patience > 0 && without_improvement_ >= options_.patience;
  }
  bool is_evaluation_due() const {
    return evaluate_every_ > 0 && (done_ % evaluate_every_ == 0 || done_ == total_);
  }

  void save_where_due() {
    checkpoints_->check();
    if (!checkpoints_->is_due(done_, is_finished())) return;
    checkpoints_->save(progress(), stream_.iterations_per_epoch());
  }

  TrainProgress progress() const {
    TrainProgress at;
    at.iteration = done_;
    at.evaluations = evaluations_;
    at.without_improvement = without_improvement_;
    if (std::isfinite(best_loss_)) at.best_loss = best_loss_;
    at.best_validation = best_validation_;
    at.last_validation = last_validation_;
    at.skipped = skipped_;
    return at;
  }
  void resume(const TrainProgress& at) {
    done_ = at.iteration;
    evaluations_ = at.evaluations;
    without_improvement_ = at.without_improvement;
    if (at.best_loss) best_loss_ = *at.best_loss;
    best_validation_ = at.best_validation;
    last_validation_ = at.last_validation;
    skipped_ = at.skipped;
  }

  // Before a checkpoint: one of weights that are no numbers is not to take the place of others.
  bool is_watched(const StepPart& part) const {
    if (is_logged(part.step)) return true;
    const std::int64_t end = (part.step + 1) * options_.accumulate;
    return checkpoints_ && checkpoints_->is_due(end, false);
  }

  // A step is, where one of its iterations is due.
  bool is_logged(std::int64_t step) const {
    const std::int64_t begin = step * options_.accumulate;
    const std::int64_t end = begin + options_.accumulate;
    const std::int64_t every = options_.log_every;
    return (begin + every - 1) / every * every < end || (total_ > 0 && end >= total_);
  }

  void train_one() {
    const std::int64_t iteration = done_;
    const std::vector<std::int64_t> ids = stream_.mini_batch(iteration);
    const bool full = static_cast<std::int64_t>(ids.size()) == run_.plan.mini_batch;
    const StepPart part = step_part(options_.accumulate, iteration, total_,
                                    [&](std::int64_t i) { return stream_.mini_batch_samples(i); });
    const IterationResult result = meter_.train(ids, iteration, is_watched(part), part, full);
    ++done_;
    last_samples_ = static_cast<std::int64_t>(ids.size());
    samples_since_log_ += last_samples_;
    if (part.last) judge(iteration, result, part);
  }

  // To the next evaluation, or the end of the epoch or of the run: there the pipeline runs dry.
  void train_stream() {
    const std::int64_t first = done_;
    const auto next = [first](std::int64_t every) { return (first / every + 1) * every; };
    std::int64_t end = next(stream_.iterations_per_epoch());
    if (evaluate_every_ > 0) end = std::min(end, next(evaluate_every_));
    if (total_ > 0) end = std::min(end, total_);
    std::vector<std::int64_t> ids;
    for (std::int64_t i = first; i < end; ++i) {
      const std::vector<std::int64_t> more = stream_.mini_batch(i);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    const double start_s = monotonic_s();
    const std::vector<double> losses = meter_.train_stream(ids, first);
    const double samples_per_s = static_cast<double>(ids.size()) / (monotonic_s() - start_s);
    for (std::int64_t i = first; i < end; ++i) {
      ++done_;
      const double loss = losses[static_cast<std::size_t>(i - first)];
      require_finite("loss", loss, fmt::format("at iteration {}", i));
      if (!is_logged(i)) continue;
      emit_iteration({.iteration = i,
                      .epoch = epochs(),
                      .loss = loss,
                      .learning_rate = learning_rate_at(options_, i),
                      .samples_per_s = samples_per_s});
    }
    logged_s_ = monotonic_s();
  }

  // A step that was skipped is always told.
  void judge(std::int64_t iteration, const IterationResult& result, const StepPart& part) {
    if (result.skipped) {
      ++skipped_;
    } else {
      const std::string at = fmt::format("at iteration {}", iteration);
      require_finite("loss", result.loss, at);
      require_finite("gradient norm", result.grad_norm, at);
    }
    if (result.skipped || is_logged(part.step)) {
      log(iteration, result, learning_rate_at(options_, part.step));
    }
  }

  void log(std::int64_t iteration, const IterationResult& result, double learning_rate) {
    const double now_s = monotonic_s();
    emit_iteration({.iteration = iteration,
                    .epoch = epochs(),
                    .loss = result.loss,
                    .grad_norm = result.grad_norm,
                    .learning_rate = learning_rate,
                    .samples_per_s = static_cast<double>(samples_since_log_) / (now_s - logged_s_),
                    .skipped = result.skipped});
    logged_s_ = now_s;
    samples_since_log_ = 0;
  }

  void emit_iteration(const IterationLine& line) const {
    if (is_rank_0()) emit_(to_json_line(line));
  }

  // All ranks see the same number; rank 0 is the one to report it.
  void require_finite(const char* name, double value, const std::string& at) const {
    if (std::isfinite(value)) return;
    const std::string message = not_finite_text(name, value, at);
    if (is_rank_0()) throw RunError(message);
    throw PeerError("rank 0: " + message);
  }

  void evaluate() {
    const double before_s = monotonic_s();
    const std::map<std::string, double> validation = run_.trainer.evaluate(split_.validation);
    ++evaluations_;
    const double loss = validation.at("loss");
    require_finite("validation loss", loss, fmt::format("after {} iterations", done_));
    const bool best = loss < best_loss_;
    without_improvement_ = best ? 0 : without_improvement_ + 1;
    if (best) {
      best_loss_ = loss;
      best_validation_ = validation;
      if (keeps_best_) run_.trainer.save_weights();
    }
    last_validation_ = validation;
    if (is_rank_0()) emit_evaluation(validation, best);
    logged_s_ += monotonic_s() - before_s;  // not time that training took
  }

  void emit_evaluation(const std::map<std::string, double>& validation, bool best) const {
    EvaluationLine line;
    line.evaluation = evaluations_;
    line.epoch = epochs();
    line.validation = validation;
    line.best = best;
    line.elapsed_s = elapsed_s();
    emit_(to_json_line(line));
  }

  void finish() {
    DoneLine line;
    line.elapsed_s = elapsed_s();
    if (checkpoints_) checkpoints_->finish();
    if (keeps_best_ && without_improvement_ > 0) run_.trainer.restore_weights();
    line.iterations = done_;
    line.epochs = epochs();
    line.stopped_early = is_out_of_patience();
    line.skipped_steps = skipped_;
    line.validation = keeps_best_ ? best_validation_ : last_validation_;
    line.metrics = run_.trainer.evaluate(split_.test);
    const std::vector<IterationTotals> ranks = meter_.gather(run_.transport);
    if (!options_.trace_path.empty()) write_trace();
    run_.transport.barrier();  // nobody needs anybody from here on
    if (!is_rank_0()) return;
    report_measurements(run_.plan, run_.graph, run_.cluster, run_.costs, ranks, line);
    if (const auto baseline = bias_baseline(run_.dataset, split_)) {
      line.baseline_rmse = baseline->test_rmse;
    }
    emit_(to_json_line(line));
  }

  void write_trace() const {
    const Trace trace = meter_.gather_trace(run_.transport, last_samples_);
    if (!is_rank_0()) return;
    const Schedule schedule =
        lower(build_schedule(run_.plan, run_.graph, last_samples_), run_.plan, run_.graph);
    write_file(options_.trace_path, to_chrome_trace(trace, schedule, run_.plan));
  }

  const TrainRun& run_;
  const TrainOptions& options_;
  const LineSink& emit_;
  const Split split_;
  const IndexStream stream_;
  RunMeter meter_;
  const std::int64_t total_;  // iterations; 0: until validation stops improving
  const bool keeps_best_;
  const std::int64_t evaluate_every_;  // iterations; 0: never

  std::int64_t done_ = 0;  // iterations
  std::int64_t last_samples_ = 0;
  std::int64_t samples_since_log_ = 0;
  std::int64_t skipped_ = 0;  // steps
  double start_s_ = 0;
  double logged_s_ = 0;
  std::int64_t evaluations_ = 0;
  std::int64_t without_improvement_ = 0;
  double best_loss_ = std::numeric_limits<double>::infinity();
  std::map<std::string, double> best_validation_;
  std::map<std::string, double> last_validation_;
  std::unique_ptr<CheckpointWriter> checkpoints_;  // null: none are asked for
};

}  // namespace

void run_training(const TrainRun& run, const LineSink& emit) { TrainLoop(run, emit).run(); }

}  // namespace graphpipe
