#include "job/fault.h"

#include <fmt/format.h>

#include <chrono>

namespace graphpipe {

double monotonic_s() {
  // CLOCK_MONOTONIC here: one clock for all processes of the machine.
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string fault_path(const std::string& folder, int rank) {
  return fmt::format("{}/fault.{}", folder, rank);
}

std::string to_text(const WorkerFault& fault) {
  return fault.at.empty() ? fmt::format("rank {}: {}", fault.rank, fault.message)
                          : fmt::format("rank {} ({}): {}", fault.rank, fault.at, fault.message);
}

}  // namespace graphpipe
