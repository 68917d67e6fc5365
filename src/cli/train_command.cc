// graphpipe train PLAN: run it, on local ranks.

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/job_folder.h"
#include "cli/progress.h"
#include "cluster/cluster_json.h"
#include "data/dataset.h"
#include "graph/graph_json.h"
#include "job/launcher.h"
#include "plan/plan_json.h"
#include "report/text_report.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

struct TrainFlags {
  std::string plan;
  std::string profile;
  std::string optimizer;
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

void check_flags(const TrainOptions& train) {
  if (train.iterations > 0 && train.epochs > 0) {
    throw InputError("--iterations", "and --epochs exclude each other; give one");
  }
  const auto at_least = [](const char* flag, double value, double low) {
    if (!(value >= low)) throw InputError(flag, fmt::format("{} is below {}", value, low));
  };
  at_least("--iterations", static_cast<double>(train.iterations), 0);
  at_least("--epochs", static_cast<double>(train.epochs), 0);
  at_least("--lr", train.learning_rate, 0);
  at_least("--momentum", train.momentum, 0);
  at_least("--weight-decay", train.weight_decay, 0);
  at_least("--log-every", static_cast<double>(train.log_every), 1);
  at_least("--timeout", train.timeout_s, 1);
}

// Shows what the workers report: whole lines where output is not a terminal.
class TrainDisplay {
 public:
  TrainDisplay(bool json, std::int64_t iterations_per_epoch, std::int64_t iterations)
      : json_(json), iterations_per_epoch_(iterations_per_epoch), iterations_(iterations) {}

  void show(const std::string& line) {
    if (json_) print_out(line);
    const auto parsed = parse_train_line(line);
    if (!parsed) {
      if (!json_) print_out(line);
      return;
    }
    if (parsed->done) last_ = *parsed;
    if (json_) return;
    if (parsed->iteration) show_iteration(*parsed);
    if (!parsed->validation.empty()) show_validation(*parsed);
  }

  void end() { progress_.clear(); }
  const TrainLine& last() const { return last_; }

 private:
  void show_iteration(const TrainLine& line) {
    const std::int64_t i = *line.iteration;
    const bool by_epoch = iterations_ == 0;
    const double fraction =
        by_epoch ? static_cast<double>(i % iterations_per_epoch_ + 1) /
                       static_cast<double>(iterations_per_epoch_)
                 : static_cast<double>(i + 1) / static_cast<double>(iterations_);
    progress_.draw(by_epoch ? fmt::format("epoch {}", i / iterations_per_epoch_ + 1) : "training",
                   fraction,
                   fmt::format("loss {:.4f}  {:.0f} samples/s", line.loss, line.samples_per_s));
  }

  void show_validation(const TrainLine& line) {
    progress_.clear();
    std::string text;
    for (const auto& [name, value] : line.validation) text += fmt::format("  {} {:.4f}", name, value);
    const auto seconds = line.numbers.find("elapsed_s");
    print_out(fmt::format("epoch {:3.0f}  validation{}{}", line.epoch, text,
                          seconds == line.numbers.end()
                              ? ""
                              : fmt::format("  after {}", seconds_text(seconds->second))));
    std::fflush(stdout);
  }

