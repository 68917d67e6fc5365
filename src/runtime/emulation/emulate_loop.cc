#include "runtime/emulation/emulate_loop.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "job/train_lines.h"
#include "runtime/clock.h"
#include "runtime/emulation/emulated_network.h"
#include "runtime/emulation/emulated_rank.h"
#include "runtime/emulation/transfer_model.h"
#include "runtime/run_meter.h"
#include "runtime/shared_table.h"
#include "runtime/stage_report.h"
#include "runtime/stand_in_stage.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/task_seconds.h"
#include "schedule/trace_json.h"

namespace graphpipe {
namespace {

// Between what ranks agree to be the start and the start: all have heard of it by then.
constexpr double kLeadS = 0.05;

// As many samples as asked for, of nothing.
class StandInDataset final : public Dataset {
 public:
  StandInDataset(const Graph& graph, std::int64_t samples) : samples_(samples) {
    const Graph stand_ins = stand_in_graph(graph);
    for (const TensorId input : graph.inputs) {
      const Tensor& tensor = stand_ins.tensor(input);
      fields_.push_back({tensor.name, tensor.dtype, tensor.shape, &nothing_});
    }
  }
  std::string name() const override { return "stand-ins"; }
  std::int64_t samples() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }

 private:
  std::int64_t samples_;
  std::byte nothing_{};
  std::vector<Field> fields_;
};

// What a run goes over at a time: a mini-batch, or a stream of them.
std::int64_t run_samples(const EmulateRun& run) {
  if (!is_asynchronous(run.plan.weights)) return run.plan.mini_batch;
  return std::max(schedule_samples(run.plan), run.options.iterations * run.plan.mini_batch);
}

// When a rank has come how far in a stream, between its pipeline's filling and its draining.
class SteadyWatch {
 public:
  SteadyWatch(const Plan& plan, std::int64_t samples) {
    std::int64_t most = 0;
    for (const Stage& stage : plan.stages) most = std::max(most, stage.in_flight_samples);
    first_ = most;
    last_ = samples - most;
  }
  void after_backward(const Action& action, double at_s) {
    if (action.samples.hi < first_ || action.samples.hi > last_) return;
    if (from_ == 0) {
      from_ = action.samples.hi;
      from_s_ = at_s;
    }
    to_ = action.samples.hi;
    to_s_ = at_s;
  }
  double sample_s() const {
    return to_ > from_ ? (to_s_ - from_s_) / static_cast<double>(to_ - from_) : 0;
  }

 private:
  std::int64_t first_;
  std::int64_t last_;
  std::int64_t from_ = 0;  // samples that have come back
  std::int64_t to_ = 0;
  double from_s_ = 0;
  double to_s_ = 0;
};

// What ranks tell one another after an iteration.
struct RankResult {
  double wall_s = 0;
  double sample_s = 0;  // of a stream, in its steady part
  double busy_s = 0;
  double late_s = 0;
  double most_late_s = 0;
  double peak_bytes = 0;
};

class EmulateLoop {
 public:
  EmulateLoop(const EmulateRun& run, const LineSink& emit)
      : run_(run),
        emit_(emit),
        rank_(static_cast<std::size_t>(run.transport.rank())),
        stream_(is_asynchronous(run.plan.weights)),
        samples_(run_samples(run)),
        lowered_(lower(build_schedule(run.plan, run.graph, samples_), run.plan, run.graph)),
        stretched_(emulation_stretch(lowered_, run.plan, run.graph, run.cluster, run.costs,
                                     static_cast<int>(std::thread::hardware_concurrency()))),
        stretch_(stretched_.factor),
        transfers_(lowered_, run.plan, run.cluster, run.costs, stretch_),
        network_(open_network()),
        emulated_(lowered_, run.plan, run.graph, run.cluster, run.costs, rank_, transfers_,
                  network_, stretch_),
        dataset_(run.graph, samples_),
        trainer_(run.plan, run.graph, run.cluster, dataset_, run.transport, options()),
        meter_(trainer_) {}

