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
//   V4  every value ends once, after its last use, also by another stage of the rank: no
//       double, early or missing free
//   V5  memory of every device stays within its limit
//   V6  no rank runs two things at once; a rank runs only its stages' work
//   V7  every task has exactly the samples that the owner map gives it, and every message
//       the samples that its ends compute; what a task reads of another stage of its rank is
//       made before; a stage that recomputes does so for every backward
//   V8  every parameter is stepped once, after its last backward or weight half (of any stage
//       of the rank) and its reduction; a reduction within a backward starts when no operator
//       is left that adds to its gradients
//       In a stream every mini-batch is stepped, once its gradients are there and before the stage
//       goes on; a version that is used later is kept before a step replaces it, and dropped after
//       its last use
//   P1 to P8, S1 to S6 as in plan.h and schedule.h
//
// What memory counts, on each rank:
//   static     weights, gradients, optimiser state (weights alone where nothing is trained)
//   saved      what a forward saves (cost/task_memory.h), from its start to
//              the end of the backward or, of one in halves, to the free after the weight half;
//              of a stage that recomputes its inputs alone (stage_input_bytes) from the
//              forward's start, and the rest from the recompute's
//   gradients  of what the stage reads, from the backward's end to the free
//   shared     between stages of the rank: a tensor counts once, as what the forward that makes
//              it saves, and a gradient from the backward that makes it to the free of what
//              the tensor's maker saved
//   received   a message, from its post to its free; one that brings all that a forward reads
//              over its edge is itself what is saved of it, and ends as that does
//   sent       a message, from start_send to wait_send: it is a packed copy
//   workspace  beside these while a task runs, at its worst operator, with
//              copies of gradients that come in parts or from several readers; the temporaries
//              of the optimiser, while a step runs. Of a stage that recomputes moreover, while a
//              forward runs, the rest of what a whole forward saves, and while one of its messages
//              is packed, the tensors that leave the stage: from above, for a forward that keeps
//              nothing may let go of a tensor after its last reader
//   reduction  copies and messages of the buckets that are under way (reduction_memory); within a
//              backward beside its worst operator of those that are left
// Tensors of a few numbers that the library makes are not counted.
struct Fault {
  std::string rule;   // "V3"
  std::string where;  // "rank 1, action 17: recv 0>2 F [4,8)"
  std::string message;
  friend bool operator==(const Fault&, const Fault&) = default;
};

struct RankMemory {
  std::int64_t static_bytes = 0;  // weights, gradients, optimiser state
  std::int64_t peak_bytes = 0;    // with values, messages and workspace, at the worst time
  std::string peak_at;            // the action at that time
};

struct Verification {
  std::vector<Fault> faults = {};       // empty: proven
  std::vector<RankMemory> memory = {};  // [rank]; empty where a fault stopped the execution
  std::int64_t steps = 0;               // actions executed, repetitions that were skipped left out
  bool ok() const { return faults.empty(); }
};

// Never throws for a bad schedule: that is what it reports.
Verification verify(const Schedule& lowered, const Plan& plan, const Graph& graph,
                    const Cluster& cluster, const CostModel& costs);

// Plan, compute-only schedule and programs of a full mini-batch together, and the programs of
// an evaluation over as many samples (the places of its faults begin with "evaluation, "):
// what `graphpipe verify` runs. Memory is that of training.
Verification verify_plan(const Plan& plan, const Graph& graph, const Cluster& cluster,
                         const CostModel& costs);

}  // namespace graphpipe
