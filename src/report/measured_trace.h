// A measured run, read back from the Chrome trace that `train --trace` writes.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/trace.h"

namespace graphpipe {

struct MeasuredTask {
  RankId rank = {};
  char kind = 'F';  // as in schedules: F, B, I, W, R
  StageId stage = {};
  std::int64_t micro_batch = 0;
  double start_s = 0;
  double end_s = 0;
};

// What a rank waited for, as schedules name it: "recv 0>2 F [4,8)".
struct MeasuredWait {
  RankId rank = {};
  std::string action;
  double start_s = 0;
  double end_s = 0;
};

struct MeasuredTrace {
  std::string source;  // the file
  double iteration_s = 0;
  std::vector<MeasuredTask> tasks;   // by rank, then start
  std::vector<MeasuredWait> waits;   // likewise
  std::vector<MemorySample> memory;  // likewise
};

// Throws InputError where the text is no such trace, or has a task of a rank or a stage that the
// plan, which uses `ranks` devices, does not have.
MeasuredTrace parse_measured_trace(const std::string& text, const std::string& where, int ranks,
                                   int stages);

}  // namespace graphpipe
