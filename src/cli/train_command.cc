// graphpipe train PLAN: run it, on local ranks or as one rank of a launched job.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/checkpoint_flags.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/elastic.h"
#include "cli/emulate.h"
#include "cli/inputs.h"
#include "cli/job_folder.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "cli/trace_file.h"
#include "cost/profile_json.h"
#include "data/dataset.h"
#include "graph/weights.h"
#include "job/checkpoint/checkpoint_folder.h"
#include "job/launcher.h"
#include "models/onnx/export.h"
#include "plan/calibration.h"
#include "plan/plan_json.h"
#include "plan/weight_versions.h"
#include "report/text_report.h"

namespace graphpipe {
namespace {

struct TrainFlags {
  std::string plan;
  std::string profile;
  std::string optimizer;
  std::string transport = "auto";
  std::string rate_schedule = "constant";
  std::string save_weights;
  std::string save_onnx;
  std::string calibrate;
  std::string on_nan = "stop";
  CheckpointFlags checkpoint;
  LaunchFlags launch;
  HostfileFlags hostfile;
  bool emulate = false;
  bool elastic = false;
  TrainOptions train;
};

void choose_optimizer(const TrainFlags& flags, TrainOptions& train, Plan& plan) {
  if (flags.optimizer == "adam") {
    train.optimizer = OptimizerKind::kAdam;
  } else if (flags.optimizer == "sgd" || flags.optimizer.empty()) {
    train.optimizer = train.momentum > 0 ? OptimizerKind::kSgdMomentum : OptimizerKind::kSgd;
    if (flags.optimizer.empty() && train.momentum == 0) train.optimizer = plan.optimizer;
  } else {
    throw InputError("--optimizer", fmt::format("'{}' is neither sgd nor adam", flags.optimizer));
  }
  if (train.momentum > 0 && train.optimizer == OptimizerKind::kAdam) {
    throw InputError("--momentum", "is for sgd; adam has its own");
  }
  if (train.optimizer == OptimizerKind::kSgdMomentum && train.momentum == 0) train.momentum = 0.9;
  plan.optimizer = train.optimizer;  // so that the memory that is verified is what it takes
}

void choose_transport(const TrainFlags& flags, TrainOptions& train) {
  const auto kind = parse_transport(flags.transport);
  if (!kind) {
    throw InputError("--transport", fmt::format("'{}' is neither auto nor gloo", flags.transport));
  }
  train.transport = *kind;
}

void choose_on_nan(const TrainFlags& flags, TrainOptions& train) {
  const auto what = parse_on_nan(flags.on_nan);
  if (!what) {
    throw InputError("--on-nan", fmt::format("'{}' is neither stop nor skip", flags.on_nan));
  }
  train.on_nan = *what;
}

void check_flags(const TrainOptions& train) {
  if (train.iterations > 0 && train.epochs > 0) {
    throw InputError("--iterations", "and --epochs exclude each other; give one");
  }
  const auto at_least = [](const char* flag, double value, double low) {
    if (value >= low && value <= std::numeric_limits<float>::max()) return;
    throw InputError(flag, fmt::format("expected a number of at least {}, found {}", low, value));
  };
  at_least("--iterations", static_cast<double>(train.iterations), 0);
  at_least("--epochs", static_cast<double>(train.epochs), 0);
  at_least("--patience", static_cast<double>(train.patience), 0);
  at_least("--lr", train.learning_rate, 0);
  at_least("--momentum", train.momentum, 0);
  at_least("--weight-decay", train.weight_decay, 0);
  at_least("--clip", train.clip, 0);
  at_least("--accumulate", static_cast<double>(train.accumulate), 1);
  at_least("--eval-every", static_cast<double>(train.eval_every), 0);
  at_least("--log-every", static_cast<double>(train.log_every), 1);
  at_least("--timeout", train.timeout_s, 1);
  at_least("--heartbeat", train.heartbeat_s, 0);
  if (train.iterations == 0 && train.epochs == 0 && train.patience == 0) {
    throw InputError("--patience",
                     "0 never stops; give --iterations or --epochs, or a patience of at least 1");
  }
}

// The data set of --data, with samples enough for all three parts of a split.
std::unique_ptr<Dataset> load_split_dataset(const TrainOptions& train, const Graph& graph) {
  constexpr std::int64_t kLeastSamples = 10;
  auto dataset = load_dataset(train.data, graph, train.seed);
  if (dataset->samples() >= kLeastSamples) return dataset;
  throw InputError("--data", fmt::format("{} has {} samples, and training, validation and test "
                                         "need at least {} together",
                                         dataset->name(), dataset->samples(), kLeastSamples));
}

// Shows what rank 0 reports: progress on a terminal, whole lines otherwise.
class TrainDisplay {
 public:
  TrainDisplay(bool json, std::int64_t iterations_per_epoch, std::int64_t iterations)
      : json_(json), iterations_per_epoch_(iterations_per_epoch), iterations_(iterations) {}

