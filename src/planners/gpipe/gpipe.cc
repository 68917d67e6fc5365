// Huang et al., "GPipe", NeurIPS 2019, section 2. Symbols as there:
//   K  stages            L  layers (here: operators in their order)
//   M  micro-batches     N  samples in a mini-batch (here: B)
// Departs from the paper: stages are balanced on seconds, not FLOPs, and every K up to the
// number of devices is proposed. Activations are recomputed only with options that say so, on
// the stages that do not fit otherwise; runs are balanced without the forwards that this adds.

#include "planners/gpipe/gpipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plan/stage_memory.h"
#include "planners/in_flight.h"
#include "planners/stage_tps.h"

namespace graphpipe {
namespace {

// Seconds of operators [0, i), forward and backward.
std::vector<double> seconds_before(const CostTable::Column& column) {
  std::vector<double> before = {0};
  for (std::size_t i = 0; i < column.forward_s.size(); ++i) {
    before.push_back(before.back() + column.forward_s[i] + column.backward_s[i]);
  }
  return before;
}

// Ends of at most `stages` runs of at most `most_s` seconds each, the longest first runs
// that there are; empty: there are none. Each run has an operator.
std::vector<std::size_t> cut(const std::vector<double>& before, std::size_t stages, double most_s) {
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  const std::size_t count = before.size() - 1;
  while (at < count) {
    std::size_t end = at + 1;
    if (before[end] - before[at] > most_s || ends.size() == stages) return {};
    while (end < count && before[end + 1] - before[at] <= most_s) ++end;
    ends.push_back(end);
    at = end;
  }
  return ends;
}

// The runs whose longest is least. Only sums of runs matter, so halving ends when the
// bracket holds no more of them that differ beyond rounding.
std::vector<std::size_t> balanced(const std::vector<double>& before, std::size_t stages) {
  double low = before.back() / static_cast<double>(stages) * (1 - 1e-9);
  double high = before.back();
  std::vector<std::size_t> best = cut(before, stages, high);
  for (int i = 0; i < 60 && high - low > 1e-9 * high; ++i) {
    const double middle = (low + high) / 2;
    std::vector<std::size_t> ends = cut(before, stages, middle);
    if (ends.empty()) {
      low = middle;
    } else {
      high = middle;
      best = std::move(ends);
    }
  }
  return best;
}

// As many runs as `stages`: the longest that has several operators is cut in two, in its middle,
// until there are. Requires: there are so many operators.
void cut_further(const std::vector<double>& before, std::size_t stages,
                 std::vector<std::size_t>& ends) {
  while (ends.size() < stages) {
    std::size_t longest = ends.size();
    double longest_s = -1;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const std::size_t begin = i == 0 ? 0 : ends[i - 1];
      const double seconds = before[ends[i]] - before[begin];
      if (ends[i] - begin < 2 || seconds <= longest_s) continue;
      longest = i;
      longest_s = seconds;
    }
    const std::size_t begin = longest == 0 ? 0 : ends[longest - 1];
    const double middle_s = before[begin] + longest_s / 2;
    const auto first = before.begin() + static_cast<std::ptrdiff_t>(begin) + 1;
    const auto last = before.begin() + static_cast<std::ptrdiff_t>(ends[longest]) - 1;
    const auto middle = std::lower_bound(first, last, middle_s);
    ends.insert(ends.begin() + static_cast<std::ptrdiff_t>(longest),
                static_cast<std::size_t>(middle - before.begin()));
  }
}

class ChainPlanner {
 public:
  explicit ChainPlanner(const Problem& problem)
      : problem_(problem), table_(problem), empty_(empty_plan(problem, "gpipe")) {
    empty_.schedule = ScheduleKind::kGpipe;
  }

