// Local improvement of plans: steps that the simulator finds faster.
//
// The planners' programs minimise the slowest stage; the iteration also has fill and drain,
// transfers, reductions and the way that devices lie. From a plan, hill climbing tries what lies
// one step away (moves.h): first what relieves the stages that bound the iteration, then what
// changes the whole. A floor on the iteration sorts steps out before anything is simulated.

#pragma once

#include <functional>
#include <vector>

#include "search/workbench.h"

namespace graphpipe {

enum class ImproveBy {
  kEstimate,    // stage_estimate_s(): many steps for little
  kSimulation,  // the simulator, where the estimate promises something
};

struct ImproveLimits {
  std::int64_t work = 0;              // Workbench's
  std::function<bool()> should_stop;  // asked between steps; may be empty
};

// The plan, or one that memory allows and that is faster by that measure.
Plan improve_plan(Workbench& bench, const Plan& plan, ImproveBy by, const ImproveLimits& limits);

// Improves several plans by the estimate, in rounds: those that are left share a round's work; of
// those that meet one stays, and the slower half drops out. Returns what is left, the fastest
// first: no more than `finals`.
std::vector<Plan> race_plans(Workbench& bench, const std::vector<Plan>& starts, std::size_t finals,
                             const ImproveLimits& limits);

}  // namespace graphpipe