  void show(const std::string& line) {
    if (json_) {
      print_out(line);
      std::fflush(stdout);  // whoever follows the run is to hear it now
    }
    const TrainLine parsed = parse_train_line(line);
    if (const auto* done = std::get_if<DoneLine>(&parsed)) done_ = *done;
    if (json_) return;
    if (const auto* iteration = std::get_if<IterationLine>(&parsed)) show_iteration(*iteration);
    if (const auto* evaluation = std::get_if<EvaluationLine>(&parsed)) show_evaluation(*evaluation);
  }

  void end() { progress_.clear(); }
  const DoneLine& done() const { return done_; }

 private:
  void show_iteration(const IterationLine& line) {
    const bool by_epoch = iterations_ == 0;
    const std::int64_t all = by_epoch ? iterations_per_epoch_ : iterations_;
    const std::int64_t at = line.iteration % all + 1;
    progress_.draw(
        by_epoch ? fmt::format("epoch {}", line.iteration / iterations_per_epoch_ + 1) : "training",
        static_cast<double>(at) / static_cast<double>(all),
        fmt::format("loss {:.4f}  {:.0f} samples/s", line.loss, line.samples_per_s));
  }

  void show_evaluation(const EvaluationLine& line) {
    progress_.clear();
    std::string text;
    for (const auto& [name, value] : line.validation) {
      text += fmt::format("  {} {:.4f}", name, value);
    }
    print_out(fmt::format("epoch {:4.1f}  validation{}  after {}{}", line.epoch, text,
                          seconds_text(line.elapsed_s), line.best ? "  (best so far)" : ""));
    std::fflush(stdout);
  }

