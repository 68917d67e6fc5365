// A Schedule with times: what the simulator predicts and the runtime measures.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace graphpipe {

struct TraceEvent {
  RankId rank = {};
  Action action = {};  // computes and messages; of a message, the sender's action
  double start_s = 0;  // from the iteration's start
  double end_s = 0;
};

struct RankUse {
  double busy_s = 0;  // computing
  std::int64_t peak_memory_bytes = 0;
};

struct MemorySample {
  RankId rank = {};
  double time_s = 0;
  std::int64_t bytes = 0;
};

// Invariants, checked by tests:
//   T1  events of a rank that compute do not overlap
//   T2  no event ends before it starts or after the iteration
struct Trace {
  double iteration_s = 0;
  std::int64_t samples = 0;
  std::vector<RankUse> ranks;
  std::vector<TraceEvent> events;    // by start; empty unless asked for
  std::vector<MemorySample> memory;  // by time; empty unless asked for

  double throughput_samples_per_s() const {
    return iteration_s > 0 ? static_cast<double>(samples) / iteration_s : 0;
  }
  // Idle time of the ranks / (ranks * iteration time).
  double bubble_fraction() const;
};

}  // namespace graphpipe
