// Ranks as threads of one process: what tests run, and what needs no processes.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace graphpipe {

// Runs `body` on a thread for each transport, each computing on one core. A rank that
// throws lets go of its transport at once, so that the others fail too and all end. Throws what
// went wrong first: an error that is not merely the loss of a peer, where there is one (of several,
// that of the smallest rank).
void run_thread_ranks(std::vector<std::unique_ptr<Transport>>& transports,
                      const std::function<void(Transport&)>& body);

}  // namespace graphpipe
