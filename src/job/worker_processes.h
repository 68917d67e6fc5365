// The processes of a job: started together, their output read line by line, their ends
// noticed, and never left behind. launcher.h decides what an end means.

#pragma once

#include <sys/types.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "job/launcher.h"

namespace graphpipe {

// Bytes of a pipe, cut into lines.
class LineBuffer {
 public:
  // Calls `sink` for each line that is complete with these bytes.
  void append(std::string_view bytes, const LineSink& sink);
  // The last line, where it has no end.
  void flush(const LineSink& sink);

 private:
  std::string rest_;
};

struct WorkerProcess {
  pid_t pid = -1;
  int input_pipe = -1;  // -1: closed, or it has none
  int out_pipe = -1;
  int error_pipe = -1;
  LineBuffer out_lines;
  LineBuffer error_lines;
  std::deque<std::string> last_lines;  // of standard error

  bool ended = false;  // and waited for
  int exit_code = 0;
  int exit_signal = 0;    // 0: it exited
  int stop_signal = 0;    // 0: it was not stopped
  double noticed_s = 0;   // when its end or stop was noticed (monotonic_s())
  std::vector<int> sent;  // signals that we sent, each once

  bool was_sent(int signal) const;
  std::vector<std::string> last_error_lines() const {
    return {last_lines.begin(), last_lines.end()};
  }
};

// A program with its arguments; found on PATH where its name has no slash.
struct ProcessCommand {
  std::vector<std::string> words;
  bool output_apart = false;  // its standard output is handed on apart from its standard error
  bool has_input = false;     // a pipe, open until end_input(); otherwise /dev/null
};

struct RankRange {
  int first = 0;
  int count = 0;
};

// Starts all on construction (InputError where the system refuses; none is left then).
// Destruction kills and waits for whoever still runs.
class WorkerProcesses {
 public:
  WorkerProcesses(const std::string& program, const std::string& folder, RankRange ranks,
                  LineSink on_line, RankLineSink on_error_line);
  // [rank]: its command. The sinks are called with the rank.
  WorkerProcesses(const std::vector<ProcessCommand>& commands, RankLineSink on_line,
                  RankLineSink on_error_line);
  ~WorkerProcesses();
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  int rank_of(int index) const { return first_rank_ + index; }
  int count() const { return static_cast<int>(workers_.size()); }
  const WorkerProcess& operator[](int rank) const {
    return workers_[static_cast<std::size_t>(rank)];
  }
  bool any_running() const;

  // Waits for output at most so long, hands lines on, and notices ends and stops.
  void poll_once(int timeout_ms);
  // Hands on what is left in the pipes. Requires: none is running.
  void drain();

  // Whoever has ended does not read it, which is no error.
  void write_input(int rank, const std::string& text);
  void end_input(int rank);

  // Sends a signal to a rank that runs, once.
  void send(int rank, int signal);
  void send_all(int signal);

 private:
  void start_all(const std::vector<ProcessCommand>& commands);
  void start(const ProcessCommand& command, int index);
  void read_pipe(int rank, bool error);
  void reap(WorkerProcess& worker);
  void kill_all();

  int first_rank_;
  std::vector<WorkerProcess> workers_;  // [index]
  RankLineSink on_line_;
  RankLineSink on_error_line_;
};

}  // namespace graphpipe
