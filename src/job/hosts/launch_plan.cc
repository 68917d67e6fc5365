#include "job/hosts/launch_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/utf8.h"
#include "job/hosts/host_list.h"

namespace graphpipe {
namespace {

constexpr int kMostRanks = 1 << 20;
// Ports for jobs that name none: below those that systems give to outgoing connections.
constexpr int kFirstPort = 20000;
constexpr int kPorts = 12000;
constexpr const char* kLocalHost = "127.0.0.1";
constexpr const char* kToIgnore = "; --launcher none starts all ranks from this process";

// The variables of one launcher; nullptr: it has none of that meaning.
struct VariableSet {
  Launcher launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job;
  const char* step;  // without it, it is no rank
};
constexpr std::array<VariableSet, 5> kSets = {{
    {Launcher::kHostfile, "GRAPHPIPE_RANK", "GRAPHPIPE_WORLD_SIZE", "GRAPHPIPE_LOCAL_RANK", nullptr,
     nullptr, nullptr},
    {Launcher::kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     "TORCHELASTIC_RUN_ID", nullptr},
    {Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", nullptr},
    {Launcher::kPmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID",
     nullptr},
    {Launcher::kSlurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_JOB_ID",
     "SLURM_STEP_ID"},
}};

struct Found {
  const VariableSet* set = nullptr;
  int rank = 0;
  int size = 1;
  std::string text() const { return fmt::format("{}={} {}={}", set->rank, rank, set->size, size); }
};

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  // An empty one counts as none: that is how scripts take one away.
  std::optional<std::string> text(const char* name) const {
    const auto found = name == nullptr ? environment_.end() : environment_.find(name);
    if (found == environment_.end() || found->second.empty()) return std::nullopt;
    if (!is_utf8(found->second)) throw InputError(name, "its value is not UTF-8");
    return found->second;
  }
  std::optional<int> count(const char* name, int least, int most) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const std::int64_t number = parse_integer(*value, name);
    if (number >= least && number <= most) return static_cast<int>(number);
    throw InputError(name,
                     fmt::format("expected a number from {} to {}, found {}", least, most, number));
  }

 private:
  const Environment& environment_;
};

std::optional<Found> find_set(const Variables& variables, const VariableSet& set) {
  if (set.step != nullptr && !variables.text(set.step)) return std::nullopt;
  const auto rank = variables.count(set.rank, 0, kMostRanks - 1);
  const auto size = variables.count(set.size, 1, kMostRanks);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    throw InputError(
        rank ? set.size : set.rank,
        fmt::format("is not set, and {} is: {} sets both{}", rank ? set.rank : set.size,
                    launcher_name(set.launcher), kToIgnore));
  }
  if (*rank < *size) return Found{&set, *rank, *size};
  throw InputError(set.rank,
                   fmt::format("expected less than {}={}, found {}", set.size, *size, *rank));
}

Launcher wanted_launcher(const std::string& name) {
  std::vector<std::string> names = {"auto", "none"};
  for (const VariableSet& set : kSets) {
    if (set.launcher == Launcher::kHostfile) continue;
    if (launcher_name(set.launcher) == name) return set.launcher;
    names.emplace_back(launcher_name(set.launcher));
  }
  throw InputError("--launcher", fmt::format("'{}' is none of {}", name, fmt::join(names, ", ")));
}

// All that are there, the one to take first.
std::vector<Found> find_sets(const Variables& variables, const std::string& wanted) {
  std::vector<Found> found;
  const std::optional<Launcher> only =
      wanted == "auto" ? std::nullopt : std::optional(wanted_launcher(wanted));
  for (const VariableSet& set : kSets) {
    if (only && *only != set.launcher) continue;
    if (auto one = find_set(variables, set)) found.push_back(*one);
  }
  if (only && found.empty()) {
    throw InputError("--launcher", fmt::format("{}, and its variables are not set", wanted));
  }
  return found;
}

