// What every action of a run by plan measured of memory, beside what the rule of verify.h
// counts for it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "equivalence/harness.h"
#include "plan/plan.h"

namespace graphpipe {

struct ActionMemory {
  std::string action;
  std::int64_t measured_bytes = 0;  // the most while it ran
  std::int64_t counted_bytes = 0;
};

// [rank][action] of the last mini-batch of the lesson, ranks as threads.
std::vector<std::vector<ActionMemory>> measure_actions(const Plan& plan, const Graph& graph,
                                                       const Dataset& dataset, const Lesson& lesson,
                                                       const CostModel& costs, TransportKind kind);

}  // namespace graphpipe
