#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "planners/stage_tps.h"
#include "schedule/placement.h"
#include "schedule/verify.h"
#include "search/improve.h"
#include "search/iteration.h"
#include "search/plan_bound.h"
#include "search/turns.h"

namespace graphpipe {
namespace {

using Clock = std::chrono::steady_clock;

// A plan whose floor is no further below the best so far is not simulated.
constexpr double kNotWorth = 5e-4;

// Local improvement: from so many plans of the planner's, each with a floor of no more than so
// many times the lowest, by so much work in all (Workbench::work()); so many of what was found
// are simulated, and so many go on by so much work each.
constexpr std::size_t kMostStarts = 8;
constexpr double kWorthStarting = 1.6;
constexpr std::int64_t kEstimatedWork = 800'000;
constexpr std::size_t kMostFinals = 4;
constexpr std::size_t kMostClimbs = 3;
constexpr std::int64_t kSimulatedWork = 40'000;

// Before that, of the planner's plans those with the lowest estimates are simulated: one, and
// more while they take no more than so much work in all.
constexpr std::int64_t kJudgingWork = 6'000;

// After it, plans whose replicas take turns are made, and simulated, for so much work each.
// Those with floors of no more than so many times the best: local steps may do the rest.
constexpr std::int64_t kTurnsWork = 20'000;
constexpr double kWorthTurning = 1.1;
// So many of them go on.
constexpr std::size_t kMostTurnsClimbs = 2;

// What these are at most in all.
constexpr std::int64_t kClimbsWork = kMostClimbs * kSimulatedWork;
constexpr std::int64_t kTurnsPhaseWork = 2 * kTurnsWork + kMostTurnsClimbs * kSimulatedWork;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Budget budget_of(const Planner& planner, const SearchControl& control) {
  Budget budget;
  if (control.time_limit_s > 0) {
    const Clock::time_point start = Clock::now();
    budget.should_stop = [start, limit_s = control.time_limit_s] {
      return seconds_since(start) >= limit_s;
    };
  }
  if (control.progress) {
    budget.progress = [&control, name = planner.name](const std::string& phase, double done) {
      control.progress(name + ", " + phase, done);
    };
  }
  return budget;
}

Trace simulate_quickly(const Plan& plan, const Problem& problem) {
  return simulate_iteration(plan, problem);
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
  if (!plans_streams(problem)) {
    estimate.lower_bound_s = plan_lower_bound(problem, plan.schedule).seconds;
  }
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

// How far local steps have come, by work: of that in the parts behind, of what the part at hand may
// take at most, and of the parts to come.
class LocalProgress {
 public:
  LocalProgress(const Workbench& bench, Progress progress)
      : bench_(bench), progress_(std::move(progress)) {}

  void begin(std::int64_t most_work, std::int64_t later_work) {
    end_work_ = bench_.work() + most_work;
    later_work_ = later_work;
  }
  void tell() const {
    const std::int64_t left = std::max<std::int64_t>(end_work_ - bench_.work(), 0) + later_work_;
    const auto done = static_cast<double>(bench_.work());
    graphpipe::tell(progress_, done / (done + static_cast<double>(left) + 1));
  }

 private:
  const Workbench& bench_;
  Progress progress_;
  std::int64_t end_work_ = 0;
  std::int64_t later_work_ = 0;
};

class Judge {
 public:
  Judge(const Problem& problem, std::vector<Plan> plans)
      : table_(problem), plans_(std::move(plans)) {
    for (const Plan& plan : plans_) {
      floor_s_.push_back(iteration_floor_s(table_, plan));
      in_turns_.push_back(takes_turns(plan));
    }
    for (std::size_t i = 0; i < plans_.size(); ++i) waiting_.push_back({i, floor_s_[i]});
    std::ranges::stable_sort(waiting_, {}, &Waiting::floor_s);
  }

  // The fastest plan that the verifier passes. Others are simulated only where it passes
  // none of those that seemed the fastest.
  void judge(SearchResult& result, const Budget& budget) {
    progress_ = begin_phase(budget.progress, "simulation");
    weigh(result.weighed);
    result.status = PlanStatus::kInfeasible;
    settle_any(result);
  }

  // The same after local steps: from unlike plans by steps that the estimate finds faster, and
  // from the fastest of where they lead by steps that the simulator finds faster. Plans whose
  // replicas take turns, of which there is no estimate, come in at the end.
  void improve(SearchResult& result, const Budget& limits) {
    weigh(result.weighed);
    Workbench bench(table_);
    // Whoever asks whether to stop is between two steps.
    LocalProgress local(bench, begin_phase(limits.progress, "local steps"));
    local.begin(kEstimatedWork, kClimbsWork + 2 * kTurnsPhaseWork);
    Budget budget = limits;
    budget.should_stop = [&] {
      local.tell();
      return limits.should_stop && limits.should_stop();
    };
    simulate_lowest_estimates(bench);
    std::vector<Plan> found =
        race_plans(bench, starts(bench), kMostFinals, {kEstimatedWork, budget.should_stop});
    local.begin(kClimbsWork, 2 * kTurnsPhaseWork);
    climb(bench, found, kMostClimbs, budget);
    local.begin(kTurnsPhaseWork, kTurnsPhaseWork);
    climb(bench, with_turns(bench, std::move(found), budget), kMostTurnsClimbs, budget);
    local.begin(kTurnsPhaseWork, 0);
    climb(bench, proposed_turns(bench, budget), kMostTurnsClimbs, budget);
    result.status = PlanStatus::kInfeasible;
    settle(result);
    progress_ = begin_phase(limits.progress, "simulation");
    settle_any(result);
  }

 private:
  struct Waiting {
    std::size_t plan = 0;
    double floor_s = 0;
  };
  static constexpr std::size_t kNotProposed = SIZE_MAX;
  struct Judged {
    std::size_t proposed = kNotProposed;  // which of plans_
    Plan plan;
    Trace trace;
  };

  // Simulates the plans that wait until one of them passes.
  void settle_any(SearchResult& result) {
    while (result.status != PlanStatus::kOk && !waiting_.empty()) {
      simulate_lowest_floors();
      settle(result);
    }
  }

  // Goes on by simulation from so many of the plans, the fastest first.
  void climb(Workbench& bench, std::vector<Plan> plans, std::size_t most, const Budget& budget) {
    for (const Plan& plan : fastest(bench, std::move(plans), most)) {
      const Plan better =
          improve_plan(bench, plan, ImproveBy::kSimulation, {kSimulatedWork, budget.should_stop});
      judged_.push_back({kNotProposed, better, bench.simulated(better)});
    }
  }

  // Those of the plans, of what was judged and of the proposed ones with replicas that take turns
  // which may be, or come near, the fastest, the lowest floor first.
  std::vector<Plan> with_turns(Workbench& bench, std::vector<Plan> plans, const Budget& budget) {
    for (const Judged& one : judged_) plans.push_back(one.plan);
    plans.insert(plans.end(), plans_.begin(), plans_.end());
    drop_alike(plans);
    const std::int64_t end = bench.work() + kTurnsWork;
    std::vector<std::pair<double, Plan>> turned;
    for (const Plan& plan : plans) {
      if (stopped(bench, end, budget)) break;
      for (Plan& one : plans_in_turns(bench, plan)) {
        turned.emplace_back(bench.floor_s(one), std::move(one));
      }
    }
    return worth_turning(bench, std::move(turned), budget);
  }

  // The same of the proposed plans whose replicas take turns.
  std::vector<Plan> proposed_turns(Workbench& bench, const Budget& budget) {
    std::vector<std::pair<double, Plan>> turned;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (in_turns_[i]) turned.emplace_back(floor_s_[i], plans_[i]);
    }
    return worth_turning(bench, std::move(turned), budget);
  }

  // Whether the bench's work is at its end, or the budget.
  static bool stopped(const Workbench& bench, std::int64_t end, const Budget& budget) {
    return bench.work() >= end || (budget.should_stop && budget.should_stop());
  }

  // Of these plans with their floors, simulated now.
  std::vector<Plan> worth_turning(Workbench& bench, std::vector<std::pair<double, Plan>> turned,
                                  const Budget& budget) {
    std::ranges::stable_sort(turned, {}, &std::pair<double, Plan>::first);
    double best_s = std::numeric_limits<double>::infinity();
    for (const Judged& one : judged_) best_s = std::min(best_s, one.trace.iteration_s);
    const std::int64_t end = bench.work() + kTurnsWork;
    std::vector<Plan> found;
    for (auto& [floor_s, plan] : turned) {
      if (stopped(bench, end, budget) || floor_s >= best_s * kWorthTurning) break;
      best_s = std::min(best_s, bench.simulated_s(plan));
      found.push_back(std::move(plan));
    }
    return found;
  }

  // Of plans that differ in their samples in flight alone the first stays.
  static void drop_alike(std::vector<Plan>& plans) {
    std::set<std::uint64_t> known;
    std::erase_if(plans, [&](Plan plan) {
      for (Stage& stage : plan.stages) stage.in_flight_samples = 0;
      return !known.insert(plan_hash(plan)).second;
    });
  }

  // So many of the plans, the fastest by simulation first.
  static std::vector<Plan> fastest(Workbench& bench, std::vector<Plan> plans, std::size_t most) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      order.emplace_back(bench.simulated_s(plans[i]), i);
    }
    std::ranges::sort(order);
    std::vector<Plan> chosen;
    for (const auto& [seconds, i] : order) {
      if (chosen.size() < most) chosen.push_back(std::move(plans[i]));
    }
    return chosen;
  }

