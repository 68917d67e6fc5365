#include "report/headline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace graphpipe {
namespace {

// Closer than this and neither has won.
constexpr double kTie = 0.005;
// Peaks closer than this are not worth a word.
constexpr double kSameMemory = 0.05;

std::string bubble_text(const Plan& plan) {
  return fmt::format("{:.1f} %", 100 * plan.estimate.bubble_fraction);
}

std::int64_t peak_bytes(const Plan& plan) {
  const auto& bytes = plan.estimate.stage_memory_bytes;
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

// What differs, by whether it is in the plan's favour.
struct Differences {
  std::vector<std::string> gains;
  std::vector<std::string> costs;

  void add(bool better, const char* what, const std::string& mine, const std::string& theirs) {
    if (mine == theirs) return;
    (better ? gains : costs).push_back(fmt::format("{} {} instead of {}", what, mine, theirs));
  }
};

std::int64_t largest_micro_batch(const Plan& plan) {
  std::int64_t largest = 0;
  for (const Stage& stage : plan.stages) largest = std::max(largest, stage.micro_batch);
  return largest;
}

Differences differences(const Plan& plan, const Plan& rival) {
  Differences found;
  const int depth = pipeline_depth(plan);
  const int rival_depth = pipeline_depth(rival);
  found.add(depth < rival_depth, "depth", fmt::format("{}", depth), fmt::format("{}", rival_depth));
  found.add(largest_micro_batch(plan) >= largest_micro_batch(rival), "micro-batch",
            micro_batch_text(plan), micro_batch_text(rival));
  found.add(plan.estimate.bubble_fraction < rival.estimate.bubble_fraction, "bubble",
            bubble_text(plan), bubble_text(rival));
  const auto peak = static_cast<double>(peak_bytes(plan));
  const auto rival_peak = static_cast<double>(peak_bytes(rival));
  if (peak > 0 && rival_peak > 0 && std::abs(peak / rival_peak - 1) > kSameMemory) {
    found.add(peak < rival_peak, "peak memory", bytes_text(peak), bytes_text(rival_peak));
  }
  return found;
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
  const auto [gains, costs] = differences(plan, rival);
  const double times = rival.estimate.iteration_s / plan.estimate.iteration_s;
  std::string text = fmt::format("{} is {:.2f}x as fast as {}", plan.planner, times, rival.planner);
  if (!gains.empty()) text += fmt::format(": {}", fmt::join(gains, "; "));
  if (!costs.empty())
    text += fmt::format("{} at the cost of {}", gains.empty() ? "" : ",", fmt::join(costs, "; "));
  return text;
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
