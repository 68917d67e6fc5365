#include "planners/graphpipe/graphpipe.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "graph/series_parallel.h"
#include "planners/graphpipe/in_flight.h"
#include "planners/graphpipe/infeasible.h"
#include "planners/graphpipe/plan_drafts.h"
#include "planners/graphpipe/strategies.h"
#include "planners/stage_tps.h"

namespace graphpipe {
namespace {

// Targets nearer to one another than this part are not told apart.
constexpr double kTargetPrecision = 3e-3;

// Drafts whose estimate is so many times the best one's are not proposed: what the
// estimate leaves out (transfers) costs less.
constexpr double kHopeless = 1.5;

// Where the least target alone takes so many times the best estimate, refinement does not
// make up for it.
constexpr double kWorthRefining = 1.1;

// Of the others so many sizes are refined, those with the best estimates so far.
constexpr std::size_t kMostRefined = 4;

// Sizes whose least target alone takes so many times the best estimate, and all below them, are
// not searched: smaller tasks are no more efficient.
constexpr double kHopelessSize = 1.1;

// Coarser for plans whose replicas take turns: local steps start from them.
constexpr double kTurnsPrecision = 3e-2;
constexpr double kTurnsSlack[] = {1, 1.2};

// Where nothing fits by the bound, stages may exceed it by this.
constexpr double kBeyondBound = 1.1;

// Where it fits by the bound and not by the plan, stages may take this part of it.
constexpr double kWithinBound[] = {0.75, 0.5, 0.35};

class GraphPlanner {
 public:
  GraphPlanner(const Problem& problem, const Budget& budget)
      : problem_(problem),
        budget_(budget),
        table_(problem),
        tree_(decompose_series_parallel(*problem.graph)),
        empty_(empty_plan(problem, "graphpipe")) {}

  // `why`: say why there is no plan.
  PlanResult plan(bool why) {
    PlanResult result;
    if (problem_.graph->ops.empty()) {
      result.reason = "the graph has no operators";
      return result;
    }
    const std::vector<std::int64_t> sizes = micro_batch_sizes(problem_);
    SearchRules rules;
    search("partitions", rules, sizes);
    propose();
    // Where the plan at hand exceeds a device after all, reckon with the worst neighbours.
    std::vector<std::int64_t> again;
    std::ranges::copy_if(sizes, std::back_inserter(again),
                         [&](std::int64_t b) { return refused_.contains(b); });
    rules.loose_windows = true;
    if (!again.empty() && !stopped_) {
      search("partitions by worst neighbours", rules, again);
      propose();
    }
    search_beyond_bound();
    search_within_bound(sizes);
    search_turns(sizes);
    result.candidates = ranked();
    result.work = work_;
    if (!result.candidates.empty()) {
      result.status = PlanStatus::kOk;
    } else if (stopped_) {
      result.status = PlanStatus::kGaveUp;
      result.reason = "stopped before a plan was found";
    } else if (why) {
      rules.loose_windows = !again.empty();
      result.reason = why_infeasible(table_, tree_, rules, sizes, [this](const Problem& other) {
        return GraphPlanner(other, budget_).plan(false).status == PlanStatus::kOk;
      });
    }
    return result;
  }

 private:
  // A micro-batch size at which there are strategies.
  struct Size {
    std::unique_ptr<TargetSearch> search;
    double least_target_s = 0;
    double best_s = 0;  // its drafts' best estimate
    std::vector<Strategy> front;
  };
  struct Candidate {
    Plan plan;
    double floor_s = 0;
  };

  // What a stage takes is bounded from above: sizes at which nothing fits by the bound may do
  // after all, the next above those that fit before all.
  void search_beyond_bound() {
    SearchRules rules;
    rules.memory_share = kBeyondBound;
    const std::set<std::int64_t> sizes = std::exchange(too_large_, {});
    for (const std::int64_t b : sizes) {
      if (stopped_) return;
      const std::size_t before = candidates_.size();
      search("partitions beyond the memory bound", rules, {b});
      propose();
      if (candidates_.size() == before) return;
    }
  }

  // Of a stream's stages it is one from below where widths differ.
  void search_within_bound(const std::vector<std::int64_t>& sizes) {
    if (!plans_streams(problem_)) return;
    for (const double share : kWithinBound) {
      if (stopped_ || !candidates_.empty()) return;
      SearchRules rules;
      rules.memory_share = share;
      search("partitions in less memory", rules, sizes);
      propose();
    }
  }

