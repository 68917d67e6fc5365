// Chrome's trace format, which Perfetto and chrome://tracing open: one track a rank
// for computes and one for messages, flows from send to receive, a counter for memory.

#pragma once

#include <string>

#include "schedule/trace.h"

namespace graphpipe {

std::string to_chrome_trace(const Trace& trace, const Schedule& schedule, const Plan& plan);

}  // namespace graphpipe
