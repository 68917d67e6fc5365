#include "job/hosts/remote_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "job/fault.h"
#include "job/signal_guard.h"
#include "job/worker_processes.h"

namespace graphpipe {
namespace {

// After the first failure: a moment in which the others notice and say why they end, then their
// input ends (which ends them, within what run_workers() takes), then their shells are ended.
constexpr double kHostNoticeS = 1.0;
constexpr double kInputEndedS = 5.0;
constexpr double kHostTerminateS = 7.0;
constexpr int kHostPollMs = 50;

// What may be the first cause, in this order; within one kind who was heard first.
enum class Weight { kStruck, kError, kPeerLost };

class RemoteRun {
 public:
  RemoteRun(const RemoteJob& job, const LineSink& on_line, const RankLineSink& on_error_line)
      : job_(job),
        on_line_(on_line),
        on_error_line_(on_error_line),
        heard_(job.host_of.size(), false),
        processes_(
            commands(job), [this](int rank, const std::string& line) { hear(rank, line); },
            [this](int rank, const std::string& line) { hear_error(rank, line); }) {
    for (int rank = 0; rank < processes_.count(); ++rank) {
      processes_.write_input(rank, job.token + "\n");
    }
  }

  ~RemoteRun() {
    leaving_ = true;
    const double begin_s = monotonic_s();
    for (int rank = 0; rank < processes_.count(); ++rank) processes_.end_input(rank);
    while (processes_.any_running() && monotonic_s() - begin_s < kInputEndedS) {
      processes_.poll_once(kHostPollMs);
    }
  }
  RemoteRun(const RemoteRun&) = delete;
  RemoteRun& operator=(const RemoteRun&) = delete;

  LaunchResult run() {
    while (processes_.any_running()) {
      processes_.poll_once(kHostPollMs);
      note_failures();
      if (failed_at_s_) end_others(monotonic_s() - *failed_at_s_);
    }
    processes_.drain();
    note_failures();
    if (interrupted_) {
      return {kRunFailed, "ended by " + signal_text(SignalGuard::received()), {}};
    }
    if (causes_.empty()) return {};
    return std::ranges::min_element(causes_, {}, [](const auto& cause) { return cause.first; })
        ->second;
  }

 private:
  static std::vector<ProcessCommand> commands(const RemoteJob& job) {
    std::vector<ProcessCommand> commands;
    for (std::size_t rank = 0; rank < job.host_of.size(); ++rank) {
      commands.push_back({.words = remote_command(job, static_cast<int>(rank)),
                          .output_apart = true,
                          .has_input = true});
    }
    return commands;
  }

  void hear(int rank, const std::string& line) {
    if (leaving_) return;
    if (const auto place = parse_rendezvous_line(line); place && rank == 0) {
      for (int other = 1; other < processes_.count(); ++other) {
        processes_.write_input(other, *place + "\n");
      }
    } else if (auto failure = parse_failure_line(line)) {
      heard_[static_cast<std::size_t>(rank)] = true;
      if (failed_at_s_ && inputs_ended_) return;  // that is what ended it
      add_cause(failure->struck      ? Weight::kStruck
                : failure->peer_lost ? Weight::kPeerLost
                                     : Weight::kError,
                *std::move(failure));
    } else if (rank == 0) {
      on_line_(line);
    }
  }

  // What it ends with is told once, as the cause.
  void hear_error(int rank, const std::string& line) {
    if (!leaving_ && !line.starts_with("error: ") && on_error_line_) on_error_line_(rank, line);
  }

  void add_cause(Weight weight, LaunchResult result) {
    causes_.emplace_back(std::pair(static_cast<int>(weight), causes_.size()), std::move(result));
  }

  void note_failures() {
    if (SignalGuard::received() != 0 && !failed_at_s_) {
      interrupted_ = true;
      failed_at_s_ = monotonic_s();
    }
    for (int rank = 0; rank < processes_.count(); ++rank) note_end(rank);
    if (!causes_.empty() && !failed_at_s_) failed_at_s_ = monotonic_s();
  }

