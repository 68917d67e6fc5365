#include "search/improve.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "planners/in_flight.h"
#include "search/moves.h"

namespace graphpipe {
namespace {

// A step must gain this part of the iteration at least.
constexpr double kLeastGain = 1e-3;

// Of a kind of steps so many are made plans, and of these so many are simulated: those with the
// lowest estimates.
constexpr std::size_t kMostPlans = 48;
// They are made so many at a time, the most promising first, until some gain.
constexpr std::size_t kPlansAtOnce = 12;

constexpr std::size_t kMostSimulated = 3;

// Estimates are taken in proportion to that of the plan at hand, and may then be so far off.
constexpr double kEstimateOff = 1.01;

// A race has so many rounds.
constexpr int kRounds = 4;

// Stages within this part of the largest floor bound the iteration with it.
constexpr double kNearBound = 0.9;
constexpr std::size_t kMostBounding = 4;

Layout layout_of(const Plan& plan) {
  Layout layout{plan.stages, 1};
  std::int64_t least_off = -1;
  for (const std::int64_t hops : {1, 2, 3}) {
    const std::vector<std::int64_t> counts = in_flight_by_hops(plan, hops);
    std::int64_t off = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      off += std::abs(std::min(counts[s], plan.mini_batch) - plan.stages[s].in_flight_samples);
    }
    if (least_off >= 0 && off >= least_off) continue;
    least_off = off;
    layout.hops = hops;
  }
  return layout;
}

class Climber {
 public:
  Climber(Workbench& bench, const Plan& plan, ImproveBy by)
      : bench_(&bench), by_(by), plan_(plan), layout_(layout_of(plan)) {
    iteration_s_ = measured_s(plan_);
  }

  // Goes on until nothing gains or the limits are met, and from there when called again.
  void climb(const ImproveLimits& limits) {
    limits_ = limits;
    end_ = bench_->work() + limits.work;
    while (!at_top_ && !stopped()) at_top_ = !step() && !stopped();
  }

  const Plan& plan() const { return plan_; }
  double iteration_s() const { return iteration_s_; }
  bool at_top() const { return at_top_; }

 private:
  struct Candidate {
    Layout layout;
    Plan plan;
    double estimate_s = 0;
  };

  bool stopped() const {
    return bench_->work() >= end_ || (limits_.should_stop && limits_.should_stop());
  }
  double wanted_s() const { return iteration_s_ * (1 - kLeastGain); }
  double measured_s(const Plan& plan) {
    return by_ == ImproveBy::kSimulation ? bench_->simulated_s(plan) : bench_->estimate_s(plan);
  }

  // Tries kinds of steps in turn, until one gains.
  bool step() {
    const std::vector<double> floors = bench_->stage_floors_s(plan_);
    std::vector<std::size_t> order(floors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order,
                             [&](std::size_t a, std::size_t b) { return floors[a] > floors[b]; });
    for (std::size_t i = 0; i < order.size() && i < kMostBounding; ++i) {
      if (floors[order[i]] < kNearBound * floors[order[0]]) break;
      if (take_best(moves_from(*bench_, layout_, layout_index(order[i]), wanted_s()))) return true;
      if (stopped()) return false;
    }
    if (take_best(whole_moves(*bench_, layout_, wanted_s()))) return true;
    return !stopped() && take_best(placement_moves(*bench_, layout_, plan_));
  }

  // Where the plan's stage stands in the layout.
  std::size_t layout_index(std::size_t stage) const {
    const OpId first = plan_.stages[stage].ops.front();
    const auto found = std::ranges::find_if(
        layout_.stages, [&](const Stage& other) { return other.ops.front() == first; });
    return static_cast<std::size_t>(found - layout_.stages.begin());
  }

