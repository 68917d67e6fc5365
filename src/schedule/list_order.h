// Orders of plans in which a rank holds several stages: no round of forwards and backwards is
// known to be best for them, so their tasks are put in order by a clock.
//
// List scheduling: a forward of n samples takes n, a backward 2 n (3 n where the stage
// recomputes, n each half), a message nothing. Whenever a rank is free it starts a task whose
// messages and values are there, within the in-flight samples of its stage and, as lowering
// will have it, within the window of every edge ahead of the other end. A backward goes before
// a forward, and that before a backward's weight half. Which stage's first is not known to be
// best either: of four such rules the order that ends first is taken, of equal ones the first.
// An order that a clock made has no cycle of waits. A stage's k is not looked at.

#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace graphpipe {

// [rank]: all of its tasks. `backward`: the stages that run backwards in this schedule, of
// `samples` samples. Where a plan's counts stop every order, tasks that nothing could start
// stand at the end, and the verifier names the cycle.
// O(tasks * ranks * edges of a stage).
std::vector<std::vector<Action>> list_order(const Plan& plan, const std::vector<bool>& backward,
                                            std::int64_t samples);

}  // namespace graphpipe
