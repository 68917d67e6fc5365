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
  double iteration_s = 0;
  double bubble_fraction = 0;
  double stretch = 1;
};

Prediction predict(const LoadedPlan& loaded) {
  const Trace trace =
      simulate_plan(loaded.plan, loaded.graph, loaded.cluster, *loaded.costs, {}, true);
  const Schedule schedule = lower(build_schedule(loaded.plan, loaded.graph, loaded.plan.mini_batch),
                                  loaded.plan, loaded.graph);
  const EmulationStretch stretch =
      emulation_stretch(schedule, loaded.plan, loaded.graph, loaded.cluster, *loaded.costs,
                        static_cast<int>(std::thread::hardware_concurrency()));
  return {trace.iteration_s, trace.bubble_fraction(), stretch.factor};
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
    if (done.emulation->late_s <= kLateShare * done.emulation->wall_s) return;
    print_note(
        fmt::format("this machine was {} behind at the end of an iteration of {}: it is too "
                    "busy for these ranks, and the times are too long",
                    seconds_text(done.emulation->late_s), seconds_text(done.emulation->wall_s)));
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
  const Prediction prediction = predict(loaded);
  const double iteration_s = prediction.iteration_s * prediction.stretch;
  const auto iterations = static_cast<double>(train.iterations);
  print_note(fmt::format("about {}: {} {} of {}, stretched {:.3g} times",
                         seconds_text(iterations * iteration_s), train.iterations,
                         train.iterations == 1 ? "iteration" : "iterations",
                         seconds_text(prediction.iteration_s), prediction.stretch));
  const JobFolder folder;
  Job job;
  job.kind = "emulate";
  job.folder = folder.path();
  job.train = train;
  job.train.timeout_s = std::max(train.timeout_s, kIterationsOfPatience * iteration_s);
  job.model = loaded.plan.model;
  write_job_files(job, {loaded.plan, loaded.graph, loaded.cluster}, loaded.profile_path);
  EmulationDisplay display(line.json, prediction, train.iterations);
  const LaunchResult result = run_workers(worker, job, worker_count(job, loaded.plan),
                                          [&](const std::string& text) { display.show(text); });
  if (result.exit_code == 0) return;
  print_failure(result);
  line.exit_code = result.exit_code;
}

}  // namespace graphpipe
