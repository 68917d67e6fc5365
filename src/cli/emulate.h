// graphpipe train PLAN --emulate: run it on this machine by its modelled times.

#pragma once

#include <string>

#include "cli/command.h"
#include "cli/inputs.h"
#include "job/job.h"

namespace graphpipe {

// `train`: iterations, transport, timeout, trace.
void run_emulation(const std::string& worker, const LoadedPlan& loaded, const TrainOptions& train,
                   CommandLine& line);

}  // namespace graphpipe
