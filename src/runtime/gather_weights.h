// Where ranks share no folder: the weights that each holds, on rank 0.

#pragma once

#include <functional>
#include <string>

#include "runtime/transport/transport.h"

namespace graphpipe {

// Collective. `own`: this rank's, in whatever form. On rank 0 `take` is called for every other
// rank, in their order, with theirs; one at a time is in memory.
void gather_weights(Transport& transport, const std::string& own,
                    const std::function<void(int rank, const std::string&)>& take);

}  // namespace graphpipe
