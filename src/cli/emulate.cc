#include "cli/emulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <variant>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/job_folder.h"
#include "cli/progress.h"
#include "cli/trace_file.h"
#include "job/launcher.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/task_seconds.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

// A machine that is behind by more of an iteration shows in its time.
constexpr double kLateShare = 0.02;

// How long the workers may wait for one another, beside what the run is expected to take.
constexpr double kIterationsOfPatience = 3;

struct Prediction {
  double iteration_s = 0;  // of a stream, a mini-batch's in the steady state
  double bubble_fraction = 0;
  double stretch = 1;
  double all_s = 0;  // of the whole run, before it is stretched
  bool stream = false;
};

double stretch_of(const LoadedPlan& loaded, std::int64_t samples) {
  const Schedule schedule =
      lower(build_schedule(loaded.plan, loaded.graph, samples), loaded.plan, loaded.graph);
  return emulation_stretch(schedule, loaded.plan, loaded.graph, loaded.cluster, *loaded.costs,
                           static_cast<int>(std::thread::hardware_concurrency()))
      .factor;
}

Prediction predict(const LoadedPlan& loaded, std::int64_t iterations) {
  const Plan& plan = loaded.plan;
  if (!is_asynchronous(plan.weights)) {
    const Trace trace = simulate_plan(plan, loaded.graph, loaded.cluster, *loaded.costs, {}, true);
    return {trace.iteration_s, trace.bubble_fraction(), stretch_of(loaded, plan.mini_batch),
            static_cast<double>(iterations) * trace.iteration_s};
  }
  const std::int64_t samples = std::max(schedule_samples(plan), iterations * plan.mini_batch);
  const SteadyState steady = simulate_steady(plan, loaded.graph, loaded.cluster, *loaded.costs);
  const Trace stream = simulate_samples(plan, samples, loaded.graph, loaded.cluster, *loaded.costs);
  return {steady.mini_batch_s, steady.bubble_fraction, stretch_of(loaded, samples),
          stream.iteration_s, true};
}

// "3 iterations of 12 ms", "a stream of mini-batches of 12 ms".
std::string run_text(const Plan& plan, const Prediction& prediction, std::int64_t iterations) {
  const std::string each = seconds_text(prediction.iteration_s);
  if (is_asynchronous(plan.weights)) return fmt::format("a stream of mini-batches of {}", each);
  return fmt::format("{} {} of {}", iterations, iterations == 1 ? "iteration" : "iterations", each);
}

std::string departure_text(double measured, double predicted) {
  return predicted > 0 ? fmt::format("{:+.1f} %", 100 * (measured / predicted - 1)) : "-";
}

std::string emulated_text(const DoneLine& done) {
  const EmulationReport& emulation = *done.emulation;
  std::string text = fmt::format(
      "{} ranks as {}, {} {}; all times stretched {:.3g} times (the shortest task, {}, takes {})\n",
      done.ranks, emulation.ranks_as, done.iterations,
      done.iterations == 1 ? "iteration" : "iterations", emulation.stretch,
      seconds_text(emulation.shortest_task_s),
      seconds_text(emulation.shortest_task_s * emulation.stretch));
  text +=
      fmt::format("iteration: predicted {}, emulated {} ({}; {} on the clock)\n",
                  seconds_text(done.predicted_iteration_s), seconds_text(done.measured_iteration_s),
                  departure_text(done.measured_iteration_s, done.predicted_iteration_s),
                  seconds_text(emulation.wall_s));
  text += fmt::format("bubble: predicted {:.1f} %, emulated {:.1f} %\n",
                      100 * emulation.predicted_bubble_fraction, 100 * emulation.bubble_fraction);
  text += fmt::format("this machine was at most {} behind, {} at the end\n\n",
                      seconds_text(emulation.most_late_s), seconds_text(emulation.late_s));
  return text + stages_text(done);
}

// Adds what only this side knows to what the workers measured.
class EmulationDisplay {
 public:
  EmulationDisplay(bool json, const Prediction& prediction, std::int64_t iterations)
      : json_(json), prediction_(prediction), iterations_(iterations) {}

  void show(const std::string& line) {
    const TrainLine parsed = parse_train_line(line);
    if (const auto* done = std::get_if<DoneLine>(&parsed); done && done->emulation) {
      progress_.clear();
      return finish(*done);
    }
    if (json_) return print_out(line);
    if (const auto* iteration = std::get_if<EmulatedIterationLine>(&parsed)) {
      progress_.draw(
          "emulating",
          static_cast<double>(iteration->iteration + 1) / static_cast<double>(iterations_),
          seconds_text(iteration->iteration_s) + " an iteration");
    }
  }

 private:
  void finish(DoneLine done) const {
    done.predicted_iteration_s = prediction_.iteration_s;
    done.emulation->predicted_bubble_fraction = prediction_.bubble_fraction;
    print_out(json_ ? to_json_line(done) : emulated_text(done));
    const double run_s =  // that ends with what is late
        done.emulation->wall_s * static_cast<double>(prediction_.stream ? done.iterations : 1);
    if (done.emulation->late_s <= kLateShare * run_s) return;
    print_note(
        fmt::format("this machine was {} behind at the end of an iteration of {}: it is too "
                    "busy for these ranks, and the times are too long",
                    seconds_text(done.emulation->late_s), seconds_text(run_s)));
  }

  bool json_;
  Prediction prediction_;
  std::int64_t iterations_;
  ProgressLine progress_;
};

}  // namespace

void run_emulation(const std::string& worker, const LoadedPlan& loaded, const TrainOptions& train,
                   CommandLine& line) {
  if (!can_run(loaded)) {
    line.exit_code = kExitNo;
    return;
  }
  const Prediction prediction = predict(loaded, train.iterations);
  const double all_s = prediction.all_s * prediction.stretch;
  print_note(fmt::format("about {}: {}, stretched {:.3g} times", seconds_text(all_s),
                         run_text(loaded.plan, prediction, train.iterations), prediction.stretch));
  const JobFolder folder;
  Job job;
  job.kind = "emulate";
  job.folder = folder.path();
  job.rendezvous = local_rendezvous();
  job.train = train;
  const double run_s =
      is_asynchronous(loaded.plan.weights) ? all_s : prediction.iteration_s * prediction.stretch;
  job.train.timeout_s = std::max(train.timeout_s, kIterationsOfPatience * run_s);
  job.model = loaded.plan.model;
  write_job_files(job, {loaded.plan, loaded.graph, loaded.cluster}, loaded.profile_path);
  EmulationDisplay display(line.json, prediction, train.iterations);
  const LaunchResult result = run_workers(worker, job, worker_count(job, loaded.plan),
                                          [&](const std::string& text) { display.show(text); });
  if (result.exit_code == 0) {
    const std::string& trace = train.trace_path;
    if (!trace.empty()) write_trace_with_prediction(trace, trace, loaded, prediction.stretch);
    return;
  }
  print_failure(result);
  line.exit_code = result.exit_code;
}

}  // namespace graphpipe
