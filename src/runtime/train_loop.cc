#include "runtime/train_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "data/bias_baseline.h"
#include "data/index_stream.h"
#include "job/fault.h"
#include "job/step_part.h"
#include "job/train_lines.h"
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
        split_(split_dataset(run.dataset.samples(), options_.seed)),
        stream_(split_.train, run.plan.mini_batch, options_.seed),
        meter_(run.trainer),
        total_(options_.iterations > 0 ? options_.iterations
                                       : options_.epochs * stream_.iterations_per_epoch()),
        keeps_best_(options_.iterations == 0),
        evaluate_every_(options_.eval_every > 0 ? options_.eval_every
                        : keeps_best_           ? stream_.iterations_per_epoch()
                                                : 0) {}

  void run() {
    run_.trainer.reset_measurements();
    run_.transport.barrier();
    start_s_ = logged_s_ = monotonic_s();
    while (!is_finished()) {
      is_asynchronous(run_.plan.weights) ? train_stream() : train_one();
      if (is_evaluation_due()) evaluate();
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
    const bool logged = is_logged(part.step);
    const IterationResult result = meter_.train(ids, iteration, logged, part, full);
    ++done_;
    last_samples_ = static_cast<std::int64_t>(ids.size());
    samples_since_log_ += last_samples_;
    if (logged && part.last) log(iteration, result, learning_rate_at(options_, part.step));
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
      if (!is_logged(i)) continue;
      const double loss = losses[static_cast<std::size_t>(i - first)];
      require_finite("loss", loss, fmt::format("at iteration {}", i));
      emit_iteration(i, loss, {}, learning_rate_at(options_, i), samples_per_s);
    }
    logged_s_ = monotonic_s();
  }

  void log(std::int64_t iteration, const IterationResult& result, double learning_rate) {
    const std::string at = fmt::format("at iteration {}", iteration);
    require_finite("loss", result.loss, at);
    require_finite("gradient norm", result.grad_norm, at);
    const double now_s = monotonic_s();
    emit_iteration(iteration, result.loss, result.grad_norm, learning_rate,
                   static_cast<double>(samples_since_log_) / (now_s - logged_s_));
    logged_s_ = now_s;
    samples_since_log_ = 0;
  }

  void emit_iteration(std::int64_t iteration, double loss, std::optional<double> grad_norm,
                      double learning_rate, double samples_per_s) const {
    if (!is_rank_0()) return;
    IterationLine line;
    line.iteration = iteration;
    line.epoch = epochs();
    line.loss = loss;
    line.grad_norm = grad_norm;
    line.learning_rate = learning_rate;
    line.samples_per_s = samples_per_s;
    emit_(to_json_line(line));
  }

  // All ranks see the same number; rank 0 is the one to report it.
  void require_finite(const char* name, double value, const std::string& at) const {
    if (std::isfinite(value)) return;
    const std::string message = fmt::format("{} is {} {}; try a smaller learning rate", name,
                                            std::isnan(value) ? "nan" : "infinite", at);
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
    if (keeps_best_ && without_improvement_ > 0) run_.trainer.restore_weights();
    line.iterations = done_;
    line.epochs = epochs();
    line.stopped_early = is_out_of_patience();
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
  double start_s_ = 0;
  double logged_s_ = 0;
  std::int64_t evaluations_ = 0;
  std::int64_t without_improvement_ = 0;
  double best_loss_ = std::numeric_limits<double>::infinity();
  std::map<std::string, double> best_validation_;
  std::map<std::string, double> last_validation_;
};

}  // namespace

void run_training(const TrainRun& run, const LineSink& emit) { TrainLoop(run, emit).run(); }

}  // namespace graphpipe