  // Replicas that take turns, at sizes of which each has a micro-batch at least. What is found
  // counts where its estimate may beat those so far.
  void search_turns(const std::vector<std::int64_t>& sizes) {
    if (plans_streams(problem_)) return;  // their replicas do in any case
    if (!problem_.options.data_parallel || problem_.cluster->device_count() == 1) return;
    SearchRules rules;
    rules.turns = true;
    rules.reduction = true;
    begin(rules);
    const double before_s = best_of_all_s_;
    std::int64_t best_b = 0;
    double best_s = std::numeric_limits<double>::infinity();
    const Progress progress = begin_phase(budget_.progress, "replicas in turn");
    for (auto b = sizes.rbegin(); b != sizes.rend() && !context_->stopped(); ++b) {
      tell(part_of(progress, static_cast<std::size_t>(b - sizes.rbegin()), sizes.size()), 0);
      if (2 * *b > problem_.mini_batch) continue;
      const double reached_s = add_turns(*b, std::min(before_s, best_s), kTurnsPrecision);
      if (reached_s < best_s) best_b = *b;
      best_s = std::min(best_s, reached_s);
    }
    if (best_b > 0) add_turns(best_b, std::min(before_s, best_s), kTargetPrecision);
    end();
    propose();
  }

  // Drafts at that size, where there may be one with a lower estimate than `most_s`: the best
  // one's.
  double add_turns(std::int64_t b, double most_s, double precision) {
    TargetSearch search(*context_, b);
    const StageCosts& costs = search.costs();
    const double tasks = static_cast<double>(costs.micro_batches() + 1);
    double best_s = std::numeric_limits<double>::infinity();
    if (even_s(costs) > most_s) return best_s;
    if (search.ways(most_s / (tasks * static_cast<double>(b))).empty()) return best_s;
    const std::optional<double> least = search.least_target(precision);
    if (!least) return best_s;
    for (const double slack : kTurnsSlack) {
      for (const Target& way : some_of(search.ways(*least * slack))) {
        Strategy strategy = strategy_of(search, search.stages(way));
        const bool any = std::ranges::any_of(
            strategy.stages, [&](const StageDraft& stage) { return costs.width(stage.width) > 1; });
        if (!any) continue;  // the search without turns has it
        add_draft(estimate_draft(problem_, context_->pieces, costs, std::move(strategy)));
        best_s = std::min(best_s, drafts_.back().iteration_s);
      }
    }
    return best_s;
  }

  // Pieces, sums and columns are those of the searches before: rules differ in times and memory.
  void begin(const SearchRules& rules) {
    drafts_.clear();
    if (context_ == nullptr) {
      context_ = std::make_unique<SearchContext>(table_, tree_, rules, budget_);
    }
    context_->rules = rules;
  }

  void end() {
    stopped_ = context_->stopped();
    work_ = context_->work;
  }

  void search(const std::string& phase, const SearchRules& rules,
              const std::vector<std::int64_t>& sizes) {
    begin(rules);
    const Progress progress = begin_phase(budget_.progress, phase);
    const std::size_t steps = sizes.size() + std::min(sizes.size(), kMostRefined);
    std::vector<Size> found;
    best_s_ = std::numeric_limits<double>::infinity();
    add_single_stages(sizes);
    double least_s = 0;  // of the size before
    for (auto b = sizes.rbegin(); b != sizes.rend() && !context_->stopped(); ++b) {
      tell(part_of(progress, static_cast<std::size_t>(b - sizes.rbegin()), steps), 0);
      auto search = std::make_unique<TargetSearch>(*context_, *b);
      if (even_s(search->costs()) > best_s_ || least_s > kHopelessSize * best_s_) continue;
      const std::optional<double> least = search->least_target(kTargetPrecision);
      if (!least) {
        if (!context_->stopped()) too_large_.insert(*b);
        continue;
      }
      least_s = iteration_s(search->costs(), *least);
      std::vector<Strategy> front = front_strategies(*search, *least);
      const double best_s = add_drafts(search->costs(), front);
      found.push_back({std::move(search), *least, best_s, std::move(front)});
    }
    std::ranges::stable_sort(found, {}, &Size::best_s);
    if (found.size() > kMostRefined) found.resize(kMostRefined);
    for (std::size_t i = 0; i < found.size(); ++i) {
      tell(part_of(progress, steps - found.size() + i, steps), 0);
      refine(found[i]);
    }
    end();
  }

  // Of all micro-batches, one after the other.
  static double iteration_s(const StageCosts& costs, double tps_s) {
    return tps_s * static_cast<double>(costs.micro_batch() * costs.micro_batches());
  }

  // If the work were spread evenly.
  double even_s(const StageCosts& costs) {
    const Span all = {0, static_cast<int>(context_->pieces.positions.size())};
    return iteration_s(costs, costs.compute_tps_s(all, 0) / costs.device_count());
  }