  // Of a rank that ended without a word of its own: its shell's account.
  void note_end(int rank) {
    const WorkerProcess& process = processes_[rank];
    const auto r = static_cast<std::size_t>(rank);
    if (!process.ended || heard_[r] || inputs_ended_ || interrupted_) return;
    if (process.exit_code == 0 && process.exit_signal == 0) return;
    heard_[r] = true;
    const std::vector<std::string> lines = process.last_error_lines();
    const bool said_why = !lines.empty() && lines.back().starts_with("error: ");
    const std::string why = said_why ? lines.back().substr(7)
                            : process.exit_signal != 0
                                ? "its shell was ended by " + signal_text(process.exit_signal)
                                : fmt::format(
                                      "{} ended with {}; is the host reachable, and "
                                      "graphpipe at the same place there?",
                                      job_.shell.front(), process.exit_code);
    LaunchResult result;
    result.exit_code = said_why && process.exit_code <= 70 ? process.exit_code : kRunFailed;
    result.first_cause = fmt::format("rank {} on {}: {}", rank, host(rank), why);
    if (!said_why) result.last_lines = lines;
    result.rank = rank;
    result.struck = !said_why;
    add_cause(said_why ? Weight::kError : Weight::kStruck, std::move(result));
  }

  const std::string& host(int rank) const {
    return job_.hosts[static_cast<std::size_t>(job_.host_of[static_cast<std::size_t>(rank)])].host;
  }

  void end_others(double elapsed_s) {
    if (!inputs_ended_ && (interrupted_ || elapsed_s > kHostNoticeS)) {
      inputs_ended_ = true;
      for (int rank = 0; rank < processes_.count(); ++rank) processes_.end_input(rank);
    }
    if (elapsed_s > kInputEndedS) processes_.send_all(SIGTERM);
    if (elapsed_s > kHostTerminateS) processes_.send_all(SIGKILL);
  }

  const RemoteJob& job_;
  const LineSink& on_line_;
  const RankLineSink& on_error_line_;
  std::vector<bool> heard_;  // [rank]: it, or its shell, has said why it ended
  std::vector<std::pair<std::pair<int, std::size_t>, LaunchResult>> causes_;
  std::optional<double> failed_at_s_;
  bool inputs_ended_ = false;
  bool interrupted_ = false;
  bool leaving_ = false;
  WorkerProcesses processes_;
};

}  // namespace

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::vector<std::string> remote_command(const RemoteJob& job, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  const int host = job.host_of[r];
  const auto local_rank =
      std::count(job.host_of.begin(), job.host_of.begin() + static_cast<std::ptrdiff_t>(r), host);
  const std::string& first = job.hosts[static_cast<std::size_t>(job.host_of.front())].host;
  std::string line = fmt::format(
      "cd {} && exec env GRAPHPIPE_RANK={} GRAPHPIPE_WORLD_SIZE={} GRAPHPIPE_LOCAL_RANK={} "
      "MASTER_ADDR={}",
      shell_word(job.folder), rank, job.host_of.size(), local_rank, shell_word(first));
  for (const std::string& word : job.command) line.append(1, ' ').append(shell_word(word));
  std::vector<std::string> words = job.shell;
  words.push_back(job.hosts[static_cast<std::size_t>(host)].host);
  words.push_back(line);
  return words;
}

bool host_answers(const RemoteJob& job, const std::string& host, double timeout_s) {
  ProcessCommand command{.words = job.shell};
  command.words.push_back(host);
  command.words.emplace_back("true");
  const double begin_s = monotonic_s();
  WorkerProcesses process({command}, [](int, const std::string&) {}, {});
  while (process.any_running() && monotonic_s() - begin_s < timeout_s)
    process.poll_once(kHostPollMs);
  return process[0].ended && process[0].exit_code == 0 && process[0].exit_signal == 0;
}

LaunchResult run_remote(const RemoteJob& job, const LineSink& on_line,
                        const RankLineSink& on_error_line) {
  GP_CHECK(!job.host_of.empty() && !job.shell.empty(), "nothing to run");
  const SignalGuard signals;
  return RemoteRun(job, on_line, on_error_line).run();
}

}  // namespace graphpipe
