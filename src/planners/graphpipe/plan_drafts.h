// Strategies made plans.

#pragma once

#include <vector>

#include "planners/graphpipe/strategies.h"

namespace graphpipe {

// What is known of a strategy before it is a plan.
struct PlanDraft {
  std::int64_t micro_batch = 0;
  Strategy strategy;
  double iteration_s = 0;  // fill, steady state and drain, and the longest reduction
};

PlanDraft estimate_draft(const Problem& problem, const Pieces& pieces, const StageCosts& costs,
                         Strategy strategy);

// With devices and edges; in-flight counts are the least, and stages recompute that do not fit
// with them, in so far as the options allow it.
Plan make_plan(CostTable& table, const Plan& empty, const Pieces& pieces, const StageCosts& costs,
               const PlanDraft& draft);

}  // namespace graphpipe
