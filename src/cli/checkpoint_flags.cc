#include "cli/checkpoint_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "cli/inputs.h"
#include "job/checkpoint/checkpoint_folder.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kMostIterations = std::int64_t{1} << 40;

struct Interval {
  std::int64_t count = 0;
  bool epochs = false;
};

Interval parse_interval(const std::string& text) {
  Interval interval;
  std::string number = text;
  for (const std::string unit : {"epochs", "epoch"}) {
    if (interval.epochs || !text.ends_with(unit)) continue;
    interval.epochs = true;
    number = text.substr(0, text.size() - unit.size());
  }
  const bool is_number = !number.empty() && number.size() < 13 &&
                         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (is_number) interval.count = parse_integer(number, "--checkpoint-every");
  if (interval.count >= 1 && interval.count <= kMostIterations) return interval;
  throw InputError(
      "--checkpoint-every",
      fmt::format("expected iterations (500) or epochs (1epoch, 2epochs), found '{}'", text));
}

}  // namespace

void CheckpointFlags::add_to(CLI::App& command) {
  command.add_option("--checkpoint-dir", folder, "write checkpoints there");
  command
      .add_option("--checkpoint-every", every,
                  "iterations (500) or epochs (1epoch, 2epochs) between checkpoints; there is one "
                  "at the end too")
      ->capture_default_str();
  command.add_option("--keep", keep, "the newest checkpoints are kept; 0: all")
      ->capture_default_str();
  command
      .add_option("--checkpoint-mode", mode,
                  "coordinated (published when all ranks have written theirs) or per-stage (each "
                  "rank by itself, at the ends of epochs)")
      ->capture_default_str();
  command.add_flag("--resume", resume, "go on from the newest checkpoint in --checkpoint-dir");
}

void check_checkpoint_flags(const CheckpointFlags& flags) {
  const auto mode = parse_checkpoint_mode(flags.mode);
  if (!mode) {
    throw InputError("--checkpoint-mode",
                     fmt::format("'{}' is neither coordinated nor per-stage", flags.mode));
  }
  if (flags.keep < 0) {
    throw InputError("--keep",
                     fmt::format("expected a number of at least 0, found {}", flags.keep));
  }
  const Interval interval = parse_interval(flags.every);
  if (*mode == CheckpointMode::kPerStage && !interval.epochs) {
    throw InputError("--checkpoint-every",
                     "--checkpoint-mode per-stage saves at the ends of "
                     "epochs; give epochs (1epoch)");
  }
  if (!flags.folder.empty()) return;
  const CheckpointFlags none;
  const auto require_folder = [](const char* flag, bool given) {
    if (given) throw InputError(flag, "needs --checkpoint-dir");
  };
  require_folder("--resume", flags.resume);
  require_folder("--checkpoint-every", flags.every != none.every);
  require_folder("--keep", flags.keep != none.keep);
  require_folder("--checkpoint-mode", flags.mode != none.mode);
}

void choose_checkpoint(const CheckpointFlags& flags, const Plan& plan, const Graph& graph,
                       const Dataset& dataset, std::int64_t iterations_per_epoch,
                       TrainOptions& train) {
  if (flags.folder.empty()) return;
  const Interval interval = parse_interval(flags.every);
  CheckpointOptions& options = train.checkpoint;
  options.folder = std::filesystem::absolute(flags.folder).lexically_normal();
  options.every = interval.epochs ? interval.count * iterations_per_epoch : interval.count;
  options.keep = flags.keep;
  options.mode = *parse_checkpoint_mode(flags.mode);
  if (!flags.resume) return check_no_checkpoint(options.folder, "--checkpoint-dir");
  options.resume = newest_checkpoint(options.folder, "--resume");
  const CheckpointManifest made = read_manifest(options.resume);
  const CheckpointManifest now =
      describe_run(plan, graph, train, dataset.samples(), dataset.name());
  for (const std::string& note : check_resumable(made, now, options.resume)) print_note(note);
  print_note(fmt::format("goes on from {}, after iteration {}", options.resume,
                         made.progress.iteration - 1));
}

}  // namespace graphpipe