  bool take_best(const std::vector<Move>& moves) {
    if (moves.empty()) return false;
    const bool simulate = by_ == ImproveBy::kSimulation;
    const double here_s = simulate ? bench_->estimate_s(plan_) : iteration_s_;
    const double scale = here_s > 0 ? iteration_s_ / here_s : 1;
    const double off = simulate ? kEstimateOff : 1;
    const std::size_t end = std::min(moves.size(), kMostPlans);
    for (std::size_t i = 0; i < end && !stopped();) {
      std::vector<Candidate> candidates;
      for (const std::size_t part = std::min(end, i + kPlansAtOnce); i < part && !stopped(); ++i) {
        Layout layout = after(layout_, moves[i]);
        std::optional<Plan> plan = bench_->plan_of(layout, plan_);
        if (!plan || !uses_enough(*plan)) continue;
        const double estimate_s = scale * bench_->estimate_s(*plan);
        if (estimate_s == 0 || estimate_s >= off * wanted_s()) continue;  // 0: it stalls
        candidates.push_back({std::move(layout), std::move(*plan), estimate_s});
      }
      std::ranges::stable_sort(candidates, {}, &Candidate::estimate_s);
      if (candidates.size() > kMostSimulated) candidates.resize(kMostSimulated);
      bool gained = false;
      for (Candidate& candidate : candidates) {
        if (candidate.estimate_s >= off * wanted_s() || stopped()) break;
        gained = take(candidate) || gained;
      }
      if (gained) return true;
    }
    return false;
  }

  bool uses_enough(const Plan& plan) const {
    const Problem& problem = bench_->problem();
    return !problem.options.all_devices || devices_used(plan) == problem.cluster->device_count();
  }

  bool take(Candidate& candidate) {
    if (!bench_->make_fit(candidate.plan) || !bench_->runs(candidate.plan)) return false;
    const double seconds = measured_s(candidate.plan);
    if (seconds >= wanted_s()) return false;
    iteration_s_ = seconds;
    plan_ = std::move(candidate.plan);
    layout_ = std::move(candidate.layout);
    return true;
  }

  Workbench* bench_;
  ImproveBy by_;
  ImproveLimits limits_;
  Plan plan_;
  Layout layout_;
  double iteration_s_ = 0;
  std::int64_t end_ = 0;
  bool at_top_ = false;
};

// Of those that have met, the first stays.
void drop_doubles(std::vector<Climber>& climbers) {
  std::set<std::uint64_t> known;
  std::erase_if(climbers,
                [&](const Climber& one) { return !known.insert(plan_hash(one.plan())).second; });
}

}  // namespace

Plan improve_plan(Workbench& bench, const Plan& plan, ImproveBy by, const ImproveLimits& limits) {
  Climber climber(bench, plan, by);
  climber.climb(limits);
  return climber.plan();
}

std::vector<Plan> race_plans(Workbench& bench, const std::vector<Plan>& starts, std::size_t finals,
                             const ImproveLimits& limits) {
  std::vector<Climber> climbers;
  for (const Plan& plan : starts) climbers.emplace_back(bench, plan, ImproveBy::kEstimate);
  const std::int64_t end = bench.work() + limits.work;
  for (int rounds = kRounds; rounds > 0; --rounds) {
    const std::int64_t round_end = bench.work() + (end - bench.work()) / rounds;
    for (std::size_t i = 0; i < climbers.size(); ++i) {
      const auto left = static_cast<std::int64_t>(climbers.size() - i);
      climbers[i].climb({(round_end - bench.work()) / left, limits.should_stop});
    }
    std::ranges::stable_sort(climbers, {}, &Climber::iteration_s);
    drop_doubles(climbers);
    const std::size_t left = rounds > 1 ? (climbers.size() + 1) / 2 : climbers.size();
    while (climbers.size() > std::max(left, finals)) climbers.pop_back();
    if (std::ranges::all_of(climbers, &Climber::at_top)) break;
  }
  std::vector<Plan> plans;
  for (const Climber& climber : climbers) {
    if (plans.size() < finals) plans.push_back(climber.plan());
  }
  return plans;
}

}  // namespace graphpipe
