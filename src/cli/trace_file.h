// A measured trace with the prediction beside it, in one file for Perfetto.

#pragma once

#include <string>

#include "cli/inputs.h"

namespace graphpipe {

// Writes to `path` what `measured`, a file of the run, holds, and the simulated iteration of the
// plan, with all its times multiplied by `stretch` (an emulated run's).
void write_trace_with_prediction(const std::string& path, const std::string& measured,
                                 const LoadedPlan& loaded, double stretch = 1);

}  // namespace graphpipe
