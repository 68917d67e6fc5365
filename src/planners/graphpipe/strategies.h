// The strategies worth a closer look at one micro-batch size.

#pragma once

#include <vector>

#include "planners/graphpipe/target_search.h"

namespace graphpipe {

struct Strategy {
  std::vector<StageDraft> stages;
  int levels = 0;
  double tps_s = 0;  // of the slowest stage

  bool beats(const Strategy& other) const { return levels <= other.levels && tps_s <= other.tps_s; }
};

Strategy strategy_of(TargetSearch& search, std::vector<StageDraft> stages);

// At the least target and at larger ones with fewer levels. Requires: `least_target_s` is
// feasible.
std::vector<Strategy> front_strategies(TargetSearch& search, double least_target_s);

// What refine_stages() makes of strategies at the least target and at larger ones, those
// that none of `known` or of each other beat in both levels and time.
std::vector<Strategy> refined_strategies(SearchContext& context, TargetSearch& search,
                                         double least_target_s, const std::vector<Strategy>& known);

}  // namespace graphpipe