  // Unlike ones, those with the lowest floors: of each micro-batch size and number of stages the
  // one with the lowest estimate.
  std::vector<Plan> starts(Workbench& bench) {
    std::vector<std::size_t> order(plans_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [&](std::size_t i) { return in_turns_[i]; });
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return floor_s_[i]; });
    std::map<std::pair<std::int64_t, std::size_t>, std::vector<std::size_t>> alike;
    std::vector<std::pair<std::int64_t, std::size_t>> kinds;
    for (const std::size_t i : order) {
      const std::pair kind{plans_[i].stages[0].micro_batch, plans_[i].stages.size()};
      const auto [found, fresh] = alike.try_emplace(kind);
      if (fresh &&
          (kinds.size() == kMostStarts || floor_s_[i] > kWorthStarting * floor_s_[order.front()])) {
        alike.erase(found);
        continue;
      }
      if (fresh) kinds.push_back(kind);
      found->second.push_back(i);
    }
    std::vector<Plan> starts;
    for (const auto& kind : kinds) {
      starts.push_back(plans_[*std::ranges::min_element(
          alike.at(kind), {}, [&](std::size_t i) { return estimate_s(bench, i); })]);
    }
    return starts;
  }

  // Of a planner's plan; its floor where there is no estimate.
  double estimate_s(Workbench& bench, std::size_t plan) {
    if (estimate_s_.empty()) {
      for (const Plan& each : plans_) estimate_s_.push_back(bench.estimate_s(each));
    }
    return estimate_s_[plan] > 0 ? estimate_s_[plan] : floor_s_[plan];
  }

  void simulate_lowest_estimates(Workbench& bench) {
    std::ranges::stable_sort(waiting_, {},
                             [&](const Waiting& w) { return estimate_s(bench, w.plan); });
    double best_s = std::numeric_limits<double>::infinity();
    const std::int64_t end = bench.work() + kJudgingWork;
    std::vector<Waiting> left;
    for (const Waiting& next : waiting_) {
      const bool worth = !in_turns_[next.plan] && next.floor_s < best_s * (1 - kNotWorth);
      if (!worth || (!judged_.empty() && bench.work() >= end)) {
        left.push_back(next);
        continue;
      }
      judged_.push_back({next.plan, plans_[next.plan], bench.simulated(plans_[next.plan])});
      best_s = std::min(best_s, judged_.back().trace.iteration_s);
    }
    std::ranges::stable_sort(left, {}, &Waiting::floor_s);
    waiting_ = std::move(left);
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

  // Those that may be the fastest, the lowest floor first.
  void simulate_lowest_floors() {
    double best_s = std::numeric_limits<double>::infinity();
    std::size_t done = 0;
    while (done < waiting_.size() && waiting_[done].floor_s <= best_s * (1 - kNotWorth)) {
      tell(part_of(progress_, done, waiting_.size()), 0);
      const std::size_t plan = waiting_[done++].plan;
      judged_.push_back({plan, plans_[plan], simulate_quickly(plans_[plan], table_.problem())});
      best_s = std::min(best_s, judged_.back().trace.iteration_s);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(done));
  }

  // Takes the fastest of the simulated that the verifier passes, and forgets them.
  void settle(SearchResult& result) {
    const Problem& problem = table_.problem();
    std::ranges::stable_sort(judged_, {}, [](const Judged& j) {
      return std::pair{j.trace.iteration_s, j.proposed};
    });
    for (const Judged& one : judged_) {
      ++result.candidates;
      if (one.proposed != kNotProposed) {
        result.weighed[one.proposed].iteration_s = one.trace.iteration_s;
      }
    }
    for (Judged& one : judged_) {
      one.plan = as_run(std::move(one.plan), problem);
      const Verification verification =
          verify_plan(one.plan, *problem.graph, *problem.cluster, *problem.costs);
      if (verification.ok()) {
        fill_estimate(one.plan, one.trace, verification, table_);
        result.status = PlanStatus::kOk;
        result.reason.clear();
        result.plan = std::move(one.plan);
        break;
      }
      if (one.proposed != kNotProposed) {
        result.weighed[one.proposed].refused = fault_text(verification);
      }
      if (result.reason.empty()) {
        result.reason = "no plan passes the verifier; the fastest: " + fault_text(verification);
      }
    }
    judged_.clear();
  }

  CostTable table_;
  std::vector<Plan> plans_;
  std::vector<double> floor_s_;     // [plan]
  std::vector<bool> in_turns_;      // [plan]: some replicas take whole micro-batches in turn
  std::vector<double> estimate_s_;  // [plan]; empty: not asked yet
  std::vector<Waiting> waiting_;    // the lowest floor first
  std::vector<Judged> judged_;
  Progress progress_;  // of simulating those that wait
};