  bool json_;
  std::int64_t iterations_per_epoch_;
  std::int64_t iterations_;
  ProgressLine progress_;
  TrainLine last_;
};

std::string end_text(const TrainLine& last) {
  std::string text;
  for (const auto& [name, value] : last.metrics) text += fmt::format("test {} {:.4f}\n", name, value);
  const auto number = [&](const char* name) {
    const auto found = last.numbers.find(name);
    return found == last.numbers.end() ? 0.0 : found->second;
  };
  if (last.numbers.contains("baseline_rmse")) {
    text += fmt::format("bias-only baseline: test rmse {:.4f}\n", number("baseline_rmse"));
  }
  text += fmt::format("{:.0f} iterations in {}, iteration {} (predicted {})\n",
                      number("iterations"), seconds_text(number("elapsed_s")),
                      seconds_text(number("measured_iteration_s")),
                      seconds_text(number("predicted_iteration_s")));
  return text + "\n" + measured_table(last.stages);
}

void write_job_files(const JobFolder& folder, const LoadedPlan& loaded,
                     const std::string& profile_path) {
  folder.write("plan.json", to_json(loaded.plan, loaded.graph));
  folder.write("graph.json", to_json(loaded.graph));
  folder.write("cluster.json", to_json(loaded.cluster));
  const std::string profile =
      profile_path.empty() ? profile_of(loaded.plan, "plan") : profile_path;
  if (!profile.empty()) folder.write("profile.json", read_file(profile));
}

void run_train(TrainFlags flags, CommandLine& line) {
  check_flags(flags.train);
  const std::string worker = require_worker();
  LoadedPlan loaded(flags.plan, flags.profile);
  choose_optimizer(flags, flags.train, loaded.plan);
  const auto dataset = load_dataset(flags.train.data, loaded.graph, flags.train.seed);
  const Verification verification =
      verify_plan(loaded.plan, loaded.graph, loaded.cluster, *loaded.costs);
  if (!verification.ok()) {
    const Fault& fault = verification.faults.front();
    fmt::print(stderr, "the plan cannot run: {}: {}: {}\n", fault.where, fault.rule, fault.message);
    line.exit_code = kExitNo;
    return;
  }

  const JobFolder folder;
  Job job;
  job.kind = "train";
  job.folder = folder.path();
  job.train = flags.train;
  job.model = loaded.plan.model;
  write_job_files(folder, loaded, flags.profile);
  write_job(job);

  const auto train_samples =
      static_cast<std::int64_t>(split_dataset(dataset->samples(), flags.train.seed).train.size());
  const std::int64_t per_epoch =
      (train_samples + loaded.plan.mini_batch - 1) / loaded.plan.mini_batch;
  TrainDisplay display(line.json, per_epoch, flags.train.iterations);
  const LaunchResult result = run_workers(worker, job, devices_used(loaded.plan),
                                          [&](const std::string& text) { display.show(text); });
  display.end();
  if (result.exit_code != 0) {
    fmt::print(stderr, "error: {}\n", result.first_cause);
    line.exit_code = result.exit_code;
    return;
  }
  if (!line.json) print_out(end_text(display.last()));
}

}  // namespace

void add_train_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("train", "run a plan on local worker processes");
  auto flags = std::make_shared<TrainFlags>();
  TrainOptions& train = flags->train;
  command->add_option("PLAN", flags->plan, "a plan file")->required();
  command->add_option("--data", train.data, "movielens, digits, synthetic, or a folder")->required();
  command->add_option("--iterations", train.iterations, "train so many mini-batches");
  command->add_option("--epochs", train.epochs,
                      "at most so many epochs; default: until validation stops improving");
  command->add_option("--patience", train.patience,
                      "evaluations without improvement before stopping; 0: never")
      ->capture_default_str();
  command->add_option("--optimizer", flags->optimizer, "sgd, adam; default: the plan's");
  command->add_option("--lr", train.learning_rate, "learning rate")->capture_default_str();
  command->add_option("--momentum", train.momentum, "of sgd");
  command->add_option("--weight-decay", train.weight_decay, "L2 penalty");
  command->add_option("--seed", train.seed, "of split, initialisation, order and dropout")
      ->capture_default_str();
  command->add_option("--log-every", train.log_every, "iterations between reports of the loss")
      ->capture_default_str();
  command->add_option("--timeout", train.timeout_s, "seconds to wait for a peer")
      ->capture_default_str();
  command->add_option("--profile", flags->profile, "measured costs; default: those of the plan");
  command->add_option("--trace", train.trace_path, "write the last iteration's measured trace there");
  command->callback([flags, &line] { run_train(*flags, line); });
}

}  // namespace graphpipe
