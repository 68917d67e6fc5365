// graphpipe train PLAN: run it, on local ranks or as one rank of a launched job.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/elastic.h"
#include "cli/emulate.h"
#include "cli/host_ranks.h"
#include "cli/job_folder.h"
#include "cli/trace_file.h"
#include "cli/train_display.h"
#include "cli/train_flags.h"
#include "cost/profile_json.h"
#include "data/dataset.h"
#include "graph/weights.h"
#include "job/checkpoint/checkpoint_folder.h"
#include "models/onnx/export.h"
#include "plan/calibration.h"
#include "plan/weight_versions.h"
#include "report/text_report.h"

namespace graphpipe {
namespace {

std::string steps_late_note(const Plan& plan) {
  const VersionRule rule(plan);
  std::vector<std::int64_t> late;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) late.push_back(rule.steps_late(StageId(s)));
  return fmt::format("weights {}: by stage, gradients are {} steps late",
                     weight_policy_name(plan.weights), fmt::join(late, " "));
}

// What the ranks left, each parameter once.
Weights trained_weights(const std::string& folder, int ranks) {
  Weights weights;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = saved_weights_path(folder, rank);
    weights.merge(parse_safetensors(read_file(path), path));
  }
  return weights;
}

void save(const TrainFlags& flags, const Graph& graph, const Weights& weights) {
  if (!flags.save_weights.empty()) write_file(flags.save_weights, to_safetensors(weights));
  if (flags.save_onnx.empty()) return;
  write_file(flags.save_onnx, to_onnx(export_onnx(graph, weights, "--save-onnx")));
}

// The profile that the plan was made with, corrected by what the stages took.
void calibrate(const TrainFlags& flags, const LoadedPlan& loaded, const DoneLine& done) {
  std::vector<double> measured_s(loaded.plan.stages.size(), 0);
  for (const StageReport& stage : done.stages) {
    measured_s[static_cast<std::size_t>(stage.stage)] = stage.measured_s;
  }
  const auto& costs = dynamic_cast<const ProfiledCosts&>(*loaded.costs);
  write_file(flags.calibrate, to_json(calibrated_profile(costs.profile(), loaded.plan, loaded.graph,
                                                         loaded.cluster, measured_s)));
}

constexpr int kMostRanksLost = 2;

void tell_restart(bool json, const std::string& why, int ranks, const std::string& resume) {
  const std::string from = resume.empty() ? "the beginning" : resume;
  print_note(fmt::format("{}; goes on with {} ranks from {}", why, ranks, from));
  if (!json) return;
  print_out(restart_line(why, ranks, resume));
  std::fflush(stdout);
}

// What is the same wherever the ranks run.
ElasticRun elastic_run(const TrainFlags& flags, const LoadedPlan& loaded, TrainDisplay& display,
                       bool json) {
  ElasticRun elastic;
  elastic.inputs = plans_for_fewer(loaded, flags.elastic ? kMostRanksLost : 0, "--elastic");
  elastic.checkpoints = flags.train.checkpoint.folder;
  elastic.resume = flags.train.checkpoint.resume;
  elastic.on_line = [&display](const std::string& text) { display.show(text); };
  elastic.on_restart = [&display, json](const std::string& why, int ranks,
                                        const std::string& resume) {
    display.end();
    tell_restart(json, why, ranks, resume);
  };
  return elastic;
}

// Follows the ranks on the hosts of a file; what a run leaves, rank 0 leaves where it is.
void run_head(const TrainFlags& flags, const LoadedPlan& loaded, std::int64_t per_epoch,
              CommandLine& line) {
  HostRanks ranks(flags, loaded);
  TrainDisplay display(line.json, per_epoch, flags.train.iterations);
  ElasticRun elastic = elastic_run(flags, loaded, display, line.json);
  elastic.run = [&](const JobInputs& inputs, const std::string& resume, const LineSink& on_line) {
    return ranks.run(inputs, resume, on_line);
  };
  if (flags.elastic) {
    elastic.count_lost = [&](const LaunchResult& result) { return ranks.count_lost(result); };
    elastic.all_back = [&] { return ranks.all_back(); };
  }
  const LaunchResult result = run_elastic(elastic).result;
  display.end();
  if (result.exit_code != 0) {
    print_failure(result);
    line.exit_code = result.exit_code;
  } else if (!line.json) {
    print_out(done_text(display.done()));
  }
}