// These options, and before them the same with less of what local steps may change: one
// micro-batch size, k = 1.
std::vector<PlanOptions> ever_wider(const PlanOptions& options) {
  std::vector<PlanOptions> list;
  const bool k = std::ranges::any_of(options.kfkb, [](int one) { return one != 1; });
  for (const bool with_k : {false, true}) {
    for (const bool with_sizes : {false, true}) {
      if ((with_k && !k) || (with_sizes && !options.per_stage_micro_batch)) continue;
      PlanOptions& narrower = list.emplace_back(options);
      if (!with_k) narrower.kfkb = {1};
      narrower.per_stage_micro_batch = with_sizes;
    }
  }
  return list;
}

// More kinds of steps lead elsewhere, not always further: what is found without them is one more
// start, and stays where nothing is faster.
SearchResult improve(const Problem& problem, std::vector<Plan> plans, const Budget& budget) {
  SearchResult best;
  std::vector<WeighedPlan> weighed;  // of the planner's plans alone
  int candidates = 0;
  for (const PlanOptions& options : ever_wider(problem.options)) {
    Problem narrower = problem;
    narrower.options = options;
    SearchResult found;
    Judge(narrower, plans).improve(found, budget);
    if (candidates == 0) weighed = found.weighed;
    const bool better = candidates == 0 || is_better(found, best);
    candidates += found.candidates;
    if (!better) continue;
    best = std::move(found);
    if (best.status == PlanStatus::kOk) plans.push_back(best.plan);
  }
  best.weighed = std::move(weighed);
  best.candidates = candidates;
  return best;
}

}  // namespace

