#include "planners/graphpipe/strategies.h"

#include <algorithm>
#include <utility>

#include "planners/graphpipe/refine.h"

namespace graphpipe {
namespace {

// Hill climbing ends in the nearest valley, so it starts from several strategies: those at
// the least target and at targets so many times larger.
constexpr double kStarts[] = {1, 1.2, 1.5};

}  // namespace

Strategy strategy_of(TargetSearch& search, std::vector<StageDraft> stages) {
  Strategy strategy;
  for (const StageDraft& stage : stages) strategy.levels = std::max(strategy.levels, stage.level);
  strategy.tps_s = search.tps_s(stages);
  strategy.stages = std::move(stages);
  return strategy;
}

std::vector<Strategy> front_strategies(TargetSearch& search, double least_target_s) {
  std::vector<Strategy> front;
  for (const Target& target : search.levels_front(least_target_s)) {
    front.push_back(strategy_of(search, search.stages(target)));
  }
  return front;
}

std::vector<Strategy> refined_strategies(SearchContext& context, TargetSearch& search,
                                         double least_target_s,
                                         const std::vector<Strategy>& known) {
  std::vector<Strategy> refined;
  std::vector<std::vector<StageDraft>> begun;
  for (const double start : kStarts) {
    for (const Target& target : some_of(search.ways(least_target_s * start))) {
      if (context.stopped()) return refined;
      std::vector<StageDraft> stages = search.stages(target);
      if (std::ranges::find(begun, stages) != begun.end()) continue;
      begun.push_back(stages);
      Strategy next = strategy_of(search, refine_stages(context, search.costs(), stages));
      const auto beats_next = [&](const Strategy& other) { return other.beats(next); };
      if (std::ranges::any_of(known, beats_next) || std::ranges::any_of(refined, beats_next)) {
        continue;
      }
      std::erase_if(refined, [&](const Strategy& other) { return next.beats(other); });
      refined.push_back(std::move(next));
    }
  }
  return refined;
}

}  // namespace graphpipe
