// Discrete events: a lowered Schedule times Costs gives a Trace.
//
// Resources with a capacity: each rank computes one task at a time; ranks of a node
// that share cores take one core a task, first come first served; a link carries one
// message at a time per direction (a rank's port out, a rank's port in, and where a
// level is shared its group's port). A transfer starts when its send has started, its
// receive is posted and its ports are free; it holds the ports for bytes / bandwidth
// and arrives a latency later. Computing and transferring overlap. See
// docs/simulator.md for what is left out.

#pragma once

#include "cost/cost_model.h"
#include "schedule/schedule.h"
#include "schedule/trace.h"

namespace graphpipe {

struct SimulateOptions {
  bool events = false;  // keep Trace::events and Trace::memory
  bool memory = true;   // count it; else RankUse::peak_memory_bytes is 0
};

// Requires: verified programs (a stall is an InternalError that names the ranks).
// O(actions * log). Deterministic.
Trace simulate(const Schedule& lowered, const Plan& plan, const Graph& graph,
               const Cluster& cluster, const CostModel& costs, SimulateOptions options = {});

// The iteration over plan.mini_batch samples, of an asynchronous plan the stream over
// schedule_samples(): builds, lowers and simulates. With
// `extrapolate`, repetitions of a steady state are counted instead of run: the same
// result to the last bit, in time that does not grow with the number of micro-batches
// where the state repeats. Traces with events are always run in full.
Trace simulate_plan(const Plan& plan, const Graph& graph, const Cluster& cluster,
                    const CostModel& costs, SimulateOptions options = {}, bool extrapolate = false);

// What a mini-batch of an asynchronous plan takes once the pipeline has filled: what as many again
// add to a stream of schedule_samples().
struct SteadyState {
  double mini_batch_s = 0;
  double bubble_fraction = 0;
};
SteadyState simulate_steady(const Plan& plan, const Graph& graph, const Cluster& cluster,
                            const CostModel& costs);

// How long an iteration over so many samples takes, or a stream of them: extrapolated, and without
// memory.
Trace simulate_samples(const Plan& plan, std::int64_t samples, const Graph& graph,
                       const Cluster& cluster, const CostModel& costs);

}  // namespace graphpipe
