#include "planners/graphpipe/target_search.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers.h"

namespace graphpipe {
namespace {

// Sums of the same times in another order differ by less, in parts of themselves.
constexpr double kRounding = 1e-12;

// Targets grow by this from what an even spread would reach until one is feasible.
constexpr double kGrowth = 1.25;
constexpr int kGrowthsBeforeAny = 6;

// Where halving ends and stepping begins.
constexpr double kNarrow = 1e-6;

// How far above the least target fewer levels are looked for.
constexpr double kSlackSteps[] = {1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 2, 3};

}  // namespace

SearchContext::SearchContext(CostTable& table, const SpTree& tree, const SearchRules& the_rules,
                             const Budget& the_budget)
    : rules(the_rules),
      budget(the_budget),
      pieces(make_pieces(table, tree, the_rules.seams)),
      tables(pieces),
      columns(table, pieces),
      accumulator(pieces) {}

bool SearchContext::stopped() const {
  return work > budget.max_work || (budget.should_stop && budget.should_stop());
}

TargetSearch::TargetSearch(SearchContext& context, std::int64_t micro_batch)
    : context_(context),
      costs_(context.columns, micro_batch, context.rules),
      solver_(context.pieces, context.tables, costs_, context_.rules) {}

const LineSolution& TargetSearch::solve(double target_s) {
  const std::int64_t before = solver_.work();
  const LineSolution& root = solver_.solve(target_s * (1 + kRounding));
  context_.work += solver_.work() - before;
  return root;
}

std::vector<Target> some_of(const std::vector<Target>& ways) {
  if (ways.size() <= 3) return ways;
  return {ways.front(), ways[ways.size() / 2], ways.back()};
}

// Ways, and the stages of some of them, are kept: the solver's tables are gone with its next call.
const TargetSearch::Known& TargetSearch::known(double target_s) {
  const auto [found, fresh] = known_.try_emplace(target_s);
  Known& known = found->second;
  if (!fresh) return known;
  const LineSolution& root = solve(target_s);
  for (const Entry& entry : root.at.front()) {
    known.ways.push_back({target_s, entry.level, entry.devices});
  }
  for (const Target& way : some_of(known.ways)) known.stages[way.levels] = trace(root, way.levels);
  return known;
}

std::vector<Target> TargetSearch::ways(double target_s) { return known(target_s).ways; }

std::vector<StageDraft> TargetSearch::trace(const LineSolution& root, int levels) {
  const Frontier& frontier = root.at.front();
  const auto entry = std::ranges::find(frontier, levels, &Entry::level);
  GP_CHECK(entry != frontier.end(), "no way of {} levels", levels);
  return trace_stages(context_.pieces, solver_, root, static_cast<int>(entry - frontier.begin()));
}

std::vector<StageDraft> TargetSearch::stages(const Target& target) {
  const auto& stages = known(target.target_s).stages;
  const auto found = stages.find(target.levels);
  return found != stages.end() ? found->second : trace(solve(target.target_s), target.levels);
}

StageSums TargetSearch::sums(const StageDraft& stage) {
  context_.accumulator.clear();
  for (const Span span : stage.spans) context_.accumulator.add(span);
  return context_.accumulator.sums();
}

double TargetSearch::tps_s(const std::vector<StageDraft>& stages) {
  double most = 0;
  for (const StageDraft& stage : stages) {
    most =
        std::max(most, costs_.tps_at_level_s(sums(stage), stage.spans, stage.width, stage.level));
  }
  return most;
}

std::optional<double> TargetSearch::reached(double target_s) {
  const LineSolution& root = solve(target_s);
  if (root.at.front().empty()) return std::nullopt;
  return std::min(target_s, tps_s(trace_stages(context_.pieces, solver_, root, 0)));
}

std::optional<double> TargetSearch::least_target(double precision) {
  const Line& root = context_.pieces.line(0);
  const double even = costs_.compute_tps_s(root.span(0, root.size()), 0) / costs_.device_count();
  double infeasible = 0;
  std::optional<double> best;
  double t = even;
  for (int i = 0; !best && !context_.stopped(); ++i, t *= kGrowth) {
    // Where even that does not help, memory is short at any target.
    if (i == kGrowthsBeforeAny && !reached(kInfinity)) return std::nullopt;
    best = reached(t);
    if (!best) infeasible = t;
  }
  if (!best) return std::nullopt;
  while (*best - infeasible > std::max(precision, kNarrow) * *best && !context_.stopped()) {
    const double middle = infeasible + (*best - infeasible) / 2;
    const std::optional<double> lower = reached(middle);
    lower ? best = lower : infeasible = middle;
  }
  // Few stage times are left in between: step from one to the next below.
  while (precision == 0 && !context_.stopped()) {
    const std::optional<double> lower = reached(*best * (1 - 10 * kRounding));
    if (!lower) break;
    best = lower;
  }
  return best;
}

std::vector<Target> TargetSearch::levels_front(double least_target_s) {
  std::vector<Target> front = {ways(least_target_s).front()};
  double below = least_target_s;  // the largest target that was met before this one
  for (const double step : kSlackSteps) {
    if (context_.stopped() || front.back().levels == 1) break;
    const double t = least_target_s * step;
    const std::vector<Target> found = ways(t);
    Target least = found.front();
    if (least.levels < front.back().levels) {
      // Halve the gap twice: how far below would it still do?
      double low = below;
      for (int i = 0; i < 2; ++i) {
        const Target between = ways((low + least.target_s) / 2).front();
        if (between.levels <= least.levels) {
          least = between;
        } else {
          low = between.target_s;
        }
      }
      front.push_back(least);
    }
    below = t;
  }
  return front;
}

}  // namespace graphpipe
