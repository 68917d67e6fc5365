#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/text_report.h"
#include "report/text_table.h"

namespace graphpipe {

namespace {

// A prediction that is off by less is not worth a word.
constexpr double kTolerance = 0.10;
// Stages that depart together, within this factor, have one cause.
constexpr double kTogether = 1.25;

double ratio(double measured, double predicted) {
  return predicted > 0 && measured > 0 ? measured / predicted : 1;
}

double ratio(std::int64_t measured, std::int64_t predicted) {
  return ratio(static_cast<double>(measured), static_cast<double>(predicted));
}

// How far the ratio is from 1, either way.
double departure(double ratio) { return std::abs(std::log(ratio)); }

bool departs(double ratio) { return departure(ratio) > std::log(1 + kTolerance); }

std::string ratio_text(double measured, double predicted) {
  return predicted > 0 && measured > 0 ? fmt::format("{:.2f}", measured / predicted) : "-";
}

const MeasuredStage& farthest(const std::vector<MeasuredStage>& stages,
                              double (*ratio_of)(const MeasuredStage&)) {
  return *std::max_element(stages.begin(), stages.end(),
                           [&](const MeasuredStage& a, const MeasuredStage& b) {
                             return departure(ratio_of(a)) < departure(ratio_of(b));
                           });
}

double time_ratio(const MeasuredStage& stage) { return ratio(stage.measured_s, stage.predicted_s); }

double memory_ratio(const MeasuredStage& stage) {
  return ratio(stage.measured_peak_bytes, stage.predicted_peak_bytes);
}

std::string slower_or_faster(double ratio) {
  return ratio > 1 ? fmt::format("{:.2f}x slower", ratio)
                   : fmt::format("{:.2f}x faster", 1 / ratio);
}

// Where all stages depart alike the cause is the machine, else it is the stage.
std::string compute_culprit(const std::vector<MeasuredStage>& stages, const MeasuredStage& worst,
                            const MeasuredRun& run) {
  const auto [least, most] = std::minmax_element(
      stages.begin(), stages.end(),
      [](const MeasuredStage& a, const MeasuredStage& b) { return time_ratio(a) < time_ratio(b); });
  const bool together = stages.size() > 1 && departs(time_ratio(*least)) &&
                        departs(time_ratio(*most)) &&
                        time_ratio(*most) < kTogether * time_ratio(*least);
  const std::string by = slower_or_faster(time_ratio(worst));
  if (!together) return fmt::format("operators {} than predicted on stage {}", by, worst.stage);
  if (run.cores > 0 && run.ranks > run.cores && time_ratio(worst) > 1) {
    return fmt::format("ranks share cores ({} on {}): all stages up to {} than predicted",
                       run.ranks, run.cores, by);
  }
  return fmt::format("all stages up to {} than predicted: the machine is not as it was profiled",
                     by);
}

std::string culprit(const std::vector<MeasuredStage>& stages, const MeasuredRun& run) {
  const MeasuredStage& compute = farthest(stages, time_ratio);
  const MeasuredStage& memory = farthest(stages, memory_ratio);
  const double iteration = ratio(run.measured_iteration_s, run.predicted_iteration_s);
  const double in_time = departure(time_ratio(compute));
  const double in_memory = departure(memory_ratio(memory));
  if (in_memory > in_time && departs(memory_ratio(memory))) {
    return fmt::format("memory of stage {}: {:.2f} of what was predicted", memory.stage,
                       memory_ratio(memory));
  }
  if (departs(time_ratio(compute))) return compute_culprit(stages, compute, run);
  if (departs(iteration) && iteration > 1) {
    return fmt::format(
        "waiting for messages: stages computed as predicted, the iteration took "
        "{:.2f} of its prediction",
        iteration);
  }
  return "";
}

}  // namespace

std::string measured_table(const std::vector<MeasuredStage>& stages, const MeasuredRun& run) {
  if (stages.empty()) return "";
  TextTable table({{"stage"},
                   {"predicted"},
                   {"measured"},
                   {"ratio"},
                   {"predicted peak"},
                   {"measured peak"},
                   {"ratio"},
                   {"sent"}});
  for (const MeasuredStage& stage : stages) {
    const auto predicted_bytes = static_cast<double>(stage.predicted_peak_bytes);
    const auto measured_bytes = static_cast<double>(stage.measured_peak_bytes);
    table.add_row({fmt::format("{}", stage.stage), seconds_text(stage.predicted_s),
                   seconds_text(stage.measured_s), ratio_text(stage.measured_s, stage.predicted_s),
                   bytes_text(predicted_bytes), bytes_text(measured_bytes),
                   ratio_text(measured_bytes, predicted_bytes),
                   bytes_text(static_cast<double>(stage.bytes_sent))});
  }
  const std::string cause = culprit(stages, run);
  if (cause.empty()) {
    return fmt::format("{}nothing departs from its prediction by more than {:.0f} %\n",
                       table.text(), 100 * kTolerance);
  }
  return fmt::format("{}likely culprit: {}\n", table.text(), cause);
}

}  // namespace graphpipe
