// What the public optimisers answered on their own inputs, with the CPU seconds that they took
// there (data folder's README).

#pragma once

#include <string>
#include <vector>

#include "planners/pipedream/partition.h"

namespace graphpipe {

struct RecordedPipedream {
  std::string profile;
  std::string label;
  std::vector<PipedreamLevel> levels;
  bool count_activations = true;
  bool straight = false;
  double memory_bytes = 0;
  double bottleneck_s = 0;
  double half_digit_s = 0;  // of the last digit that was printed
  double cpu_s = 0;
  bool chains = false;
};
std::vector<RecordedPipedream> recorded_pipedream();

struct RecordedPiper {
  std::string file;
  int devices = 1;
  double memory_bytes = 0;  // 0: the file's
  double bandwidth_bytes_per_s = 0;
  double tps_s = 0;  // 0: no partition; in the unit of the file's timePerSample
  double cpu_s = 0;
  bool in_tests = true;  // the others take too long there
};
std::vector<RecordedPiper> recorded_piper();

struct RecordedMaxLoad {
  std::string file;
  double load_ms = 0;
  double half_digit_ms = 0;
  double cpu_s = 0;
  bool in_tests = true;
};
std::vector<RecordedMaxLoad> recorded_max_load();

}  // namespace graphpipe
