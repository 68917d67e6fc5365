// Moving actions along the mini-batch, and schedules with another number of
// repetitions. What is true of a periodic schedule after enough repetitions is true of
// it after any number, so verification looks at a short one.

#pragma once

#include <cstdint>

#include "schedule/schedule.h"

namespace graphpipe {

// The action `samples` samples further on. Steps of synchronous training, and their reductions
// outside of a backward, have no samples and stay as they are. Requires: `samples` is a multiple of
// the stage's micro-batch.
Action shifted(Action action, const Plan& plan, std::int64_t samples);

// The same schedule with `repeats` repetitions of its period, over as many samples fewer
// or more. Requires: repeats >= 0, and a period where it is not schedule.repeats.
Schedule with_repeats(const Schedule& schedule, const Plan& plan, std::int64_t repeats);

}  // namespace graphpipe
