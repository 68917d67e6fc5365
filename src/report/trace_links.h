// What a simulated Trace leaves out: which message, reduction or task each action waited for.
// Read off the programs, whose order says which of a channel's messages a wait is for.

#pragma once

#include <vector>

#include "cluster/cluster.h"
#include "schedule/schedule.h"
#include "schedule/trace.h"

namespace graphpipe {

// Events are named by their index in Trace::events; -1: none.
struct TraceLinks {
  // Of a rank's program what takes time: computes, and waits for a receive, a send or a reduction.
  struct Step {
    ActionKind kind = ActionKind::kForward;
    int event = -1;  // the compute; what is waited for: the message, the rank's own reduction
  };
  std::vector<std::vector<Step>> steps;  // [rank], in the order of the program
  std::vector<int> step_of;              // [event]: of a compute, its index in its rank's steps
  // [event]: of a message or a reduction, the compute behind which it stands on its rank.
  std::vector<int> producer;
  std::vector<int> posted_after;  // [event]: of a message, the compute before its receive's post
  // [event]: when its sender may go on and its ports are free; of others, the event's end.
  std::vector<double> left_s;
  std::vector<std::vector<int>> reductions;  // [rank]: its reductions, by start
  std::vector<std::vector<int>> together;    // [event]: of a reduction, those of its other ranks
};

// Requires: a trace with events of the lowered schedule, simulated on the cluster.
TraceLinks link_trace(const Trace& trace, const Schedule& lowered, const Plan& plan,
                      const Cluster& cluster);

}  // namespace graphpipe
