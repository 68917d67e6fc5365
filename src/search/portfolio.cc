#include "search/portfolio.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace graphpipe {
namespace {

// A limit of 0 would be none.
constexpr double kLeastLimitS = 1e-9;

// Where no planner has a plan.
std::string all_reasons(const std::vector<PortfolioEntry>& entries) {
  std::string text = "no planner has a plan";
  for (const PortfolioEntry& entry : entries) {
    text += fmt::format("\n  {}: {}", entry.planner, entry.result.reason);
  }
  return text;
}

}  // namespace

PortfolioResult search_portfolio(const std::vector<Planner>& planners, const Problem& problem,
                                 const SearchControl& control) {
  const auto start = std::chrono::steady_clock::now();
  PortfolioResult portfolio;
  for (std::size_t i = 0; i < planners.size(); ++i) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    SearchControl one = control;
    if (control.time_limit_s > 0) {
      const auto waiting = static_cast<double>(planners.size() - i);
      one.time_limit_s = std::max((control.time_limit_s - passed.count()) / waiting, kLeastLimitS);
    }
    portfolio.entries.push_back({planners[i].name, search_plan(planners[i], problem, one)});
  }
  const auto best = std::ranges::min_element(portfolio.entries, [](const auto& a, const auto& b) {
    return is_better(a.result, b.result);
  });
  if (best == portfolio.entries.end()) return portfolio;
  portfolio.best = best->result;
  portfolio.best.search_s = 0;
  portfolio.best.judge_s = 0;
  for (const PortfolioEntry& entry : portfolio.entries) {
    portfolio.best.search_s += entry.result.search_s;
    portfolio.best.judge_s += entry.result.judge_s;
    if (entry.result.status == PlanStatus::kGaveUp && portfolio.best.status != PlanStatus::kOk) {
      portfolio.best.status = PlanStatus::kGaveUp;
    }
  }
  if (portfolio.best.status != PlanStatus::kOk) {
    portfolio.best.reason = all_reasons(portfolio.entries);
    return portfolio;
  }
  portfolio.best.plan.estimate.search_s = portfolio.best.search_s + portfolio.best.judge_s;
  return portfolio;
}

}  // namespace graphpipe
