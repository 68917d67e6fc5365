#include "report/headline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"

namespace graphpipe {
namespace {

// Closer than this and neither has won.
constexpr double kTie = 0.005;

std::string bubble_text(const Plan& plan) {
  return fmt::format("{:.1f} %", 100 * plan.estimate.bubble_fraction);
}

std::int64_t peak_bytes(const Plan& plan) {
  const auto& bytes = plan.estimate.stage_memory_bytes;
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

void add_part(std::vector<std::string>& parts, const char* what, const std::string& mine,
              const std::string& theirs) {
  if (mine != theirs) parts.push_back(fmt::format("{} {} instead of {}", what, mine, theirs));
}

}  // namespace

std::string micro_batch_text(const Plan& plan) {
  const auto [least, most] = std::minmax_element(
      plan.stages.begin(), plan.stages.end(),
      [](const Stage& a, const Stage& b) { return a.micro_batch < b.micro_batch; });
  if (least == plan.stages.end()) return "-";
  if (least->micro_batch == most->micro_batch) return fmt::format("{}", least->micro_batch);
  return fmt::format("{}-{}", least->micro_batch, most->micro_batch);
}

std::string gain_text(const Plan& plan, const Plan& rival) {
  std::vector<std::string> parts;
  add_part(parts, "depth", fmt::format("{}", pipeline_depth(plan)),
           fmt::format("{}", pipeline_depth(rival)));
  add_part(parts, "micro-batch", micro_batch_text(plan), micro_batch_text(rival));
  add_part(parts, "bubble", bubble_text(plan), bubble_text(rival));
  if (peak_bytes(plan) > 0 && peak_bytes(rival) > 0) {
    add_part(parts, "peak memory", bytes_text(static_cast<double>(peak_bytes(plan))),
             bytes_text(static_cast<double>(peak_bytes(rival))));
  }
  const double times = rival.estimate.iteration_s / plan.estimate.iteration_s;
  return fmt::format("{} is {:.2f}x as fast as {}{}{}", plan.planner, times, rival.planner,
                     parts.empty() ? "" : ": ", fmt::join(parts, "; "));
}

std::string headline(const std::vector<ComparedPlan>& plans) {
  std::vector<const Plan*> ok;
  for (const ComparedPlan& row : plans) {
    if (row.status == "ok" && row.plan.estimate.iteration_s > 0) ok.push_back(&row.plan);
  }
  if (ok.size() < 2) return "";
  std::stable_sort(ok.begin(), ok.end(), [](const Plan* a, const Plan* b) {
    return a->estimate.iteration_s < b->estimate.iteration_s;
  });
  const auto first_slower = std::find_if(ok.begin(), ok.end(), [&](const Plan* plan) {
    return plan->estimate.iteration_s > ok[0]->estimate.iteration_s * (1 + kTie);
  });
  std::vector<std::string> equals;
  for (auto at = ok.begin(); at != first_slower; ++at) equals.push_back((*at)->planner);
  if (first_slower == ok.end()) {
    return fmt::format("{} are equally fast", fmt::join(equals, ", "));
  }
  std::string text = gain_text(*ok[0], **first_slower);
  if (equals.size() == 1) return text;
  equals.erase(equals.begin());
  return fmt::format("{} (so {} {})", text, equals.size() == 1 ? "is" : "are",
                     fmt::join(equals, ", "));
}

}  // namespace graphpipe
