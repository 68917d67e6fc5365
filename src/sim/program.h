// Lowered programs as the engine runs them: durations, channels and ports are numbers,
// so that nothing is looked up while events are processed.

#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost_model.h"
#include "schedule/schedule.h"

namespace graphpipe {

using Ticks = std::int64_t;

// Time in whole ticks, so that sums do not depend on their order, what ties on paper
// ties here, and a steady state repeats exactly. A tick is a power of ten of a second,
// such that the longest duration of the programs has ten digits.
class Clock {
 public:
  explicit Clock(double longest_s);
  Ticks ticks(double seconds) const;
  double seconds(Ticks ticks) const;

 private:
  double scale_;   // a power of ten that a double holds exactly
  bool multiply_;  // ticks = seconds * scale, else seconds / scale
};

enum class StepKind : std::uint8_t {
  kCompute,
  kPostReceive,
  kWaitReceive,
  kStartSend,
  kWaitSend,
  kStartReduce,
  kWaitReduce,
  kInstant,  // free, an optimiser's step of which nothing is known: takes no time
};

// An action, resolved.
struct Step {
  StepKind kind = StepKind::kInstant;
  int target = -1;              // a message's channel; a reduction's holder
  Ticks duration = 0;           // of a compute; of a send, how long it holds its ports
  std::int64_t held_bytes = 0;  // what the rank holds more (or less) from here on
  std::int64_t task_bytes = 0;  // while it runs, beyond that
  // A backward with reductions within it is cut into computes, the reductions between them.
  bool goes_on = false;  // a compute: the rank's last one, after what came between
  bool drawn = true;     // a compute: no optimiser's step, which is no task
  int ahead = 0;         // whose step it is: so many actions behind the rank's current one
  int ends = 1;          // actions that end with it
};

struct Program {
  std::vector<Step> sections[3];  // prologue, period, epilogue
  std::int64_t static_bytes = 0;  // weights, gradients, optimiser state
  int pool = -1;                  // of cores; -1: the rank has its own
};

// Messages from one rank to another over one edge in one direction. They are sent and
// received in one order.
struct Channel {
  int from = 0;  // ranks
  int to = 0;
  Ticks latency = 0;
  std::vector<int> ports;  // that a message holds: out of its sender and into its
                           // receiver, out of and into the groups that share theirs
};

struct Reduction {
  std::vector<int> holders;
  Ticks duration = 0;
};

// A rank's part in a reduction.
struct Holder {
  int reduction = 0;
  int rank = 0;
};

struct Programs {
  Clock clock{0};
  std::vector<Program> ranks;
  std::int64_t repeats = 0;
  std::vector<Channel> channels;  // by (edge, direction, sender, receiver)
  int ports = 0;
  std::vector<Reduction> reductions;
  std::vector<Holder> holders;
  std::vector<int> pool_cores;
};

// Requires: a lowered schedule of the plan. Without `memory` all bytes are 0.
Programs compile(const Schedule& lowered, const Plan& plan, const Graph& graph,
                 const Cluster& cluster, const CostModel& costs, bool memory = true);

}  // namespace graphpipe
