// What the executor itself takes, beside operators.

#pragma once

#include "runtime/transport/transport.h"

namespace graphpipe {

// CPU seconds outside operators and the optimiser's step per forward or backward task, in a
// chain of small stages over all ranks: messages included, which are small too. Mean over
// the ranks. Collective; the same on every rank.
double measure_task_overhead_s(Transport& transport);

}  // namespace graphpipe
