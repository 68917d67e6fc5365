#include "job/launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "job/fault.h"
#include "job/signal_guard.h"
#include "job/status.h"
#include "job/worker_processes.h"
#include "plan/plan_json.h"

namespace graphpipe {
namespace {

// After the first failure: a moment for the others to notice by themselves and leave
// their own account, then SIGTERM, then SIGKILL.
constexpr double kNoticeS = 0.3;
constexpr double kTerminateS = 2.0;
constexpr int kPollMs = 50;

// Why a rank failed, in the order of what may be the first cause: a signal from outside
// explains every fault; a rank's own error explains that others lost it.
struct Cause {
  enum Class { kSignal, kError, kPeerLost };
  Class kind = kError;
  double time_s = 0;
  int worker = 0;  // its place among those that this process started
  int rank = 0;
  int exit_code = kRunFailed;
  std::string text;
  friend bool operator<(const Cause& a, const Cause& b) {
    return std::tie(a.kind, a.time_s, a.rank) < std::tie(b.kind, b.time_s, b.rank);
  }
};

// A crash is a rank's own error; it may be that of a library that lost a peer, so it does
// not explain others as a signal from outside does.
Cause::Class class_of(int signal) {
  constexpr std::array<int, 5> kCrashes = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
  return std::ranges::find(kCrashes, signal) == kCrashes.end() ? Cause::kSignal : Cause::kError;
}

// The plan where the job has one that can be read: it only makes messages readable.
Plan plan_for_messages(const std::string& folder) {
  try {
    const std::string path = folder + "/plan.json";
    return parse_plan(read_file(path), path);
  } catch (const InputError&) {
    return {};
  }
}

// What an earlier run in the same folder left: a port that nobody listens at, and accounts
// that are not this run's.
void remove_traces(const std::string& folder, int first_rank, int count) {
  std::error_code ignored;  // a file that was not there
  std::filesystem::remove(folder + "/port", ignored);
  for (int rank = first_rank; rank < first_rank + count; ++rank) {
    std::filesystem::remove(status_path(folder, rank), ignored);
    std::filesystem::remove(fault_path(folder, rank), ignored);
  }
}

class Supervisor {
 public:
  Supervisor(const Job& job, WorkerProcesses& workers)
      : folder_(job.folder),
        plan_(plan_for_messages(job.folder)),
        heartbeat_s_(job.kind == "train" ? job.train.heartbeat_s : 0),
        workers_(workers),
        silent_since_s_(static_cast<std::size_t>(workers.count()), 0) {}

  void run() {
    while (workers_.any_running()) {
      workers_.poll_once(kPollMs);
      note_failures();
      if (failed_at_s_) end_others(monotonic_s() - *failed_at_s_);
    }
    note_failures();
    workers_.drain();
  }

  LaunchResult result() const {
    if (SignalGuard::received() != 0 && interrupted_) {
      return {kRunFailed, "ended by " + signal_text(SignalGuard::received()), {}};
    }
    const std::vector<Cause> causes = collect_causes();
    if (causes.empty()) return {};
    const Cause& first = *std::min_element(causes.begin(), causes.end());
    std::vector<std::string> last_lines = workers_[first.worker].last_error_lines();
    std::erase(last_lines, first.text);  // the worker says it too: once is enough
    return {first.exit_code,
            first.text,
            std::move(last_lines),
            first.rank,
            first.kind == Cause::kPeerLost,
            first.kind == Cause::kSignal};
  }

 private:
  void note_failures() {
    bool failed = false;
    if (SignalGuard::received() != 0 && !failed_at_s_) failed = interrupted_ = true;
    for (int index = 0; index < workers_.count(); ++index) {
      const WorkerProcess& worker = workers_[index];
      if (!failed_at_s_) note_silence(index);
      failed = failed || worker.stop_signal != 0 || is_silent(index) ||
               (worker.ended && !ended_well(index));
    }
    if (failed && !failed_at_s_) failed_at_s_ = monotonic_s();
  }

  // A rank that has given signs of life, and gives none any more.
  void note_silence(int index) {
    if (heartbeat_s_ <= 0 || workers_[index].ended) return;
    const auto file = StatusFile::open(status_path(folder_, workers_.rank_of(index)));
    if (file == nullptr || file->status().heartbeat_s <= 0 || is_done(file->status())) return;
    const double last_s = file->status().heartbeat_s;
    if (monotonic_s() - last_s > heartbeat_s_)
      silent_since_s_[static_cast<std::size_t>(index)] = last_s;
  }
  bool is_silent(int index) const { return silent_since_s_[static_cast<std::size_t>(index)] > 0; }

