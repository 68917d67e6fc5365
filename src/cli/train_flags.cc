#include "cli/train_flags.h"

#include <fmt/format.h>

#include <limits>
#include <memory>

#include "base/error.h"
#include "cli/job_folder.h"
#include "models/onnx/export.h"
#include "plan/weight_versions.h"

namespace graphpipe {
namespace {

void check_numbers(const TrainOptions& train) {
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

}  // namespace

void check_flags(const TrainFlags& flags) {
  check_numbers(flags.train);
  check_checkpoint_flags(flags.checkpoint);
  if (flags.emulate) {
    check_emulate_flags(flags);
  } else if (flags.train.data.empty()) {
    throw InputError("--data", "is required, unless with --emulate");
  }
}

void choose_optimizer(TrainFlags& flags, Plan& plan) {
  TrainOptions& train = flags.train;
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

void choose_transport(TrainFlags& flags) {
  const auto kind = parse_transport(flags.transport);
  if (!kind) {
    throw InputError("--transport", fmt::format("'{}' is neither auto nor gloo", flags.transport));
  }
  flags.train.transport = *kind;
}

void choose_on_nan(TrainFlags& flags) {
  const auto what = parse_on_nan(flags.on_nan);
  if (!what) {
    throw InputError("--on-nan", fmt::format("'{}' is neither stop nor skip", flags.on_nan));
  }
  flags.train.on_nan = *what;
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

void add_train_flags(CLI::App& command, TrainFlags& flags) {
  TrainOptions& train = flags.train;
  command.add_option("PLAN", flags.plan, "a plan file")->required();
  command.add_option("--data", train.data, "movielens, digits, synthetic, or a folder");
  command.add_flag("--emulate", flags.emulate,
                   "compute nothing: tasks and transfers take the time that the plan's costs say, "
                   "stretched; for plans of any cluster");
  command.add_option("--iterations", train.iterations,
                     "train so many mini-batches; with --emulate 1 by default");
  command.add_option("--epochs", train.epochs,
                     "at most so many epochs; default: until validation stops improving");
  command
      .add_option("--patience", train.patience,
                  "evaluations without improvement before stopping; 0: never")
      ->capture_default_str();
  command.add_option("--optimizer", flags.optimizer, "sgd, adam; default: the plan's");
  command.add_option("--lr", train.learning_rate, "learning rate")->capture_default_str();
  command.add_option("--momentum", train.momentum, "of sgd");
  command.add_option("--weight-decay", train.weight_decay, "L2 penalty");
  command
      .add_option("--lr-schedule", flags.rate_schedule,
                  "constant, step:EVERY,FACTOR or cosine:TOTAL[,WARMUP], in steps")
      ->capture_default_str();
  command.add_option("--clip", train.clip,
                     "largest norm of the gradients of all parameters; default: not clipped");
  command
      .add_option("--accumulate", train.accumulate,
                  "mini-batches whose gradients are added before a step")
      ->capture_default_str();
  command.add_option("--eval-every", train.eval_every,
                     "iterations between evaluations; default: an epoch, with --iterations never");
  command.add_option("--seed", train.seed, "of split, initialisation, order and dropout")
      ->capture_default_str();
  command.add_option("--log-every", train.log_every, "iterations between reports of the loss")
      ->capture_default_str();
  command.add_option("--timeout", train.timeout_s, "seconds to wait for a peer")
      ->capture_default_str();
  command
      .add_option("--transport", flags.transport,
                  "of messages between ranks: auto (memory where ranks share a machine) or gloo")
      ->capture_default_str();
  command
      .add_option("--heartbeat", train.heartbeat_s,
                  "seconds without a sign of life after which a rank is lost; 0: never")
      ->capture_default_str();
  command
      .add_option("--on-nan", flags.on_nan,
                  "where the loss or a gradient is no number: stop (the run fails) or skip (the "
                  "step, on all ranks)")
      ->capture_default_str();
  flags.checkpoint.add_to(command);
  command.add_flag("--elastic", flags.elastic,
                   "when a rank is lost, go on with the others from the last checkpoint, and with "
                   "all again from the next");
  add_launch_flags(command, flags.launch);
  add_hostfile_flags(command, flags.hostfile);
  command.add_option("--profile", flags.profile, "measured costs; default: those of the plan");
  command.add_option("--calibrate", flags.calibrate,
                     "write the plan's profile there, corrected by what the stages took");
  command.add_option("--save-weights", flags.save_weights,
                     "write the trained weights there, as safetensors");
  command.add_option("--save-onnx", flags.save_onnx, "write the trained model there, as ONNX");
  command.add_option("--trace", train.trace_path,
                     "write the last iteration's trace there, measured and predicted");
}

}  // namespace graphpipe
