// Proves on the lowered programs what must hold before anything runs, by executing
// them symbolically: no clock, and a send completes only once its receive is posted.
// A periodic schedule is executed until its state repeats (shifted by the period's
// samples), so the work does not grow with the number of micro-batches.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Rules:
//   V1  every send has a receive and every receive a send: same edge, direction, samples,
//       bytes and ranks
//   V2  messages of a channel are received in the order in which they are sent
//   V3  no cycle of waits
//   V4  every value ends once, after its last use: no double, early or missing free
//   V5  memory of every device stays within its limit
//   V6  no rank runs two things at once; a rank runs only its stages' work
//   V7  every task has exactly the samples that the owner map gives it, and every message
//       the samples that its ends compute
//   V8  every parameter is stepped once, after its last backward and its reduction
//   P1 to P7, S1 to S5 as in plan.h and schedule.h
struct Fault {
  std::string rule;   // "V3"
  std::string where;  // "rank 1, action 17: wait 0>2 F [4,8)"
  std::string message;
};

struct RankMemory {
  std::int64_t static_bytes = 0;  // weights, gradients, optimiser state
  std::int64_t peak_bytes = 0;    // with values, messages and workspace, at the worst time
  std::string peak_at;            // the action at that time
};

struct Verification {
  std::vector<Fault> faults;       // empty: proven
  std::vector<RankMemory> memory;  // [rank]; empty where a fault stopped the execution
  bool ok() const { return faults.empty(); }
};

// Never throws for a bad schedule: that is what it reports.
Verification verify(const Schedule& lowered, const Plan& plan, const Graph& graph,
                    const Cluster& cluster, const CostModel& costs);

// Plan, compute-only schedule and programs of a full mini-batch together: what
// `graphpipe verify` runs.
Verification verify_plan(const Plan& plan, const Graph& graph, const Cluster& cluster,
                         const CostModel& costs);

}  // namespace graphpipe
