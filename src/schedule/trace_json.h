// Chrome's trace format, which Perfetto and chrome://tracing open: one track a rank
// for computes and others for messages, flows from send to receive, counters for memory and
// samples in flight.

#pragma once

#include <string>

#include "schedule/trace.h"

namespace graphpipe {

struct ChromeTraceOptions {
  int first_process = 0;  // the number of rank 0's
  std::string suffix;     // of the processes' names
  double stretch = 1;     // all times are multiplied by it
};

std::string to_chrome_trace(const Trace& trace, const Schedule& schedule, const Plan& plan,
                            const ChromeTraceOptions& options = {});

// One file of two, which to_chrome_trace() wrote with other process numbers.
std::string join_chrome_traces(const std::string& first, const std::string& second);

// A prediction beside what was measured: kPredicted is how its processes are told apart.
inline constexpr const char* kPredicted = ", predicted";
ChromeTraceOptions predicted_processes(double stretch = 1);

}  // namespace graphpipe
