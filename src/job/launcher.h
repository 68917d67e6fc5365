// Starts local worker processes, follows them, and ends them all when one fails.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job/job.h"

namespace graphpipe {

struct LaunchResult {
  int exit_code = 0;        // 0; or the exit code of the first cause: 3, or 2 and 70 as
                            // the worker says
  std::string first_cause;  // "rank 2 (stage 1, micro-batch 5, 1B5): killed by signal 9"
  std::vector<std::string> last_lines = {};  // of that rank's standard error, but the cause
  int rank = -1;                             // of the first cause; -1: none of this process's ranks
  bool peer_lost = false;                    // all that is known here is that another rank was lost
  bool struck = false;                       // it was ended, stopped or frozen from outside
};

using LineSink = std::function<void(const std::string&)>;
using RankLineSink = std::function<void(int rank, const std::string&)>;

// Runs `count` processes `worker --job FOLDER --rank R` with one thread each, for the ranks from
// `first_rank` on (all of the job's but where a launcher starts this process on each), gives each
// line that rank 0 writes to standard output to `on_line`, and returns when all have
// ended. What ranks write to standard error goes to `on_error_line` where it is given.
// Workers see OMP_NUM_THREADS and OPENBLAS_NUM_THREADS as 1, and OPENBLAS_CORETYPE by what
// the processor can do, unless it is set.
//
// When one exits non-zero or before its work is done, dies by a signal or is stopped, the
// others have a moment to end by themselves, are told to (SIGTERM), and are killed 2
// seconds later: nothing is left behind. The first cause is the earliest fault that is not
// merely the loss of a peer. SIGINT, SIGTERM and SIGHUP to this process end the workers
// too, also those that came before and were held back (blocked), and so does the death of this
// process. Not to be called twice at a time.
LaunchResult run_workers(const std::string& worker, const Job& job, int count,
                         const LineSink& on_line, const RankLineSink& on_error_line = {},
                         int first_rank = 0);

// graphpipe-worker beside this program, or on PATH; "" where there is none.
std::string find_worker();

}  // namespace graphpipe
