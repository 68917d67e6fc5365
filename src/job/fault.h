// A rank's own account of why it failed: fault.R in the job folder. Written before the
// rank lets go of its connections, so that it is there when the peers notice.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace graphpipe {

// The exit code of a process whose run failed; 2 is bad input, 70 a defect.
inline constexpr int kRunFailed = 3;

enum class FaultKind {
  kError,     // it went wrong here
  kPeerLost,  // merely the consequence of another rank's end
};

struct WorkerFault {
  FaultKind kind = FaultKind::kError;
  int rank = 0;
  std::string host;  // of the rank; may be empty
  std::string message;
  std::string at;               // "iteration 12, stage 1, micro-batch 5, 1B5"; may be empty
  std::int64_t iteration = -1;  // -1: none; likewise below
  int stage = -1;
  std::int64_t micro_batch = -1;
  std::string action;          // "1B5"; "": none
  double time_s = 0;           // monotonic_s() when it was noticed
  int exit_code = kRunFailed;  // of the process
  friend bool operator==(const WorkerFault&, const WorkerFault&) = default;
};

// Seconds of the machine's monotonic clock, comparable between its processes.
double monotonic_s();

std::string fault_path(const std::string& folder, int rank);
void write_fault(const std::string& folder, const WorkerFault& fault);
// None where the rank wrote none, or was killed while writing it.
std::optional<WorkerFault> read_fault(const std::string& folder, int rank);

std::string host_name();  // of this machine

// "signal 9 (Killed)".
std::string signal_text(int signal);

// "rank 2 on HOST (iteration 12, stage 1, micro-batch 5, 1B5): MESSAGE".
std::string to_text(const WorkerFault& fault);

}  // namespace graphpipe