  // Returns the best estimate of them.
  double add_drafts(const StageCosts& costs, const std::vector<Strategy>& strategies) {
    double best_s = std::numeric_limits<double>::infinity();
    for (const Strategy& strategy : strategies) {
      add_draft(estimate_draft(problem_, context_->pieces, costs, strategy));
      best_s = std::min(best_s, drafts_.back().iteration_s);
    }
    return best_s;
  }
  void add_draft(PlanDraft draft) {
    best_s_ = std::min(best_s_, draft.iteration_s);
    best_of_all_s_ = std::min(best_of_all_s_, draft.iteration_s);
    drafts_.push_back(std::move(draft));
  }

  // The whole graph as one stage, for each size on the number of devices that seems best: targets
  // near the least one do not lead there, but fill and drain may.
  void add_single_stages(const std::vector<std::int64_t>& sizes) {
    const Span all = {0, static_cast<int>(context_->pieces.positions.size())};
    context_->accumulator.clear();
    context_->accumulator.add(all);
    const StageSums sums = context_->accumulator.sums();
    for (const std::int64_t b : sizes) {
      const StageCosts costs(context_->columns, b, context_->rules);
      std::optional<PlanDraft> best;
      for (int width = 0; width < costs.width_count(); ++width) {
        const Span spans[] = {all};
        const double tps_s = costs.tps_at_level_s(sums, spans, width, 1);
        if (!costs.fits(sums, spans, width, 1, tps_s)) continue;
        PlanDraft draft =
            estimate_draft(problem_, context_->pieces, costs, {{{{all}, width, 1}}, 1, tps_s});
        if (!best || draft.iteration_s < best->iteration_s) best = std::move(draft);
      }
      if (best) add_draft(std::move(*best));
    }
  }

  // Refines where that may lead to the best estimate.
  void refine(const Size& size) {
    const StageCosts& costs = size.search->costs();
    if (even_s(costs) > best_s_) return;
    if (iteration_s(costs, size.least_target_s) > kWorthRefining * best_s_) return;
    add_drafts(costs, refined_strategies(*context_, *size.search, size.least_target_s, size.front));
  }

  // Makes plans of the drafts, best estimates first.
  void propose() {
    std::ranges::stable_sort(drafts_, {}, &PlanDraft::iteration_s);
    std::map<std::int64_t, std::int64_t> proposed;  // per micro-batch size
    for (const PlanDraft& draft : drafts_) {
      if (draft.iteration_s > kHopeless * drafts_.front().iteration_s) break;
      const std::int64_t left = budget_.candidates - proposed[draft.micro_batch];
      if (left <= 0) continue;
      const StageCosts costs(context_->columns, draft.micro_batch, context_->rules);
      const Plan plan = make_plan(table_, empty_, context_->pieces, costs, draft);
      std::vector<Plan> plans = with_in_flight(plan, table_, PlanMemory(*context_, costs, plan));
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
  double best_s_ = 0;  // the best estimate of the drafts
  double best_of_all_s_ = std::numeric_limits<double>::infinity();  // and of those before
  std::vector<PlanDraft> drafts_;
  std::vector<Candidate> candidates_;
  std::set<std::int64_t> refused_;    // at which a plan exceeded a device after all
  std::set<std::int64_t> too_large_;  // at which nothing fits by the bound
  std::int64_t work_ = 0;
  bool stopped_ = false;
};

}  // namespace

PlanResult plan_graphpipe(const Problem& problem, const Budget& budget) {
  return GraphPlanner(problem, budget).plan(true);
}

std::optional<double> least_target_s(const Problem& problem, std::int64_t micro_batch,
                                     const SearchRules& rules) {
  CostTable table(problem);
  const Budget budget;
  const SpTree tree = decompose_series_parallel(*problem.graph);
  SearchContext context(table, tree, rules, budget);
  return TargetSearch(context, micro_batch).least_target(0);
}

std::optional<double> least_refined_target_s(const Problem& problem, std::int64_t micro_batch,
                                             const SearchRules& rules) {
  CostTable table(problem);
  const Budget budget;
  const SpTree tree = decompose_series_parallel(*problem.graph);
  SearchContext context(table, tree, rules, budget);
  TargetSearch search(context, micro_batch);
  std::optional<double> least = search.least_target(0);
  if (!least) return least;
  for (const Strategy& refined : refined_strategies(context, search, *least, {})) {
    least = std::min(*least, refined.tps_s);
  }
  return least;
}

}  // namespace graphpipe