void check_agree(const std::vector<Found>& found) {
  for (std::size_t i = 1; i < found.size(); ++i) {
    const Found& taken = found.front();
    const Found& other = found[i];
    if (taken.size > other.size || (taken.size == other.size && taken.rank == other.rank)) continue;
    throw InputError(taken.set->rank,
                     fmt::format("{} ({}) and {} ({}) contradict each other; name one with "
                                 "--launcher, or unset the other's",
                                 taken.text(), launcher_name(taken.set->launcher), other.text(),
                                 launcher_name(other.set->launcher)));
  }
}

// PMIx gives a rank and no number of them: alone it is not enough, and beside Open MPI's own it is
// the same one.
void check_pmix(const Variables& variables, const std::vector<Found>& found) {
  const auto rank = variables.count("PMIX_RANK", 0, kMostRanks - 1);
  if (!rank) return;
  if (found.empty()) {
    throw InputError("PMIX_RANK", fmt::format("is set, and nothing says how many ranks there are; "
                                              "set PMI_RANK and PMI_SIZE{}",
                                              kToIgnore));
  }
  for (const Found& one : found) {
    if (one.set->launcher != Launcher::kOpenMpi || one.rank == *rank) continue;
    throw InputError("PMIX_RANK",
                     fmt::format("{} and {} contradict each other", *rank, one.text()));
  }
}

std::pair<std::string, int> parse_host_port(const std::string& text, const std::string& where) {
  const std::size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const bool digits = !port.empty() && port.size() < 6 &&
                      std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
  const int number = digits ? static_cast<int>(parse_integer(port, where)) : 0;
  if (!host.empty() && number >= 1 && number <= 65535) return {host, number};
  throw InputError(where, fmt::format("expected HOST:PORT, found \"{}\"", text));
}

bool is_true(const std::optional<std::string>& text) {
  return text && (*text == "True" || *text == "true" || *text == "1");
}

class LaunchPlanner {
 public:
  LaunchPlanner(const Variables& variables, const LaunchFlags& flags, const Found& taken)
      : variables_(variables), flags_(flags), set_(*taken.set) {
    plan_.launcher = set_.launcher;
    plan_.rank = taken.rank;
    plan_.size = taken.size;
    plan_.local_rank = variables.count(set_.local_rank, 0, taken.size - 1).value_or(taken.rank);
  }

  LaunchPlan make() {
    job_ = variables_.text(set_.job).value_or("");
    if (set_.launcher == Launcher::kSlurm) {
      job_ = fmt::format("{}.{}", job_, *variables_.text("SLURM_STEP_ID"));
    }
    find_store();
    find_token();
    find_interface();
    return std::move(plan_);
  }

 private:
  void find_store() {
    Rendezvous& to = plan_.rendezvous;
    to.way = Rendezvous::Way::kFixed;
    to.run =
        fmt::format("{}.{}", job_, variables_.text("TORCHELASTIC_RESTART_COUNT").value_or("0"));
    if (!flags_.rendezvous.empty()) {
      std::tie(to.host, to.port) = parse_host_port(flags_.rendezvous, "--rendezvous");
      return;
    }
    if (set_.launcher == Launcher::kHostfile) {
      to.way = plan_.rank == 0 ? Rendezvous::Way::kOutput : Rendezvous::Way::kFixed;
      to.host = variables_.text("MASTER_ADDR").value_or(kLocalHost);
      return;  // the port comes over standard input
    }
    to.host = find_host();
    to.port = find_port();
    const bool agent = set_.launcher == Launcher::kTorchrun &&
                       is_true(variables_.text("TORCHELASTIC_USE_AGENT_STORE"));
    if (agent) to.way = Rendezvous::Way::kAgent;
  }

