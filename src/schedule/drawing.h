// Drawing a schedule with one action marked, for messages.

#pragma once

#include <cstdint>
#include <string>

#include "schedule/schedule.h"

namespace graphpipe {

char compute_letter(ActionKind kind);  // F, B, I, W, R; 0 of what does not compute
bool is_compute(ActionKind kind);

// Lines "  rank 0: 0F0 0B0", with "^ here" below the action at `position` of the rank's
// program; a position beyond the last action is behind the line's end. Only the
// neighbourhood of the place is drawn where the schedule is large.
std::string draw_marked(const Schedule& schedule, const Plan& plan, RankId rank,
                        std::int64_t position);

}  // namespace graphpipe
