// The least target t for each number of levels, at one micro-batch size: binary search
// over what LineSolver answers.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planners/graphpipe/line_solver.h"
#include "planners/graphpipe/traceback.h"

namespace graphpipe {

// What is the same for all micro-batch sizes.
struct SearchContext {
  SearchContext(CostTable& table, const SpTree& tree, const SearchRules& rules,
                const Budget& budget);
  // Whether the budget is used up.
  bool stopped() const;
  SearchRules rules;
  const Budget& budget;
  std::int64_t work = 0;  // ways tried
  Pieces pieces;
  StageTables tables;
  ColumnStore columns;
  StageAccumulator accumulator;
};

// A strategy of the least devices for a target and a number of levels.
struct Target {
  double target_s = 0;
  int levels = 0;
  int devices = 0;
};

class TargetSearch {
 public:
  TargetSearch(SearchContext& context, std::int64_t micro_batch);

  // The ways for a target, levels ascending; empty: infeasible.
  std::vector<Target> ways(double target_s);
  // The least feasible target, to within `precision` of itself (0: exactly); none: no
  // target is feasible, or the budget ended before one was found.
  std::optional<double> least_target(double precision);
  // For numbers of levels below that at the least target, the least targets that were met,
  // levels descending; the first is the least target itself. Requires: it is feasible.
  std::vector<Target> levels_front(double least_target_s);

  std::vector<StageDraft> stages(const Target& target);
  double tps_s(const std::vector<StageDraft>& stages);  // the largest
  StageSums sums(const StageDraft& stage);
  const StageCosts& costs() const { return costs_; }

 private:
  struct Known {
    std::vector<Target> ways;
    std::map<int, std::vector<StageDraft>> stages;  // [levels]: of those asked for first
  };
  const Known& known(double target_s);
  std::vector<StageDraft> trace(const LineSolution& root, int levels);
  const LineSolution& solve(double target_s);
  // Feasible: the largest time per sample of its stages; infeasible: none.
  std::optional<double> reached(double target_s);

  SearchContext& context_;
  StageCosts costs_;
  LineSolver solver_;
  std::map<double, Known> known_;  // [target]
};

// Of a target's ways the fewest levels, the fewest devices, and one between.
std::vector<Target> some_of(const std::vector<Target>& ways);

}  // namespace graphpipe