  PlanResult plan(const Budget& budget) {
    PlanResult result;
    const std::vector<std::int64_t> sizes = micro_batch_sizes(problem_);
    const Progress progress = begin_phase(budget.progress, "partitions");
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      tell(part_of(progress, i, sizes.size()), 0);
      if (budget.should_stop && budget.should_stop()) result.status = PlanStatus::kGaveUp;
      if (result.status == PlanStatus::kGaveUp) break;
      result.work += propose(sizes[i], budget.candidates);
    }
    std::ranges::stable_sort(candidates_, {}, &Candidate::floor_s);
    for (Candidate& candidate : candidates_) result.candidates.push_back(std::move(candidate.plan));
    if (!result.candidates.empty()) {
      result.status = PlanStatus::kOk;
    } else {
      result.reason =
          result.status == PlanStatus::kGaveUp ? "stopped before a plan was found" : nearest_miss_;
    }
    return result;
  }

 private:
  struct Candidate {
    Plan plan;
    double floor_s = 0;
  };

  // Every number of stages at this micro-batch size; the best few are kept.
  std::int64_t propose(std::int64_t b, std::int64_t wanted) {
    const std::vector<double> before = seconds_before(table_.at(b));
    const auto devices = static_cast<std::size_t>(problem_.cluster->device_count());
    const std::size_t most = std::min(devices, problem_.graph->op_count());
    // A longest operator: no more stages help, but every device may be wanted in use.
    const bool all = problem_.options.all_devices && most == devices;
    std::vector<Candidate> found;
    std::size_t known = 0;
    for (std::size_t k = all ? most : 1; k <= most; ++k) {
      std::vector<std::size_t> ends = balanced(before, k);
      if (all) cut_further(before, k, ends);
      if (ends.size() <= known) continue;
      known = ends.size();
      Plan plan = chain(ends, b);
      if (!fits(plan)) continue;
      const double floor_s = iteration_floor_s(table_, plan);
      found.push_back({std::move(plan), floor_s});
    }
    std::ranges::stable_sort(found, {}, &Candidate::floor_s);
    if (static_cast<std::int64_t>(found.size()) > wanted) {
      found.resize(static_cast<std::size_t>(wanted));
    }
    std::ranges::move(found, std::back_inserter(candidates_));
    return static_cast<std::int64_t>(most);
  }

  Plan chain(const std::vector<std::size_t>& ends, std::int64_t b) const {
    Plan plan = empty_;
    std::size_t op = 0;
    for (std::size_t s = 0; s < ends.size(); ++s) {
      Stage stage;
      for (; op < ends[s]; ++op) stage.ops.emplace_back(op);
      stage.devices = {DeviceId(s)};
      stage.micro_batch = b;
      stage.in_flight_samples = problem_.mini_batch;
      plan.stages.push_back(std::move(stage));
    }
    plan.edges = data_edges(*problem_.graph, plan.stages);
    add_chain_order(plan);
    if (plans_streams(problem_)) {  // without a flush there is no end to all forwards
      plan.schedule = ScheduleKind::k1F1B;
      set_in_flight(plan, least_in_flight(plan));
    }
    return plan;
  }

  bool fits(Plan& plan) {
    const std::int64_t limit = table_.device().memory_bytes;
    const auto [fullest, most] = fit_stages(plan, problem_, table_.device());
    if (most > limit && (nearest_miss_.empty() || most < nearest_miss_bytes_)) {
      nearest_miss_bytes_ = most;
      nearest_miss_ = fmt::format(
          "the nearest that it came: {} stages at micro-batch {}, where stage {} needs {} with all "
          "{} samples in flight, {} more than a device has; fewer samples a mini-batch, more "
          "devices or a planner that limits in-flight samples would do",
          plan.stages.size(), plan.stages[0].micro_batch, fullest.value,
          bytes_text(static_cast<double>(most)), problem_.mini_batch,
          bytes_text(static_cast<double>(most - limit)));
    }
    return most <= limit;
  }

  const Problem& problem_;
  CostTable table_;
  Plan empty_;
  std::vector<Candidate> candidates_;
  std::string nearest_miss_;
  std::int64_t nearest_miss_bytes_ = 0;
};

}  // namespace

PlanResult plan_gpipe(const Problem& problem, const Budget& budget) {
  if (problem.graph->ops.empty())
    return {PlanStatus::kInfeasible, "the graph has no operators", {}, 0};
  return ChainPlanner(problem).plan(budget);
}

}  // namespace graphpipe
