// Whether plans fit, asked often: a bound first, stage_memory() where that does not tell.

#pragma once

#include <vector>

#include "planners/graphpipe/target_search.h"

namespace graphpipe {

class PlanMemory {
 public:
  // For plans with the stages of `plan`, whatever their in-flight samples. Requires: the
  // costs' micro-batch size is every stage's.
  PlanMemory(SearchContext& context, const StageCosts& costs, const Plan& plan);

  // On the planning device.
  bool fits(const Plan& plan, StageId stage) const;
  bool fits(const Plan& plan) const;

 private:
  struct StageParts {
    StageSums sums;
    std::vector<Span> spans;
    int width = 0;  // an index into StageCosts' widths; -1: none of them
  };
  SearchContext& context_;
  const StageCosts& costs_;
  std::vector<StageParts> stages_;
  int depth_ = 1;
};

}  // namespace graphpipe