  bool json_;
  std::int64_t iterations_per_epoch_;
  std::int64_t iterations_;
  ProgressLine progress_;
  DoneLine done_;
};

std::string done_text(const DoneLine& done) {
  std::string text;
  for (const auto& [name, value] : done.metrics) {
    text += fmt::format("test {} {:.4f}\n", name, value);
  }
  if (done.baseline_rmse) {
    text += fmt::format("bias-only baseline: test rmse {:.4f}\n", *done.baseline_rmse);
  }
  text += fmt::format("{} iterations ({:.1f} epochs) in {}\n", done.iterations, done.epochs,
                      seconds_text(done.elapsed_s));
  if (done.skipped_steps > 0) {
    text += fmt::format("{} steps skipped, for a loss or gradient that is no number\n",
                        done.skipped_steps);
  }
  text += fmt::format("executor: {:.1f} % of CPU time outside operators, {} an action\n\n",
                      100 * done.executor_overhead, seconds_text(done.action_s));
  return text + stages_text(done);
}

std::string steps_late_note(const Plan& plan) {
  const VersionRule rule(plan);
  std::vector<std::int64_t> late;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) late.push_back(rule.steps_late(StageId(s)));
  return fmt::format("weights {}: by stage, gradients are {} steps late",
                     weight_policy_name(plan.weights), fmt::join(late, " "));
}

// Each stage steps by itself, a mini-batch after the other.
void check_stream(const TrainFlags& flags, const Plan& plan) {
  if (!is_asynchronous(plan.weights)) return;
  const auto refuse = [&](const char* flag, const char* why) {
    throw InputError(flag, fmt::format("does not go with an asynchronous plan ({}): {}",
                                       weight_policy_name(plan.weights), why));
  };
  if (flags.train.clip > 0)
    refuse("--clip", "when a stage steps, the norm of all gradients is not known");
  if (flags.train.accumulate > 1)
    refuse("--accumulate", "2bw's mini-batches have several micro-batches");
  if (flags.train.on_nan == OnNan::kSkip)
    refuse("--on-nan skip", "each stage steps by itself, and none can skip for all");
  if (!flags.train.trace_path.empty()) refuse("--trace", "a stream has no iterations to draw");
}

// A file of another planner's says what operators cost, and not what they compute.
void check_can_compute(const Graph& graph, const std::string& where) {
  for (const Operator& op : graph.ops) {
    if (op.kind != OpKind::kOpaque) continue;
    throw InputError(where, fmt::format("the model is an imported profile: of operators such as "
                                        "{} only the costs are known, so there is nothing to "
                                        "train; --emulate runs the plan by these costs",
                                        op.name));
  }
}

// Ranks that sleep need no core, unless they are processes.
void check_ranks(const TrainFlags& flags, const LaunchPlan& launch, int ranks) {
  constexpr int kMostThreads = 64;
  if (launch.launcher != Launcher::kNone) return check_launched_ranks(launch, ranks, flags.plan);
  if (!flags.emulate || flags.train.transport != TransportKind::kAuto) {
    return check_local_ranks(ranks, flags.plan);
  }
  if (ranks <= kMostThreads) return;
  throw InputError(flags.plan, fmt::format("{} ranks; at most {} can be emulated on one machine",
                                           ranks, kMostThreads));
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

// Hours of training are not to end with an operator that ONNX does not have.
void check_can_export(const Graph& graph) {
  Weights zeros;
  for (const Parameter& param : graph.params) {
    const auto bytes = static_cast<std::size_t>(param_bytes(param));
    zeros[param.name] = {param.dtype, param.shape,
                         std::make_shared<const std::string>(bytes, '\0')};
  }
  export_onnx(graph, zeros, "--save-onnx");
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

void check_calibrate(const TrainFlags& flags, const LoadedPlan& loaded) {
  if (flags.calibrate.empty()) return;
  if (flags.emulate) throw InputError("--calibrate", "does not go with --emulate");
  if (shares_devices(loaded.plan)) {
    throw InputError("--calibrate",
                     "the plan has several stages on a device, of which only the sum is measured");
  }
  if (loaded.profile_path.empty()) {
    throw InputError("--calibrate",
                     "corrects the profile that the plan was made with, and there "
                     "is none; give --profile");
  }
}

void check_emulate_flags(const TrainFlags& flags) {
  const auto refuse = [](const char* flag) {
    throw InputError(flag, "does not go with --emulate, which computes and trains nothing");
  };
  if (!flags.train.data.empty()) refuse("--data");
  if (flags.train.epochs > 0) refuse("--epochs");
  if (flags.train.clip > 0) refuse("--clip");
  if (flags.train.accumulate > 1) refuse("--accumulate");
  if (!flags.save_weights.empty()) refuse("--save-weights");
  if (!flags.save_onnx.empty()) refuse("--save-onnx");
  if (!flags.checkpoint.folder.empty()) refuse("--checkpoint-dir");
}

constexpr int kMostRanksLost = 2;

void check_elastic(const TrainFlags& flags, const LaunchPlan& launch) {
  if (!flags.elastic) return;
  const auto refuse = [](const std::string& why) { throw InputError("--elastic", why); };
  if (flags.checkpoint.folder.empty()) {
    refuse("goes on from the last checkpoint; give --checkpoint-dir");
  }
  if (flags.emulate) refuse("does not go with --emulate");
  if (!flags.calibrate.empty()) refuse("does not go with --calibrate: the plan may change");
  if (!flags.train.trace_path.empty()) refuse("does not go with --trace: the plan may change");
  if (launch.launcher != Launcher::kNone) {
    refuse("is for ranks that this process starts itself, here or by --hostfile");
  }
}

void tell_restart(bool json, const std::string& why, int ranks, const std::string& resume) {
  const std::string from = resume.empty() ? "the beginning" : resume;
  print_note(fmt::format("{}; goes on with {} ranks from {}", why, ranks, from));
  if (!json) return;
  print_out(restart_line(why, ranks, resume));
  std::fflush(stdout);
}

// Ranks on the hosts of a file, of which some may be gone.
class HostRanks {
 public:
  HostRanks(const TrainFlags& flags, const LoadedPlan& loaded)
      : flags_(flags),
        all_(make_remote_job(flags.hostfile, devices_used(loaded.plan))),
        plan_(loaded.plan),
        is_down_(all_.hosts.size(), false) {}

  LaunchResult run(const JobInputs& inputs, const std::string& resume, const LineSink& on_line) {
    RemoteJob job = all_;
    job.hosts = hosts_up();
    job.host_of = place_ranks(job.hosts, devices_used(inputs.plan), flags_.hostfile.file);
    if (flags_.elastic) job.command = command_for(inputs, resume);
    placed_.clear();
    for (std::size_t rank = 0; rank < job.host_of.size(); ++rank) {
      placed_.push_back(job.hosts[static_cast<std::size_t>(job.host_of[rank])].host);
      print_note(fmt::format("rank {} of {} on {}", rank, job.host_of.size(), placed_.back()));
    }
    return run_remote(job, on_line, [](int rank, const std::string& text) {
      fmt::print(stderr, "rank {}: {}\n", rank, text);
    });
  }

  // The host of the rank that was struck takes none until it answers.
  std::size_t count_lost(const LaunchResult& result) {
    for (std::size_t h = 0; h < all_.hosts.size(); ++h) {
      if (all_.hosts[h].host == placed_.at(static_cast<std::size_t>(result.rank))) {
        is_down_[h] = true;
      }
    }
    std::size_t slots = 0;
    for (const HostSlots& host : hosts_up()) slots += static_cast<std::size_t>(host.slots);
    const auto ranks = static_cast<std::size_t>(devices_used(plan_));
    return ranks - std::min(slots, ranks);
  }

  bool all_back() {
    constexpr double kAnswerS = 5;
    for (std::size_t h = 0; h < all_.hosts.size(); ++h) {
      if (is_down_[h] && !host_answers(all_, all_.hosts[h].host, kAnswerS)) return false;
    }
    is_down_.assign(is_down_.size(), false);
    return true;
  }

 private:
  std::vector<HostSlots> hosts_up() const {
    std::vector<HostSlots> up;
    for (std::size_t h = 0; h < all_.hosts.size(); ++h) {
      if (!is_down_[h]) up.push_back(all_.hosts[h]);
    }
    return up;
  }

  // The ranks read the plan in the folder of the checkpoints, which all hosts share.
  std::vector<std::string> command_for(const JobInputs& inputs, const std::string& resume) const {
    const std::string& folder = flags_.train.checkpoint.folder;
    const std::string path =
        fmt::format("{}/elastic-{}.plan.json", folder, devices_used(inputs.plan));
    std::filesystem::create_directories(folder);
    write_file(path, to_json(inputs.plan, inputs.graph));
    std::vector<std::string> command;
    for (const std::string& word : all_.command) {
      if (word == "--elastic" || word == "--resume") continue;
      command.push_back(word == flags_.plan ? path : word);
    }
    if (!resume.empty()) command.emplace_back("--resume");
    return command;
  }

  const TrainFlags& flags_;
  RemoteJob all_;
  const Plan& plan_;
  std::vector<bool> is_down_;        // [host]
  std::vector<std::string> placed_;  // [rank]: its host, as it runs now
};

// Follows the ranks on the hosts of a file; what a run leaves, rank 0 leaves where it is.
void run_head(const TrainFlags& flags, const LoadedPlan& loaded, std::int64_t per_epoch,
              CommandLine& line) {
  HostRanks ranks(flags, loaded);
  TrainDisplay display(line.json, per_epoch, flags.train.iterations);
  ElasticRun elastic;
  elastic.inputs = plans_for_fewer(loaded, flags.elastic ? kMostRanksLost : 0, "--elastic");
  elastic.checkpoints = flags.train.checkpoint.folder;
  elastic.resume = flags.train.checkpoint.resume;
  elastic.run = [&](const JobInputs& inputs, const std::string& resume, const LineSink& on_line) {
    return ranks.run(inputs, resume, on_line);
  };
  elastic.on_line = [&](const std::string& text) { display.show(text); };
  if (flags.elastic) {
    elastic.count_lost = [&](const LaunchResult& result) { return ranks.count_lost(result); };
    elastic.all_back = [&] { return ranks.all_back(); };
  }
  elastic.on_restart = [&](const std::string& why, int count, const std::string& resume) {
    display.end();
    tell_restart(line.json, why, count, resume);
  };
  const auto [result, lost] = run_elastic(elastic);
  display.end();
  if (result.exit_code != 0) {
    print_failure(result);
    line.exit_code = result.exit_code;
  } else if (!line.json) {
    print_out(done_text(display.done()));
  }
}

void run_train(TrainFlags flags, CommandLine& line) {
  check_flags(flags.train);
  check_checkpoint_flags(flags.checkpoint);
  choose_on_nan(flags, flags.train);
  if (flags.emulate) {
    check_emulate_flags(flags);
  } else if (flags.train.data.empty()) {
    throw InputError("--data", "is required, unless with --emulate");
  }
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
  choose_optimizer(flags, flags.train, loaded.plan);
  choose_transport(flags, flags.train);
  if (!is_head) check_ranks(flags, launch, devices_used(loaded.plan));
  if (flags.emulate) {
    if (flags.train.iterations == 0) flags.train.iterations = 1;
    return run_emulation(worker, loaded, flags.train, line);
  }
  const auto dataset = load_split_dataset(flags.train, loaded.graph);
  if (!can_run(loaded)) {
    line.exit_code = kExitNo;
    return;
  }

  const std::string note = sample_mixing_note(loaded.graph, loaded.plan);
  if (!note.empty()) print_note(note);
  const auto train_samples =
      static_cast<std::int64_t>(split_dataset(dataset->samples(), flags.train.seed).train.size());
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
  ElasticRun elastic;
  elastic.inputs = plans_for_fewer(loaded, flags.elastic ? kMostRanksLost : 0, "--elastic");
  elastic.checkpoints = flags.train.checkpoint.folder;
  elastic.resume = flags.train.checkpoint.resume;
  elastic.run = [&](const JobInputs& inputs, const std::string& resume, const LineSink& on_line) {
    job.train.checkpoint.resume = resume;
    write_job_files(job, inputs, loaded.profile_path);
    return run_workers(worker, job, all_here ? devices_used(inputs.plan) : 1, on_line, {},
                       launch.rank);
  };
  elastic.on_line = [&](const std::string& text) { display.show(text); };
  elastic.on_restart = [&](const std::string& why, int ranks, const std::string& resume) {
    display.end();
    tell_restart(line.json, why, ranks, resume);
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
  TrainOptions& train = flags->train;
  command->add_option("PLAN", flags->plan, "a plan file")->required();
  command->add_option("--data", train.data, "movielens, digits, synthetic, or a folder");
  command->add_flag("--emulate", flags->emulate,
                    "compute nothing: tasks and transfers take the time that the plan's costs say, "
                    "stretched; for plans of any cluster");
  command->add_option("--iterations", train.iterations,
                      "train so many mini-batches; with --emulate 1 by default");
  command->add_option("--epochs", train.epochs,
                      "at most so many epochs; default: until validation stops improving");
  command
      ->add_option("--patience", train.patience,
                   "evaluations without improvement before stopping; 0: never")
      ->capture_default_str();
  command->add_option("--optimizer", flags->optimizer, "sgd, adam; default: the plan's");
  command->add_option("--lr", train.learning_rate, "learning rate")->capture_default_str();
  command->add_option("--momentum", train.momentum, "of sgd");
  command->add_option("--weight-decay", train.weight_decay, "L2 penalty");
  command
      ->add_option("--lr-schedule", flags->rate_schedule,
                   "constant, step:EVERY,FACTOR or cosine:TOTAL[,WARMUP], in steps")
      ->capture_default_str();
  command->add_option("--clip", train.clip,
                      "largest norm of the gradients of all parameters; default: not clipped");
  command
      ->add_option("--accumulate", train.accumulate,
                   "mini-batches whose gradients are added before a step")
      ->capture_default_str();
  command->add_option("--eval-every", train.eval_every,
                      "iterations between evaluations; default: an epoch, with --iterations never");
  command->add_option("--seed", train.seed, "of split, initialisation, order and dropout")
      ->capture_default_str();
  command->add_option("--log-every", train.log_every, "iterations between reports of the loss")
      ->capture_default_str();
  command->add_option("--timeout", train.timeout_s, "seconds to wait for a peer")
      ->capture_default_str();
  command
      ->add_option("--transport", flags->transport,
                   "of messages between ranks: auto (memory where ranks share a machine) or gloo")
      ->capture_default_str();
  command
      ->add_option("--heartbeat", train.heartbeat_s,
                   "seconds without a sign of life after which a rank is lost; 0: never")
      ->capture_default_str();
  command
      ->add_option("--on-nan", flags->on_nan,
                   "where the loss or a gradient is no number: stop (the run fails) or skip (the "
                   "step, on all ranks)")
      ->capture_default_str();
  flags->checkpoint.add_to(*command);
  command->add_flag("--elastic", flags->elastic,
                    "when a rank is lost, go on with the others from the last checkpoint, and with "
                    "all again from the next");
  add_launch_flags(*command, flags->launch);
  add_hostfile_flags(*command, flags->hostfile);
  command->add_option("--profile", flags->profile, "measured costs; default: those of the plan");
  command->add_option("--calibrate", flags->calibrate,
                      "write the plan's profile there, corrected by what the stages took");
  command->add_option("--save-weights", flags->save_weights,
                      "write the trained weights there, as safetensors");
  command->add_option("--save-onnx", flags->save_onnx, "write the trained model there, as ONNX");
  command->add_option("--trace", train.trace_path,
                      "write the last iteration's trace there, measured and predicted");
  command->callback([flags, &line] { run_train(*flags, line); });
}

}  // namespace graphpipe
