#include "job/fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>

namespace graphpipe {

double monotonic_s() {
  // CLOCK_MONOTONIC here: one clock for all processes of the machine.
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string signal_text(int signal) {
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

std::string fault_path(const std::string& folder, int rank) {
  return fmt::format("{}/fault.{}", folder, rank);
}

std::string to_text(const WorkerFault& fault) {
  return fmt::format("rank {}{}{}: {}", fault.rank, fault.host.empty() ? "" : " on " + fault.host,
                     fault.at.empty() ? "" : " (" + fault.at + ")", fault.message);
}

}  // namespace graphpipe
