#include "cli/train_display.h"

#include <fmt/format.h>

#include <cstdio>
#include <variant>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/job_folder.h"

namespace graphpipe {

void TrainDisplay::show(const std::string& line) {
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

void TrainDisplay::show_iteration(const IterationLine& line) {
  const bool by_epoch = iterations_ == 0;
  const std::int64_t all = by_epoch ? iterations_per_epoch_ : iterations_;
  const std::int64_t at = line.iteration % all + 1;
  progress_.draw(
      by_epoch ? fmt::format("epoch {}", line.iteration / iterations_per_epoch_ + 1) : "training",
      static_cast<double>(at) / static_cast<double>(all),
      fmt::format("loss {:.4f}  {:.0f} samples/s", line.loss, line.samples_per_s));
}

void TrainDisplay::show_evaluation(const EvaluationLine& line) {
  progress_.clear();
  std::string text;
  for (const auto& [name, value] : line.validation) {
    text += fmt::format("  {} {:.4f}", name, value);
  }
  print_out(fmt::format("epoch {:4.1f}  validation{}  after {}{}", line.epoch, text,
                        seconds_text(line.elapsed_s), line.best ? "  (best so far)" : ""));
  std::fflush(stdout);
}

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

}  // namespace graphpipe
