#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <utility>

#include "planners/stage_tps.h"
#include "schedule/placement.h"
#include "schedule/verify.h"
#include "search/improve.h"
#include "search/plan_bound.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

using Clock = std::chrono::steady_clock;

// A plan whose floor is no further below the best so far is not simulated.
constexpr double kNotWorth = 5e-4;

// Local improvement: from so many plans of the planner's, each with a floor of no more than so
// many times the lowest, by so much work in all (Workbench::work()); then from so many of what
// was found, by so much work each.
constexpr std::size_t kMostStarts = 8;
constexpr double kWorthStarting = 1.6;
constexpr std::int64_t kEstimatedWork = 1'000'000;
constexpr std::size_t kMostFinals = 2;
constexpr std::int64_t kSimulatedWork = 250'000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Budget budget_until(double time_limit_s) {
  Budget budget;
  if (time_limit_s > 0) {
    const Clock::time_point start = Clock::now();
    budget.should_stop = [=] { return seconds_since(start) >= time_limit_s; };
  }
  return budget;
}

Trace simulate_quickly(const Plan& plan, const Problem& problem) {
  return simulate_plan(plan, *problem.graph, *problem.cluster, *problem.costs, {}, true);
}

std::string fault_text(const Verification& verification) {
  const Fault& fault = verification.faults.front();
  return fmt::format("{} at {}: {}", fault.rule, fault.where, fault.message);
}

