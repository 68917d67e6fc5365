#include "planners/graphpipe/graphpipe.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "graph/series_parallel.h"
#include "planners/graphpipe/in_flight.h"
#include "planners/graphpipe/infeasible.h"
#include "planners/graphpipe/plan_drafts.h"
#include "planners/graphpipe/target_search.h"
#include "planners/stage_tps.h"

namespace graphpipe {
namespace {

// Targets nearer to one another than this part are not told apart.
constexpr double kTargetPrecision = 1e-3;

// Drafts whose estimate is so many times the best one's are not proposed: what the
// estimate leaves out (transfers) costs less.
constexpr double kHopeless = 1.5;

class GraphPlanner {
 public:
  GraphPlanner(const Problem& problem, const Budget& budget)
      : problem_(problem),
        budget_(budget),
        table_(problem),
        tree_(decompose_series_parallel(*problem.graph)),
        empty_(empty_plan(problem, "graphpipe")) {}

  PlanResult plan() {
    PlanResult result;
    if (problem_.graph->ops.empty()) {
      result.reason = "the graph has no operators";
      return result;
    }
    const std::vector<std::int64_t> sizes = micro_batch_sizes(problem_);
    SearchRules rules;
    search(rules, sizes);
    propose();
    // Where the plan at hand exceeds a device after all, reckon with the worst neighbours.
    std::vector<std::int64_t> again;
    std::ranges::copy_if(sizes, std::back_inserter(again),
                         [&](std::int64_t b) { return refused_.contains(b); });
    rules.loose_windows = true;
    if (!again.empty() && !stopped_) {
      search(rules, again);
      propose();
    }
    result.candidates = ranked();
    result.work = work_;
    if (!result.candidates.empty()) {
      result.status = PlanStatus::kOk;
    } else if (stopped_) {
      result.status = PlanStatus::kGaveUp;
      result.reason = "stopped before a plan was found";
    } else {
      rules.loose_windows = !again.empty();
      result.reason = why_infeasible(table_, tree_, rules, sizes);
    }
    return result;
  }

 private:
  struct Candidate {
    Plan plan;
    double floor_s = 0;
  };

  void search(const SearchRules& rules, const std::vector<std::int64_t>& sizes) {
    drafts_.clear();
    context_ = std::make_unique<SearchContext>(table_, tree_, rules, budget_);
    context_->work = work_;
    for (const std::int64_t b : sizes) {
      if (context_->stopped()) break;
      TargetSearch search(*context_, b);
      const std::optional<double> least = search.least_target(kTargetPrecision);
      if (!least) continue;
      for (const Target& target : search.levels_front(*least)) {
        drafts_.push_back(estimate_draft(problem_, context_->pieces, search, target));
      }
    }
    stopped_ = context_->stopped();
    work_ = context_->work;
  }

  // Makes plans of the drafts, best estimates first.
  void propose() {
    std::ranges::stable_sort(drafts_, {}, &DraftEstimate::iteration_s);
    std::map<std::int64_t, std::int64_t> proposed;  // per micro-batch size
    for (const DraftEstimate& draft : drafts_) {
      if (draft.iteration_s > kHopeless * drafts_.front().iteration_s) break;
      const std::int64_t left = budget_.candidates - proposed[draft.micro_batch];
      if (left <= 0) continue;
      const StageCosts costs(context_->columns, draft.micro_batch, context_->rules);
      const Plan plan = make_plan(problem_, empty_, context_->pieces, costs, draft);
      std::vector<Plan> plans = with_in_flight(plan, table_);
      if (plans.empty()) refused_.insert(draft.micro_batch);
      if (static_cast<std::int64_t>(plans.size()) > left)
        plans.resize(static_cast<std::size_t>(left));
      const double floor_s = iteration_floor_s(table_, plan);
      for (Plan& p : plans) candidates_.push_back({std::move(p), floor_s});
      proposed[draft.micro_batch] += static_cast<std::int64_t>(plans.size());
    }
  }

  // The candidates, each once, by what they cannot beat.
  std::vector<Plan> ranked() {
    std::ranges::stable_sort(candidates_, {}, &Candidate::floor_s);
    std::set<std::uint64_t> known;
    std::vector<Plan> plans;
    for (Candidate& candidate : candidates_) {
      if (known.insert(plan_hash(candidate.plan)).second)
        plans.push_back(std::move(candidate.plan));
    }
    return plans;
  }

  const Problem& problem_;
  const Budget& budget_;
  CostTable table_;
  SpTree tree_;
  Plan empty_;
  std::unique_ptr<SearchContext> context_;
  std::vector<DraftEstimate> drafts_;
  std::vector<Candidate> candidates_;
  std::set<std::int64_t> refused_;
  std::int64_t work_ = 0;
  bool stopped_ = false;
};

}  // namespace

PlanResult plan_graphpipe(const Problem& problem, const Budget& budget) {
  return GraphPlanner(problem, budget).plan();
}

std::optional<double> least_target_s(const Problem& problem, std::int64_t micro_batch,
                                     const SearchRules& rules) {
  CostTable table(problem);
  const Budget budget;
  const SpTree tree = decompose_series_parallel(*problem.graph);
  SearchContext context(table, tree, rules, budget);
  return TargetSearch(context, micro_batch).least_target(0);
}

}  // namespace graphpipe
