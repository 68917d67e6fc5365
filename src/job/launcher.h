// Starts local worker processes, follows them, and ends them all when one fails.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job/job.h"

namespace graphpipe {

struct LaunchResult {
  int exit_code = 0;        // 0, or 3 with the first cause
  std::string first_cause;  // "rank 2 (stage 1, micro-batch 5, 1B5): killed by signal 9"
};

// Runs `count` processes `worker --job FOLDER --rank R` with OMP_NUM_THREADS=1, gives each
// line that rank 0 writes to standard output to `on_line`, and returns when all have
// ended. When one exits non-zero, dies by a signal or is stopped, the others are told
// (SIGTERM), and killed 5 seconds later: nothing is left behind. The first cause is the
// earliest fault that is not merely the loss of a peer. SIGINT and SIGTERM to this process
// end the workers too.
LaunchResult run_workers(const std::string& worker, const Job& job, int count,
                         const std::function<void(const std::string&)>& on_line);

// graphpipe-worker beside this program, or on PATH; "" where there is none.
std::string find_worker();

}  // namespace graphpipe
