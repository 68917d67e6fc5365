// Drafts of stages made plans.

#pragma once

#include <vector>

#include "planners/graphpipe/target_search.h"

namespace graphpipe {

// What is known of a draft before it is a plan.
struct DraftEstimate {
  std::int64_t micro_batch = 0;
  Target target;
  std::vector<StageDraft> stages;
  double iteration_s = 0;  // fill, steady state and drain, and the longest reduction
};

DraftEstimate estimate_draft(const Problem& problem, const Pieces& pieces, TargetSearch& search,
                             const Target& target);

// With devices and edges; in-flight counts are the least.
Plan make_plan(const Problem& problem, const Plan& empty, const Pieces& pieces,
               const StageCosts& costs, const DraftEstimate& draft);

}  // namespace graphpipe
