// The two clocks that are read around every action: wall and this thread's CPU time.

#pragma once

#include <ctime>

namespace graphpipe {

inline double clock_s(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double wall_s() { return clock_s(CLOCK_MONOTONIC); }
inline double thread_cpu_s() { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace graphpipe