  std::string find_host() const {
    if (const auto host = variables_.text("MASTER_ADDR")) return *host;
    if (set_.launcher == Launcher::kSlurm) {
      for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
        if (const auto list = variables_.text(name)) return expand_node_list(*list, name).front();
      }
    }
    if (variables_.count(set_.local_size, 1, kMostRanks) == plan_.size) return kLocalHost;
    throw InputError("MASTER_ADDR",
                     fmt::format("is not set, and {} does not say where rank 0 is; set it and "
                                 "MASTER_PORT, or give --rendezvous HOST:PORT",
                                 launcher_name(set_.launcher)));
  }

  int find_port() const {
    if (const auto port = variables_.count("MASTER_PORT", 1, 65535)) return *port;
    if (set_.launcher == Launcher::kTorchrun || job_.empty()) {
      throw InputError("MASTER_PORT",
                       "is not set; set it to a port that is free on rank 0's host, "
                       "or give --rendezvous HOST:PORT");
    }
    return kFirstPort + static_cast<int>(mix_bits(hash_bytes(job_)) % kPorts);
  }

  void find_token() {
    if (set_.launcher == Launcher::kHostfile) return;  // it comes over standard input
    if (const auto token = variables_.text("GRAPHPIPE_TOKEN")) {
      plan_.rendezvous.token = *token;
      return;
    }
    plan_.token_is_guessable = true;
    plan_.rendezvous.token = fmt::format("job {}", job_);
  }

  void find_interface() {
    plan_.interface = flags_.interface;
    for (const char* name : {"GRAPHPIPE_INTERFACE", "GLOO_SOCKET_IFNAME"}) {
      if (!plan_.interface.empty()) return;
      plan_.interface = variables_.text(name).value_or("");
      if (plan_.interface.find(',') == std::string::npos) continue;
      throw InputError(name, fmt::format("expected one interface, found \"{}\"", plan_.interface));
    }
  }

  const Variables& variables_;
  const LaunchFlags& flags_;
  const VariableSet& set_;
  LaunchPlan plan_;
  std::string job_;  // its id; "": the launcher gives none
};

LaunchPlan all_here(const LaunchFlags& flags) {
  const auto refuse = [](const char* flag, const std::string& value) {
    if (value.empty()) return;
    throw InputError(flag,
                     "is for ranks on several hosts, and this process starts all ranks here: "
                     "no launcher's variables are set, and there is no --hostfile");
  };
  refuse("--rendezvous", flags.rendezvous);
  refuse("--interface", flags.interface);
  return {};
}

}  // namespace

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return environment;
}

std::string_view launcher_name(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "none";
    case Launcher::kHostfile:
      return "hostfile";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kOpenMpi:
      return "open-mpi";
    case Launcher::kPmi:
      return "pmi";
    case Launcher::kSlurm:
      return "slurm";
  }
  GP_CHECK(false, "a launcher that is none");
}

LaunchPlan plan_launch(const Environment& environment, const LaunchFlags& flags) {
  const Variables variables(environment);
  if (flags.launcher == "none") return all_here(flags);
  const std::vector<Found> found = find_sets(variables, flags.launcher);
  if (flags.launcher == "auto") check_pmix(variables, found);
  if (found.empty()) return all_here(flags);
  check_agree(found);
  const Found& taken = found.front();
  if (taken.size == 1 && taken.set->launcher != Launcher::kHostfile) {
    LaunchPlan plan = all_here(flags);
    plan.notes.push_back(fmt::format("{} ({}): one process, which starts all ranks itself",
                                     launcher_name(taken.set->launcher), taken.text()));
    return plan;
  }
  LaunchPlan plan = LaunchPlanner(variables, flags, taken).make();
  std::string note = fmt::format("rank {} of {}, by {} ({})", plan.rank, plan.size,
                                 launcher_name(plan.launcher), taken.text());
  for (std::size_t i = 1; i < found.size(); ++i) note += fmt::format(", not {}", found[i].text());
  plan.notes.push_back(note);
  return plan;
}

}  // namespace graphpipe