// Of the fullest device of each stage.
std::vector<std::int64_t> stage_peaks(const Plan& plan, const std::vector<RankMemory>& memory) {
  const std::vector<DeviceId> devices = used_devices(plan);  // [rank]
  std::vector<std::int64_t> peaks;
  for (const Stage& stage : plan.stages) {
    std::int64_t peak = 0;
    for (const DeviceId device : stage.devices) {
      const auto rank = std::ranges::lower_bound(devices, device) - devices.begin();
      peak = std::max(peak, memory[static_cast<std::size_t>(rank)].peak_bytes);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

void fill_estimate(Plan& plan, const Trace& trace, const Verification& verification,
                   CostTable& table) {
  const Problem& problem = table.problem();
  PlanEstimate& estimate = plan.estimate;
  estimate.iteration_s = trace.iteration_s;
  estimate.throughput_samples_per_s = trace.throughput_samples_per_s();
  estimate.bubble_fraction = trace.bubble_fraction();
  estimate.stage_memory_bytes = stage_peaks(plan, verification.memory);
  estimate.stage_tps_s.clear();
  for (const Stage& stage : plan.stages) {
    estimate.stage_tps_s.push_back(stage_tps_s(table, stage.ops, stage.micro_batch,
                                               static_cast<int>(stage.devices.size()),
                                               stage.recompute));
  }
  estimate.lower_bound_s = plan_lower_bound(problem, plan.schedule).seconds;
}

// Leaves the plans that use every device; says why where there are none.
void keep_full_plans(PlanResult& proposed, const Problem& problem) {
  const int devices = problem.cluster->device_count();
  int most = 0;
  for (const Plan& plan : proposed.candidates) most = std::max(most, devices_used(plan));
  std::erase_if(proposed.candidates, [&](const Plan& p) { return devices_used(p) < devices; });
  if (!proposed.candidates.empty()) return;
  proposed.status = PlanStatus::kInfeasible;
  proposed.reason =
      fmt::format("no plan was found that uses all {} devices; the widest uses {}", devices, most);
}

class Judge {
 public:
  Judge(const Problem& problem, std::vector<Plan> plans)
      : table_(problem), plans_(std::move(plans)) {
    std::vector<double> floor_s;
    for (const Plan& plan : plans_) floor_s.push_back(iteration_floor_s(table_, plan));
    for (std::size_t i = 0; i < plans_.size(); ++i) waiting_.push_back({i, floor_s[i]});
    std::ranges::stable_sort(waiting_, {}, &Waiting::floor_s);
  }

  // The fastest plan that the verifier passes. Others are simulated only where it passes
  // none of those that seemed the fastest.
  void judge(SearchResult& result) {
    weigh(result.weighed);
    result.status = PlanStatus::kInfeasible;
    while (result.status != PlanStatus::kOk && !waiting_.empty()) {
      const std::vector<Judged> judged = simulate();
      for (const Judged& one : judged) {
        result.weighed[one.plan].iteration_s = one.trace.iteration_s;
      }
      settle(judged, result);
    }
  }

  // Goes on from unlike plans by local steps that the estimate finds faster, and from the fastest
  // of where they lead by steps that the simulator finds faster. Requires: judge() found a plan.
  void improve(SearchResult& result, const Budget& budget) {
    Workbench bench(table_);
    const Problem& problem = table_.problem();
    std::vector<Start> found = starts(result.weighed);
    for (Start& start : found) {
      const auto left = static_cast<std::int64_t>(&found.back() - &start + 1);
      const std::int64_t work = (kEstimatedWork - bench.work()) / left;
      start.plan =
          improve_plan(bench, start.plan, ImproveBy::kEstimate, {work, budget.should_stop});
      start.iteration_s = simulate_quickly(start.plan, problem).iteration_s;
    }
    std::ranges::stable_sort(found, {}, &Start::iteration_s);
    if (found.size() > kMostFinals) found.resize(kMostFinals);
    for (Start& start : found) {
      start.plan = improve_plan(bench, start.plan, ImproveBy::kSimulation,
                                {kSimulatedWork, budget.should_stop});
      const Trace trace = simulate_quickly(start.plan, problem);
      if (trace.iteration_s >= result.plan.estimate.iteration_s) continue;
      const Verification verification =
          verify_plan(start.plan, *problem.graph, *problem.cluster, *problem.costs);
      if (!verification.ok()) continue;
      fill_estimate(start.plan, trace, verification, table_);
      result.plan = std::move(start.plan);
    }
  }

 private:
  struct Waiting {
    std::size_t plan = 0;
    double floor_s = 0;
  };
  struct Judged {
    std::size_t plan = 0;
    Trace trace;
  };

  struct Start {
    Plan plan;
    double iteration_s = 0;
  };

  // Unlike ones: of each micro-batch size and number of stages the one with the lowest floor.
  std::vector<Start> starts(const std::vector<WeighedPlan>& weighed) const {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < plans_.size(); ++i) order.emplace_back(weighed[i].floor_s, i);
    std::ranges::sort(order);
    std::set<std::pair<std::int64_t, std::size_t>> known;
    std::vector<Start> starts;
    for (const auto& [floor_s, index] : order) {
      if (starts.size() == kMostStarts || floor_s > kWorthStarting * order.front().first) break;
      const Plan& plan = plans_[index];
      if (!known.insert({plan.stages[0].micro_batch, plan.stages.size()}).second) continue;
      const double known_s = weighed[index].iteration_s;
      starts.push_back(
          {plan, known_s > 0 ? known_s : simulate_quickly(plan, table_.problem()).iteration_s});
    }
    std::ranges::stable_sort(starts, {}, &Start::iteration_s);
    return starts;
  }

  // What is known of the plans before any is simulated, in their order.
  void weigh(std::vector<WeighedPlan>& weighed) {
    weighed.resize(plans_.size());
    for (const Waiting& waiting : waiting_) {
      const Plan& plan = plans_[waiting.plan];
      WeighedPlan& weighed_plan = weighed[waiting.plan];
      weighed_plan.floor_s = waiting.floor_s;
      weighed_plan.stages = static_cast<int>(plan.stages.size());
      weighed_plan.depth = pipeline_depth(plan);
      weighed_plan.micro_batch = plan.stages[0].micro_batch;
      for (const Stage& stage : plan.stages) {
        if (stage.micro_batch != plan.stages[0].micro_batch) weighed_plan.micro_batch = 0;
        weighed_plan.slowest_tps_s =
            std::max(weighed_plan.slowest_tps_s,
                     stage_tps_s(table_, stage.ops, stage.micro_batch,
                                 static_cast<int>(stage.devices.size()), stage.recompute));
      }
    }
  }

  // Those that may be the fastest, the lowest floor first; the fastest first.
  std::vector<Judged> simulate() {
    std::vector<Judged> judged;
    double best_s = std::numeric_limits<double>::infinity();
    for (const Waiting& next : waiting_) {
      if (next.floor_s > best_s * (1 - kNotWorth)) break;
      judged.push_back({next.plan, simulate_quickly(plans_[next.plan], table_.problem())});
      best_s = std::min(best_s, judged.back().trace.iteration_s);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(judged.size()));
    std::ranges::sort(judged, [](const Judged& a, const Judged& b) {
      return a.trace.iteration_s != b.trace.iteration_s ? a.trace.iteration_s < b.trace.iteration_s
                                                        : a.plan < b.plan;
    });
    return judged;
  }

  void settle(const std::vector<Judged>& judged, SearchResult& result) {
    const Problem& problem = table_.problem();
    result.candidates += static_cast<int>(judged.size());
    for (const auto& [index, trace] : judged) {
      Plan& plan = plans_[index];
      const Verification verification =
          verify_plan(plan, *problem.graph, *problem.cluster, *problem.costs);
      if (verification.ok()) {
        fill_estimate(plan, trace, verification, table_);
        result.status = PlanStatus::kOk;
        result.reason.clear();
        result.plan = plan;
        return;
      }
      result.weighed[index].refused = fault_text(verification);
      if (result.reason.empty()) {
        result.reason = "no plan passes the verifier; the fastest: " + fault_text(verification);
      }
    }
  }

  CostTable table_;
  std::vector<Plan> plans_;
  std::vector<Waiting> waiting_;  // the lowest floor first
};

}  // namespace

SearchResult search_plan(const Planner& planner, const Problem& problem, double time_limit_s) {
  const Clock::time_point start = Clock::now();
  const Budget budget = budget_until(time_limit_s);
  PlanResult proposed = planner.plan(problem, budget);
  if (proposed.status == PlanStatus::kOk && problem.options.all_devices) {
    keep_full_plans(proposed, problem);
  }
  SearchResult result;
  result.status = proposed.status;
  result.reason = proposed.reason;
  result.search_s = seconds_since(start);
  if (proposed.status == PlanStatus::kOk) {
    const Clock::time_point judging = Clock::now();
    Judge judge(problem, std::move(proposed.candidates));
    judge.judge(result);
    if (planner.improve && result.status == PlanStatus::kOk) judge.improve(result, budget);
    result.judge_s = seconds_since(judging);
  }
  result.plan.estimate.search_s = result.search_s + result.judge_s;
  return result;
}

std::string judge_plan(Plan& plan, const Problem& problem) {
  CostTable table(problem);
  const Verification verification =
      verify_plan(plan, *problem.graph, *problem.cluster, *problem.costs);
  if (!verification.ok()) return fault_text(verification);
  fill_estimate(plan, simulate_quickly(plan, problem), verification, table);
  return "";
}

}  // namespace graphpipe
