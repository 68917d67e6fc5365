// The two clocks that are read around every action: wall and this thread's CPU time.

#pragma once

#include <cmath>
#include <ctime>

namespace graphpipe {

inline double clock_s(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline timespec timespec_of(double seconds) {
  const double whole = std::floor(seconds);
  return {static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
}

inline double wall_s() { return clock_s(CLOCK_MONOTONIC); }
inline double thread_cpu_s() { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace graphpipe