bool is_better(const SearchResult& a, const SearchResult& b) {
  if (a.status != PlanStatus::kOk || b.status != PlanStatus::kOk) {
    return a.status == PlanStatus::kOk && b.status != PlanStatus::kOk;
  }
  return a.plan.estimate.iteration_s < b.plan.estimate.iteration_s;
}

std::string fault_text(const Verification& verification) {
  const Fault& fault = verification.faults.front();
  return fmt::format("{} at {}: {}", fault.rule, fault.where, fault.message);
}

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

SearchResult search_plan(const Planner& planner, const Problem& problem,
                         const SearchControl& control) {
  const Clock::time_point start = Clock::now();
  const Budget budget = budget_of(planner, control);
  PlanResult proposed = planner.plan(problem, budget);
  if (proposed.status == PlanStatus::kOk && problem.options.all_devices) {
    keep_full_plans(proposed, problem);
  }
  SearchResult result;
  result.status = proposed.status;
  result.reason = proposed.reason;
  const Clock::time_point judging = Clock::now();
  if (proposed.status == PlanStatus::kOk) {
    if (planner.improve) {
      result = improve(problem, std::move(proposed.candidates), budget);
    } else {
      Judge(problem, std::move(proposed.candidates)).judge(result, budget);
    }
    result.judge_s = seconds_since(judging);
  }
  result.search_s = std::chrono::duration<double>(judging - start).count();
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
