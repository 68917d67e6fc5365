#include "cli/launch.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <thread>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/inputs.h"
#include "cli/terminal.h"
#include "job/hosts/address.h"
#include "job/hosts/interface.h"

namespace graphpipe {
namespace {

std::string read_line(const char* what) {
  std::string line;
  if (std::getline(std::cin, line)) return line;
  throw InputError("standard input", fmt::format("expected {}, found its end", what));
}

// What must not stand on a command line, and what is not known when it is written.
void read_from_head(LaunchPlan& plan) {
  plan.rendezvous.token = read_line("the job's token");
  if (plan.rank == 0) return;
  std::tie(plan.rendezvous.host, plan.rendezvous.port) =
      parse_address(read_line("where rank 0 listens"), "standard input");
}

// This process's own command line, without what only the head is to follow.
std::vector<std::string> rank_command() {
  const std::string all = read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    words.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<std::string> kept = {std::filesystem::read_symlink("/proc/self/exe")};
  constexpr std::array kOwn = {"--hostfile", "--ssh", "--launcher"};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (std::ranges::find(kOwn, name) == kOwn.end()) {
      kept.push_back(words[i]);
    } else if (name == words[i]) {
      ++i;  // its value
    }
  }
  return kept;
}

}  // namespace

void add_launch_flags(CLI::App& command, LaunchFlags& flags) {
  command
      .add_option("--launcher", flags.launcher,
                  "whose variables say which rank this process is: auto, torchrun, open-mpi, pmi, "
                  "slurm; none: it starts all ranks")
      ->capture_default_str();
  command.add_option("--rendezvous", flags.rendezvous,
                     "HOST:PORT where rank 0 listens; default: as the launcher's variables say");
  command.add_option("--interface", flags.interface,
                     "ranks on several hosts use this network interface and no other");
}

LaunchPlan find_launch(const LaunchFlags& flags) {
  LaunchPlan plan = plan_launch(read_environment(), flags);
  for (const std::string& note : plan.notes) print_note(note);
  if (plan.launcher == Launcher::kNone) return plan;
  if (plan.launcher == Launcher::kHostfile) read_from_head(plan);
  Rendezvous& to = plan.rendezvous;
  to.address = listening_address(plan.rank == 0, to.host, plan.interface);
  const std::string port = to.port == 0 ? "" : fmt::format(":{}", to.port);
  print_note(fmt::format("rank {} listens on {}; rank 0's store is at {}{}", plan.rank, to.address,
                         to.host, port));
  if (plan.rank == 0 && plan.token_is_guessable) {
    print_note(
        "connections between ranks begin with a token that others can guess (the job's id); "
        "set GRAPHPIPE_TOKEN on all ranks to a secret of your own");
  }
  if (plan.rank > 0) set_verbosity(Verbosity::kQuiet);
  return plan;
}

void end_with_head() {
  std::thread([] {
    std::array<char, 64> rest{};
    while (read(STDIN_FILENO, rest.data(), rest.size()) > 0) {
    }
    kill(getpid(), SIGTERM);
  }).detach();
}

void add_hostfile_flags(CLI::App& command, HostfileFlags& flags) {
  command.add_option("--hostfile", flags.file,
                     "run the ranks on the hosts of this file, a line each: NAME slots=N");
  command
      .add_option("--ssh", flags.shell,
                  "of --hostfile: what starts a command on a host; HOST and the command follow")
      ->capture_default_str();
}

RemoteJob make_remote_job(const HostfileFlags& flags, int ranks) {
  RemoteJob job;
  for (const std::string& word : split_text(flags.shell, ' ')) {
    if (!word.empty()) job.shell.push_back(word);
  }
  if (job.shell.empty()) throw InputError("--ssh", "expected a command, found none");
  job.hosts = parse_hostfile(read_file(flags.file), flags.file);
  job.host_of = place_ranks(job.hosts, ranks, flags.file);
  job.folder = std::filesystem::current_path();
  job.command = rank_command();
  job.token = local_rendezvous().token;
  return job;
}

void check_launched_ranks(const LaunchPlan& launch, int ranks, const std::string& where) {
  if (launch.size == ranks) return;
  throw InputError(where,
                   fmt::format("the plan has {} ranks, and {} started {} processes; start "
                               "as many, or plan for {} devices",
                               ranks, launcher_name(launch.launcher), launch.size, launch.size));
}

Rendezvous make_rendezvous(const LaunchPlan& launch) {
  return launch.launcher == Launcher::kNone ? local_rendezvous() : launch.rendezvous;
}

}  // namespace graphpipe
