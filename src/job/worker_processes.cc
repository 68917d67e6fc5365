#include "job/worker_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "job/fault.h"

namespace graphpipe {
namespace {

constexpr std::size_t kLastLines = 20;

[[noreturn]] void fail_start(const std::string& what) {
  throw InputError("graphpipe-worker",
                   fmt::format("cannot be started: {}: {}", what, std::strerror(errno)));
}

// The kernels that OpenBLAS is to use, by what the processor can do. By itself it goes by
// the model's number, and takes its slowest ones (no AVX) for models that are newer than
// it is: up to 4 times slower. "": leave it to it.
std::string openblas_core() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return "";
}

void set_variable(std::vector<std::string>& variables, const std::string& name,
                  const std::string& value, bool overwrite) {
  const std::string start = name + "=";
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [&](const std::string& text) { return text.starts_with(start); });
  if (found == variables.end()) {
    variables.push_back(start + value);
  } else if (overwrite) {
    *found = start + value;
  }
}

std::vector<std::string> worker_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  // One core a rank: several threads a rank would fight for them, and change the last bits
  // of results.
  set_variable(variables, "OMP_NUM_THREADS", "1", true);
  set_variable(variables, "OPENBLAS_NUM_THREADS", "1", true);
  const std::string core = openblas_core();
  if (!core.empty()) set_variable(variables, "OPENBLAS_CORETYPE", core, false);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    std::array<int, 2> ends = {-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail_start("no pipe");
    read_end = ends[0];
    write_end = ends[1];
    fcntl(read_end, F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    if (read_end >= 0) close(read_end);
    if (write_end >= 0) close(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

// What a process reads: a socket, to which one may write when nobody reads any more.
struct Socket {
  int near_end = -1;
  int far_end = -1;
  explicit Socket(bool wanted) {
    std::array<int, 2> ends = {-1, -1};
    if (!wanted) return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      fail_start("no socket");
    }
    near_end = ends[0];
    far_end = ends[1];
  }
  ~Socket() {
    if (near_end >= 0) close(near_end);
    if (far_end >= 0) close(far_end);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
};

// Of a process to be; input -1: it reads nothing.
struct Streams {
  int input;
  int output;
  int error;
};

// No signal gets through while it lives: one that came between fork and exec would meet
// this process's handler in the child, and be lost.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t old_;
};

// Between fork and exec only calls that are safe in a copy of a threaded program.
[[noreturn]] void become_worker(pid_t parent, const Streams& streams, char* const* arguments,
                                char* const* environment) {
  setpgid(0, 0);  // Ctrl-C goes to the launcher alone, which ends the workers in order
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = streams.input >= 0 ? streams.input : open("/dev/null", O_RDONLY);
  if (input < 0 || dup2(input, 0) < 0 || dup2(streams.output, 1) < 0 ||
      dup2(streams.error, 2) < 0) {
    _exit(127);
  }
  execvpe(arguments[0], arguments, environment);
  _exit(127);
}

}  // namespace

void LineBuffer::append(std::string_view bytes, const LineSink& sink) {
  rest_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end = rest_.find('\n'); end != std::string::npos;
       end = rest_.find('\n', begin)) {
    sink(rest_.substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
}

void LineBuffer::flush(const LineSink& sink) {
  if (!rest_.empty()) sink(std::exchange(rest_, ""));
}

bool WorkerProcess::was_sent(int signal) const {
  return std::find(sent.begin(), sent.end(), signal) != sent.end();
}

WorkerProcesses::WorkerProcesses(const std::string& program, const std::string& folder,
                                 RankRange ranks, LineSink on_line, RankLineSink on_error_line)
    : first_rank_(ranks.first),
      workers_(static_cast<std::size_t>(ranks.count)),
      on_line_([sink = std::move(on_line)](int, const std::string& line) { sink(line); }),
      on_error_line_(std::move(on_error_line)) {
  std::vector<ProcessCommand> commands;
  for (int index = 0; index < ranks.count; ++index) {
    const int rank = rank_of(index);
    // Rank 0's standard output is the run's; what another rank prints there is for people.
    commands.push_back({.words = {program, "--job", folder, "--rank", std::to_string(rank)},
                        .output_apart = rank == 0});
  }
  start_all(commands);
}

WorkerProcesses::WorkerProcesses(const std::vector<ProcessCommand>& commands, RankLineSink on_line,
                                 RankLineSink on_error_line)
    : first_rank_(0),
      workers_(commands.size()),
      on_line_(std::move(on_line)),
      on_error_line_(std::move(on_error_line)) {
  start_all(commands);
}

WorkerProcesses::~WorkerProcesses() { kill_all(); }

void WorkerProcesses::start_all(const std::vector<ProcessCommand>& commands) {
  try {
    for (int index = 0; index < count(); ++index) {
      start(commands[static_cast<std::size_t>(index)], index);
    }
  } catch (const InputError&) {
    kill_all();
    throw;
  }
}

void WorkerProcesses::start(const ProcessCommand& command, int index) {
  std::vector<std::string> argument_texts = command.words;
  std::vector<std::string> environment_texts = worker_environment();
  const std::vector<char*> arguments = pointers(argument_texts);
  const std::vector<char*> environment = pointers(environment_texts);
  Pipe out;
  Pipe error;
  Socket input(command.has_input);
  const pid_t parent = getpid();
  const SignalsBlocked blocked;
  const pid_t pid = fork();
  if (pid < 0) fail_start("no process");
  if (pid == 0) {
    become_worker(
        parent,
        {input.far_end, command.output_apart ? out.write_end : error.write_end, error.write_end},
        arguments.data(), environment.data());
  }
  setpgid(pid, pid);  // here too: whichever comes first
  WorkerProcess& worker = workers_[static_cast<std::size_t>(index)];
  worker.pid = pid;
  worker.input_pipe = std::exchange(input.near_end, -1);
  worker.out_pipe = std::exchange(out.read_end, -1);
  worker.error_pipe = std::exchange(error.read_end, -1);
}

void WorkerProcesses::write_input(int rank, const std::string& text) {
  const int file = workers_[static_cast<std::size_t>(rank)].input_pipe;
  // A few words: a socket takes them at once.
  if (file >= 0) (void)!::send(file, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void WorkerProcesses::end_input(int rank) {
  int& file = workers_[static_cast<std::size_t>(rank)].input_pipe;
  if (file >= 0) close(std::exchange(file, -1));
}

bool WorkerProcesses::any_running() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const WorkerProcess& worker) { return !worker.ended; });
}

void WorkerProcesses::poll_once(int timeout_ms) {
  std::vector<pollfd> pipes;
  for (const WorkerProcess& worker : workers_) {
    pipes.push_back({worker.out_pipe, POLLIN, 0});  // a negative one is passed over
    pipes.push_back({worker.error_pipe, POLLIN, 0});
  }
  poll(pipes.data(), pipes.size(), timeout_ms);
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    if (pipes[i].revents != 0) read_pipe(static_cast<int>(i / 2), i % 2 == 1);
  }
  for (WorkerProcess& worker : workers_) reap(worker);
}