  void run() {
    trainer_.prepare(samples_);
    const double start_s = wall_s();
    if (stream_) {
      run_stream();
    } else {
      for (std::int64_t i = 0; i < run_.options.iterations; ++i) run_iteration(i);
    }
    if (!run_.options.trace_path.empty()) write_trace();
    const std::vector<IterationTotals> executed = meter_.gather(run_.transport);
    run_.transport.barrier();  // nobody needs anybody from here on
    if (is_rank_0()) finish(executed, wall_s() - start_s);
  }

 private:
  bool is_rank_0() const { return run_.transport.rank() == 0; }

  std::string network_path() const { return run_.folder + "/network"; }
  EmulatedNetwork open_network() const {
    if (is_rank_0()) EmulatedNetwork::create(network_path(), transfers_);
    run_.transport.barrier();
    return {network_path(), transfers_, rank_, run_.options.timeout_s};
  }

  RankTrainerOptions options() {
    RankTrainerOptions options;
    options.train = run_.options;
    options.train.optimizer = OptimizerKind::kSgd;  // of no elements: it has nothing to do
    options.on_action = [this](const Action& action, std::int64_t iteration, std::int64_t position,
                               const char* phase) {
      emulated_.before(action);
      if (run_.on_action) run_.on_action(action, iteration, position, phase);
    };
    options.after_action = [this](const Action& action) {
      emulated_.after(action);
      if (stream_ && action.kind == ActionKind::kBackward) {
        watch_.after_backward(action, emulated_.own_time_s());
      }
    };
    options.stand_ins = true;
    options.trace = !run_.options.trace_path.empty();
    return options;
  }

  // The same moment on every rank: the machine's clock is one.
  double agreed_start_s() const {
    const at::Tensor start = at::zeros({1}, at::kDouble);
    if (is_rank_0()) *start.data_ptr<double>() = wall_s() + kLeadS;
    run_.transport.all_reduce_sum(start);
    return *start.data_ptr<double>();
  }

  void run_iteration(std::int64_t iteration) {
    const std::vector<std::int64_t> ids = begin_run();
    meter_.train(ids, iteration, false, {iteration, samples_}, true);
    end_run();
    if (is_rank_0()) emit_iteration(iteration, most(&RankResult::wall_s));
  }

  // All mini-batches at once. Its iterations are those of the steady part.
  void run_stream() {
    const std::vector<std::int64_t> ids = begin_run();
    meter_.train_stream(ids, 0);
    end_run();
    if (is_rank_0()) emit_iteration(mini_batches() - 1, iteration_wall_s());
  }

  std::int64_t mini_batches() const { return samples_ / run_.plan.mini_batch; }

  // Of a mini-batch, by the clock.
  double iteration_wall_s() const {
    if (!stream_) return wall_s_ / static_cast<double>(run_.options.iterations);
    return most(&RankResult::sample_s) * static_cast<double>(run_.plan.mini_batch);
  }

  // What the runs took that the ranks' work was done in: of a stream, were all of it steady.
  double all_s(double in_a_run) const { return stream_ ? iteration_wall_s() * in_a_run : wall_s_; }

  std::vector<std::int64_t> begin_run() {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(samples_));
    std::iota(ids.begin(), ids.end(), 0);
    if (is_rank_0()) network_.reset();
    start_s_ = agreed_start_s();
    emulated_.begin(start_s_);
    return ids;
  }

  void end_run() {
    GP_CHECK(emulated_.held_bytes() == emulated_.static_bytes(),
             "{} bytes are held at the end of an iteration, {} at its start",
             emulated_.held_bytes(), emulated_.static_bytes());
    share({.wall_s = wall_s() - start_s_,
           .sample_s = watch_.sample_s(),
           .busy_s = emulated_.busy_s(),
           .late_s = emulated_.late_s(),
           .most_late_s = emulated_.most_late_s(),
           .peak_bytes = static_cast<double>(emulated_.peak_bytes())});
  }