  bool ended_well(int index) const {
    const WorkerProcess& worker = workers_[index];
    if (worker.exit_signal != 0 || worker.exit_code != 0) return false;
    const auto file = StatusFile::open(status_path(folder_, workers_.rank_of(index)));
    return file != nullptr && is_done(file->status());
  }

  void end_others(double elapsed_s) {
    for (int index = 0; index < workers_.count(); ++index) {
      if (workers_[index].stop_signal != 0 || is_silent(index)) workers_.send(index, SIGKILL);
    }
    if (interrupted_ || elapsed_s > kNoticeS) workers_.send_all(SIGTERM);
    if (elapsed_s > kNoticeS + kTerminateS) workers_.send_all(SIGKILL);
  }

  std::vector<Cause> collect_causes() const {
    std::vector<Cause> causes;
    for (int index = 0; index < workers_.count(); ++index) {
      if (auto cause = cause_of(index)) causes.push_back(*std::move(cause));
    }
    return causes;
  }

  std::optional<Cause> cause_of(int index) const {
    const WorkerProcess& worker = workers_[index];
    if (worker.stop_signal != 0) {
      return own_cause(index, Cause::kSignal, "stopped by " + signal_text(worker.stop_signal));
    }
    if (is_silent(index)) {
      Cause cause = own_cause(index, Cause::kSignal,
                              fmt::format("no sign of life for {} s (--heartbeat)", heartbeat_s_));
      cause.time_s = silent_since_s_[static_cast<std::size_t>(index)];
      return cause;
    }
    if (const auto fault = read_fault(folder_, workers_.rank_of(index))) {
      return Cause{.kind = fault->kind == FaultKind::kError ? Cause::kError : Cause::kPeerLost,
                   .time_s = fault->time_s,
                   .worker = index,
                   .rank = workers_.rank_of(index),
                   .exit_code = fault->exit_code,
                   .text = to_text(*fault)};
    }
    if (worker.exit_signal != 0) {
      // Those that we sent ourselves are no cause.
      if (worker.was_sent(worker.exit_signal)) return std::nullopt;
      return own_cause(index, class_of(worker.exit_signal),
                       fmt::format("killed by {}{}", signal_text(worker.exit_signal),
                                   worker.exit_signal == SIGKILL
                                       ? "; the system does that too when memory runs out"
                                       : ""));
    }
    if (worker.exit_code != 0) {
      return own_cause(
          index, Cause::kError,
          fmt::format("exited with code {} without an account of why", worker.exit_code));
    }
    if (ended_well(index)) return std::nullopt;
    return own_cause(index, Cause::kError, "exited before its work was done");
  }

  Cause own_cause(int index, Cause::Class kind, const std::string& what) const {
    const auto file = StatusFile::open(status_path(folder_, workers_.rank_of(index)));
    const std::string at = file == nullptr ? "" : to_text(file->status(), plan_);
    WorkerFault fault;
    fault.rank = workers_.rank_of(index);
    fault.host = host_name();
    fault.message = what;
    fault.at = at;
    return {.kind = kind,
            .time_s = workers_[index].noticed_s,
            .worker = index,
            .rank = workers_.rank_of(index),
            .exit_code = kRunFailed,
            .text = to_text(fault)};
  }

  std::string folder_;
  Plan plan_;
  double heartbeat_s_;  // 0: none are looked for
  WorkerProcesses& workers_;
  std::vector<double> silent_since_s_;  // [index]: monotonic_s(); 0: it is not
  std::optional<double> failed_at_s_;
  bool interrupted_ = false;
};

}  // namespace

LaunchResult run_workers(const std::string& worker, const Job& job, int count,
                         const LineSink& on_line, const RankLineSink& on_error_line,
                         int first_rank) {
  GP_CHECK(count > 0, "a job of {} workers", count);
  if (access(worker.c_str(), X_OK) != 0) {
    throw InputError(worker.empty() ? "graphpipe-worker" : worker,
                     fmt::format("the worker program cannot be run: {}; build it with "
                                 "-DGP_RUNTIME=ON (it needs libtorch)",
                                 std::strerror(errno)));
  }
  remove_traces(job.folder, first_rank, count);
  const SignalGuard signals;
  WorkerProcesses workers(worker, job.folder, {first_rank, count}, on_line, on_error_line);
  Supervisor supervisor(job, workers);
  supervisor.run();
  return supervisor.result();
}

std::string find_worker() {
  constexpr const char* kName = "graphpipe-worker";
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::string beside = self.parent_path() / kName;
    if (access(beside.c_str(), X_OK) == 0) return beside;
  }
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split_text(path == nullptr ? "" : path, ':')) {
    const std::string candidate = folder + "/" + kName;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

}  // namespace graphpipe