void WorkerProcesses::read_pipe(int rank, bool error) {
  WorkerProcess& worker = workers_[static_cast<std::size_t>(rank)];
  int& file = error ? worker.error_pipe : worker.out_pipe;
  LineBuffer& lines = error ? worker.error_lines : worker.out_lines;
  const LineSink sink = [&](const std::string& line) {
    if (!error) return on_line_(rank_of(rank), line);
    worker.last_lines.push_back(line);
    if (worker.last_lines.size() > kLastLines) worker.last_lines.pop_front();
    if (on_error_line_) on_error_line_(rank_of(rank), line);
  };
  std::array<char, 16384> bytes;
  while (file >= 0) {
    const ssize_t n = read(file, bytes.data(), bytes.size());
    if (n > 0) {
      lines.append({bytes.data(), static_cast<std::size_t>(n)}, sink);
    } else if (n == 0) {
      close(std::exchange(file, -1));
      lines.flush(sink);
    } else if (errno != EINTR) {
      return;  // nothing more for now
    }
  }
}

void WorkerProcesses::reap(WorkerProcess& worker) {
  if (worker.ended) return;
  int status = 0;
  if (waitpid(worker.pid, &status, WNOHANG | WUNTRACED) != worker.pid) return;
  worker.noticed_s = worker.stop_signal == 0 ? monotonic_s() : worker.noticed_s;
  if (WIFSTOPPED(status)) {
    worker.stop_signal = WSTOPSIG(status);
    return;
  }
  worker.ended = true;
  if (WIFSIGNALED(status)) worker.exit_signal = WTERMSIG(status);
  if (WIFEXITED(status)) worker.exit_code = WEXITSTATUS(status);
}

void WorkerProcesses::drain() {
  for (int rank = 0; rank < count(); ++rank) {
    read_pipe(rank, false);
    read_pipe(rank, true);
  }
}

void WorkerProcesses::send(int rank, int signal) {
  WorkerProcess& worker = workers_[static_cast<std::size_t>(rank)];
  if (worker.ended || worker.was_sent(signal)) return;
  worker.sent.push_back(signal);
  kill(-worker.pid, signal);
}

void WorkerProcesses::send_all(int signal) {
  for (int rank = 0; rank < count(); ++rank) send(rank, signal);
}

void WorkerProcesses::kill_all() {
  for (WorkerProcess& worker : workers_) {
    if (worker.pid > 0 && !worker.ended) {
      kill(-worker.pid, SIGKILL);
      while (waitpid(worker.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
      worker.ended = true;
    }
    if (worker.input_pipe >= 0) close(std::exchange(worker.input_pipe, -1));
    if (worker.out_pipe >= 0) close(std::exchange(worker.out_pipe, -1));
    if (worker.error_pipe >= 0) close(std::exchange(worker.error_pipe, -1));
  }
}

}  // namespace graphpipe