  // Collective.
  void share(const RankResult& own) {
    constexpr std::int64_t kColumns = sizeof(RankResult) / sizeof(double);
    SharedTable table(run_.transport.size(), kColumns);
    auto* rows = reinterpret_cast<RankResult*>(table.row(0));
    rows[rank_.index()] = own;
    table.exchange(run_.transport);
    results_.assign(rows, rows + run_.transport.size());
    wall_s_ += most(&RankResult::wall_s);
    for (const RankResult& rank : results_) busy_s_ += rank.busy_s;
    most_late_s_ = std::max(most_late_s_, most(&RankResult::most_late_s));
  }

  double most(double RankResult::*column) const {
    double result = 0;
    for (const RankResult& rank : results_) result = std::max(result, rank.*column);
    return result;
  }

  void emit_iteration(std::int64_t iteration, double wall_s) const {
    EmulatedIterationLine line;
    line.iteration = iteration;
    line.wall_s = wall_s;
    line.iteration_s = line.wall_s / stretch_;
    line.samples_per_s = static_cast<double>(run_.plan.mini_batch) / line.iteration_s;
    emit_(to_json_line(line));
  }

  void write_trace() const {
    const Trace trace = meter_.gather_trace(run_.transport, run_.plan.mini_batch);
    if (!is_rank_0()) return;
    write_file(run_.options.trace_path, to_chrome_trace(trace, lowered_, run_.plan));
  }

  void finish(std::vector<IterationTotals> ranks, double elapsed_s) const {
    // Of a stream's compute the mini-batches have a part each.
    const auto in_a_run = static_cast<double>(stream_ ? mini_batches() : 1);
    double cpu_s = 0;
    double actions = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      cpu_s += ranks[r].total_cpu_s;
      actions += static_cast<double>(ranks[r].actions);
      const auto measured = static_cast<double>(ranks[r].iterations);
      ranks[r].wall_s = measured * iteration_wall_s() / stretch_;
      ranks[r].compute_s = ranks[r].compute_cpu_s =
          measured * results_[r].busy_s / in_a_run / stretch_;
      ranks[r].peak_bytes = static_cast<std::int64_t>(results_[r].peak_bytes);
    }
    DoneLine line;
    line.iterations = stream_ ? mini_batches() : run_.options.iterations;
    line.elapsed_s = elapsed_s;
    report_measurements(run_.plan, run_.graph, run_.cluster, run_.costs, ranks, line);
    line.executor_overhead = 0;  // there are no operators to compare with
    line.action_s = actions > 0 ? cpu_s / actions : 0;
    line.emulation = EmulationReport{
        .ranks_as = run_.ranks_as,
        .stretch = stretch_,
        .shortest_task_s = stretched_.shortest_task_s,
        .wall_s = iteration_wall_s(),
        .late_s = most(&RankResult::late_s),
        .most_late_s = most_late_s_,
        .bubble_fraction = 1 - busy_s_ / all_s(in_a_run) / static_cast<double>(ranks.size())};
    emit_(to_json_line(line));
  }

  const EmulateRun& run_;
  const LineSink& emit_;
  const RankId rank_;
  const bool stream_;
  const std::int64_t samples_;  // of a run
  const Schedule lowered_;
  const EmulationStretch stretched_;
  const double stretch_;
  const TransferModel transfers_;
  EmulatedNetwork network_;
  EmulatedRank emulated_;
  const StandInDataset dataset_;
  RankTrainer trainer_;
  RunMeter meter_;
  SteadyWatch watch_{run_.plan, samples_};
  double start_s_ = 0;               // of the run at hand
  std::vector<RankResult> results_;  // [rank], of the last iteration
  double wall_s_ = 0;                // of all iterations
  double busy_s_ = 0;                // ... of all ranks
  double most_late_s_ = 0;
};

}  // namespace

void run_emulation(const EmulateRun& run, const LineSink& emit) { EmulateLoop(run, emit).run(); }

}  // namespace graphpipe
