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

struct ImproveLimits {
  std::int64_t work = 0;             // Workbench's
  std::function<bool()> should_stop;  // asked between steps; may be empty
};

// A plan of shorter simulated iteration, with memory within its limits, or the plan itself.
// `iteration_s` is the plan's, and then that of what is returned.
Plan improve_plan(Workbench& bench, const Plan& plan, double& iteration_s,
                  const ImproveLimits& limits);

}  // namespace graphpipe
