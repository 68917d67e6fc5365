// What iterations took on one rank.

#pragma once

#include <cstdint>

namespace graphpipe {

// Sums over iterations; the peak is a maximum.
struct IterationTotals {
  std::int64_t iterations = 0;
  double wall_s = 0;
  double compute_s = 0;      // wall time inside operators
  double compute_cpu_s = 0;  // CPU time inside operators
  double step_cpu_s = 0;     // ... in the optimiser's step
  double total_cpu_s = 0;    // ... of the executor, both included
  std::int64_t actions = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t bytes_sent = 0;
};

}  // namespace graphpipe
