// Samples in flight over time, as a trace has them.

#pragma once

#include <cstdint>
#include <vector>

#include "schedule/trace.h"

namespace graphpipe {

struct InFlightSample {
  RankId rank = {};
  double time_s = 0;
  std::int64_t samples = 0;  // of all the rank's stages
};

// After each change: a forward's start adds its samples, the end of their backward (of its
// weight half, where it has halves; of the forward, where the stage has no backward) takes them
// off. By time, then rank; what changes at one time is one sample. Requires: events.
std::vector<InFlightSample> in_flight_over_time(const Trace& trace);

// What the plan lets a rank hold: [rank].
std::vector<std::int64_t> in_flight_limits(const Schedule& schedule, const Plan& plan);

}  // namespace graphpipe