void run_train(TrainFlags flags, CommandLine& line) {
  check_flags(flags);
  choose_on_nan(flags);
  const bool is_head = !flags.hostfile.file.empty();
  const LaunchPlan launch = is_head ? LaunchPlan{} : find_launch(flags.launch);
  if (is_head && flags.launch.launcher != "auto") {
    throw InputError("--launcher", "does not go with --hostfile, which is a launcher itself");
  }
  if (launch.launcher == Launcher::kHostfile) line.json = true;  // for the head to read
  if (flags.emulate && (is_head || launch.launcher != Launcher::kNone)) {
    throw InputError("--emulate", "runs all ranks on this machine; give --launcher none too");
  }
  check_elastic(flags, launch);
  flags.train.rate_schedule = parse_rate_schedule(flags.rate_schedule, "--lr-schedule");
  LoadedPlan loaded(flags.plan, flags.profile);
  if (!flags.emulate) check_can_compute(loaded.graph, flags.plan);
  if (!flags.save_onnx.empty()) check_can_export(loaded.graph);
  check_calibrate(flags, loaded);
  check_stream(flags, loaded.plan);
  const std::string worker = require_worker();
  choose_optimizer(flags, loaded.plan);
  choose_transport(flags);
  if (!is_head) check_ranks(flags, launch, devices_used(loaded.plan));
  if (flags.emulate) {
    if (flags.train.iterations == 0) flags.train.iterations = 1;
    return run_emulation(worker, loaded, flags.train, line);
  }
  const auto dataset = load_dataset(flags.train.data, loaded.graph, flags.train.seed);
  const Split split = split_dataset(*dataset, flags.train.seed);
  if (!can_run(loaded)) {
    line.exit_code = kExitNo;
    return;
  }

  const std::string note = sample_mixing_note(loaded.graph, loaded.plan);
  if (!note.empty()) print_note(note);
  const auto train_samples = static_cast<std::int64_t>(split.train.size());
  const std::int64_t per_epoch =
      (train_samples + loaded.plan.mini_batch - 1) / loaded.plan.mini_batch;
  choose_checkpoint(flags.checkpoint, loaded.plan, loaded.graph, *dataset, per_epoch, flags.train);
  if (is_asynchronous(loaded.plan.weights)) print_note(steps_late_note(loaded.plan));
  if (is_head) return run_head(flags, loaded, per_epoch, line);
  const JobFolder folder;
  if (launch.launcher == Launcher::kHostfile) end_with_head();
  Job job;
  job.kind = "train";
  job.folder = folder.path();
  job.rendezvous = make_rendezvous(launch);
  job.train = flags.train;
  job.train.save_weights = !flags.save_weights.empty() || !flags.save_onnx.empty();
  job.model = loaded.plan.model;

  TrainDisplay display(line.json, per_epoch, flags.train.iterations);
  const bool all_here = launch.launcher == Launcher::kNone;
  ElasticRun elastic = elastic_run(flags, loaded, display, line.json);
  elastic.run = [&](const JobInputs& inputs, const std::string& resume, const LineSink& on_line) {
    job.train.checkpoint.resume = resume;
    write_job_files(job, inputs, loaded.profile_path);
    return run_workers(worker, job, all_here ? devices_used(inputs.plan) : 1, on_line, {},
                       launch.rank);
  };
  const auto [result, lost] = run_elastic(elastic);
  display.end();
  if (result.exit_code != 0) {
    if (launch.rank == 0 && !job.train.checkpoint.folder.empty()) {
      remove_partial_checkpoints(job.train.checkpoint.folder);
    }
    launch.launcher == Launcher::kHostfile ? print_out(failure_line(result))
                                           : print_failure(result);
    line.exit_code = result.exit_code;
    return;
  }
  if (launch.rank > 0) return;  // the rest is rank 0's
  if (job.train.save_weights) {
    save(flags, loaded.graph,
         trained_weights(folder.path(), devices_used(elastic.inputs[lost].plan)));
  }
  if (!flags.calibrate.empty()) calibrate(flags, loaded, display.done());
  const std::string& trace = flags.train.trace_path;
  if (!trace.empty()) write_trace_with_prediction(trace, trace, loaded);
  if (!line.json) print_out(done_text(display.done()));
}

}  // namespace

void add_train_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand(
      "train", "run a plan: on local worker processes, or as one rank of a launched job");
  auto flags = std::make_shared<TrainFlags>();
  add_train_flags(*command, *flags);
  command->callback([flags, &line] { run_train(*flags, line); });
}

}  // namespace graphpipe
