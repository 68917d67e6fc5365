// Planners propose, the simulator judges.

#pragma once

#include <string>
#include <vector>

#include "planners/planner.h"
#include "schedule/trace.h"
#include "schedule/verify.h"

namespace graphpipe {

// A plan that was proposed.
struct WeighedPlan {
  std::int64_t micro_batch = 0;  // 0: stages differ
  int stages = 0;
  int depth = 0;
  double slowest_tps_s = 0;  // of its stages
  double floor_s = 0;        // its iteration can't be faster
  double iteration_s = 0;    // simulated; 0: it was not
  std::string refused;       // what the verifier said; "": it passed, or was not asked
};

struct SearchResult {
  PlanStatus status = PlanStatus::kInfeasible;
  std::string reason;
  Plan plan;            // with its estimate filled in; kOk only
  double search_s = 0;  // the planner's own time
  double judge_s = 0;   // the simulator's
  int candidates = 0;   // how many plans were judged
  std::vector<WeighedPlan> weighed;
};

// Whether `a` has a plan and `b` has none, or a slower one.
bool is_better(const SearchResult& a, const SearchResult& b);

// From outside: when a search is to end with the best so far, and who is told how far it is.
struct SearchControl {
  double time_limit_s = 0;  // 0: none
  PhaseProgress progress;   // of "graphpipe, partitions", say
};

// Runs the planner, verifies and simulates its candidates (quickly first, the best few in
// full) and returns the fastest that fits; ties go to the planner's order.
SearchResult search_plan(const Planner& planner, const Problem& problem,
                         const SearchControl& control = {});

// [stage]: the peak of its fullest device; `memory`: the verifier's.
std::vector<std::int64_t> stage_peaks(const Plan& plan, const std::vector<RankMemory>& memory);

// The first of its faults. Requires: there is one.
std::string fault_text(const Verification& verification);

// Simulates, verifies memory and fills in the estimate of a plan from anywhere.
// Returns the reason where the plan does not fit ("" where it does).
std::string judge_plan(Plan& plan, const Problem& problem);

}  // namespace graphpipe
