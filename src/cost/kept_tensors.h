// Which tensors the runtime's operators keep from their forward to their backward, beside what
// OpCost::saved_bytes counts: facts of the library, held against it by a test of the runtime.

#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace graphpipe {

bool runtime_keeps_input(const Operator& op, std::size_t input);
bool runtime_keeps_output(const Operator& op);

}  // namespace graphpipe
