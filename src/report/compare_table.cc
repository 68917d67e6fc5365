#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plan/weight_versions.h"
#include "report/headline.h"
#include "report/text_report.h"
#include "report/text_table.h"

namespace graphpipe {

namespace {

bool is_ok(const ComparedPlan& row) { return row.status == "ok"; }

std::string peak_text(const Plan& plan) {
  const auto& bytes = plan.estimate.stage_memory_bytes;
  if (bytes.empty()) return "-";
  return bytes_text(static_cast<double>(*std::max_element(bytes.begin(), bytes.end())));
}

bool is_stream(const ComparedPlan& row) { return is_ok(row) && is_asynchronous(row.plan.weights); }

// By how many steps the gradients of its oldest weights are late.
std::string steps_late_text(const ComparedPlan& row) {
  if (!is_stream(row)) return "-";
  const VersionRule rule(row.plan);
  std::int64_t most = 0;
  for (std::size_t s = 0; s < row.plan.stages.size(); ++s) {
    most = std::max(most, rule.steps_late(StageId(s)));
  }
  return fmt::format("{}", most);
}

std::vector<std::string> plan_row(const ComparedPlan& row, double slowest_s) {
  if (!is_ok(row)) return {row.planner, row.status, "-", "-", "-", "-", "-", "-", "-", "-"};
  const PlanEstimate& estimate = row.plan.estimate;
  return {row.planner,
          row.status,
          fmt::format("{}", pipeline_depth(row.plan)),
          micro_batch_text(row.plan),
          seconds_text(estimate.iteration_s),
          rate_text(estimate.throughput_samples_per_s),
          estimate.iteration_s > 0 ? fmt::format("{:.2f}x", slowest_s / estimate.iteration_s) : "-",
          fmt::format("{:.1f} %", 100 * estimate.bubble_fraction),
          peak_text(row.plan),
          estimate.lower_bound_s > 0
              ? fmt::format("{:.1f} %", 100 * (estimate.iteration_s / estimate.lower_bound_s - 1))
              : "-"};
}

}  // namespace

std::string compare_table(const std::vector<ComparedPlan>& plans, bool markdown) {
  double slowest_s = 0;
  for (const ComparedPlan& row : plans) {
    if (is_ok(row)) slowest_s = std::max(slowest_s, row.plan.estimate.iteration_s);
  }
  std::vector<TextTable::Column> columns = {{"planner", Align::kLeft},
                                            {"status", Align::kLeft},
                                            {"depth"},
                                            {"b"},
                                            {"iteration"},
                                            {"samples/s"},
                                            {"speed-up"},
                                            {"bubble"},
                                            {"peak"},
                                            {"gap"}};
  const bool streams = std::ranges::any_of(plans, is_stream);
  if (streams) columns.push_back({"steps late"});
  TextTable table(columns);
  for (const ComparedPlan& row : plans) {
    std::vector<std::string> cells = plan_row(row, slowest_s);
    if (streams) cells.push_back(steps_late_text(row));
    table.add_row(cells);
  }
  std::string text = markdown ? table.markdown() + "\n" : table.text();
  for (const ComparedPlan& row : plans) {
    if (is_ok(row)) continue;
    text += fmt::format("{}{}: {}\n", markdown ? "- " : "", row.planner, row.reason);
  }
  return text;
}

}  // namespace graphpipe
