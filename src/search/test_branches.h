// What several of this room's tests plan, and how long it takes.

#pragma once

#include "planners/test_problems.h"
#include "sim/simulator.h"

namespace graphpipe {

// Two branches of three, one with a skip, and what joins them.
inline const Dependencies kBranches = {{}, {0}, {0, 1}, {}, {3}, {4}, {2, 5}, {6}};

inline double simulated_s(const Plan& plan, const TestProblem& test) {
  return simulate_plan(plan, test.graph, test.cluster, test.costs).iteration_s;
}

}  // namespace graphpipe
