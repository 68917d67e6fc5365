// From stages to whole plans, and what a plan takes: what local moves are tried on.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planners/cost_table.h"
#include "schedule/trace.h"
#include "search/stage_estimate.h"

namespace graphpipe {

// A plan without what follows from its stages: edges, samples in flight, recomputation.
struct Layout {
  std::vector<Stage> stages;  // in any order
  // In flight: the least counts, with so many micro-batches a hop; kAllInFlight: everything.
  static constexpr std::int64_t kAllInFlight = 0;
  std::int64_t hops = 1;
};

// Whether a plan's programs run to their ends without a doubt: its stages have one micro-batch size
// and k = 1, and no replicas of a stream take turns. Of others the verifier knows.
bool surely_runs(const Plan& plan);

class Workbench {
 public:
  explicit Workbench(CostTable& table);

  const Problem& problem() const { return table_.problem(); }
  const Graph& graph() const { return *table_.problem().graph; }

  // Operators that one depends on or that depend on it.
  const std::vector<OpId>& neighbours(OpId op) const { return neighbours_[op.index()]; }
  const std::vector<std::pair<OpId, OpId>>& dependencies() const { return dependencies_; }

  // The plan that the layout stands for; none: its stages wait in a circle. Memory is not looked
  // at. Fields beside stages, edges and counts are those of `like`.
  std::optional<Plan> plan_of(const Layout& layout, const Plan& like);
  // Makes the plan fit: by recomputation, where the options allow it, and by fewer samples in
  // flight, down to the least. Returns whether it does.
  bool make_fit(Plan& plan);

  // Whether the plan's programs run to their ends; where that is in doubt, by the verifier's word.
  bool runs(const Plan& plan);

  // What replica 0 of the stage computes over the mini-batch, and its reduction, wherever the
  // stage is: no iteration is shorter.
  double stage_s(const Stage& stage);
  // What these operators compute there over the mini-batch.
  double compute_s(const std::vector<OpId>& ops, const Stage& stage);
  double floor_s(const Plan& plan);
  std::vector<double> stage_floors_s(const Plan& plan);
  // Of stages (stage_estimate.h); where replicas take turns, which that does not know, the floor.
  double estimate_s(const Plan& plan);
  double simulated_s(const Plan& plan) { return simulated(plan).iteration_s; }
  // Each plan once.
  const Trace& simulated(const Plan& plan);
  // For work that is done elsewhere: looking at so many operators.
  void count_ops(std::size_t ops);

  // Plans made and simulations, weighed by their sizes: deterministic.
  std::int64_t work() const { return work_; }

 private:
  bool stage_fits(const Plan& plan, StageId stage);

  CostTable& table_;
  StageEstimator estimator_;
  std::vector<std::pair<OpId, OpId>> dependencies_;
  std::vector<std::vector<OpId>> neighbours_;
  std::map<std::uint64_t, Trace> traces_;  // by plan_hash()
  std::int64_t work_ = 0;
  std::size_t ops_ = 0;  // looked at, and not in work_ yet
};

}  // namespace graphpipe
