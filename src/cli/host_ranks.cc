#include "cli/host_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "cli/inputs.h"
#include "plan/plan_json.h"

namespace graphpipe {

HostRanks::HostRanks(const TrainFlags& flags, const LoadedPlan& loaded)
    : flags_(flags),
      all_(make_remote_job(flags.hostfile, devices_used(loaded.plan))),
      plan_(loaded.plan),
      is_down_(all_.hosts.size(), false) {}

LaunchResult HostRanks::run(const JobInputs& inputs, const std::string& resume,
                            const LineSink& on_line) {
  RemoteJob job = all_;
  job.hosts = hosts_up();
  job.host_of = place_ranks(job.hosts, devices_used(inputs.plan), flags_.hostfile.file);
  if (flags_.elastic) job.command = command_for(inputs, resume);
  placed_.clear();
  for (std::size_t rank = 0; rank < job.host_of.size(); ++rank) {
    placed_.push_back(job.hosts[static_cast<std::size_t>(job.host_of[rank])].host);
    print_note(fmt::format("rank {} of {} on {}", rank, job.host_of.size(), placed_.back()));
  }
  return run_remote(job, on_line, [](int rank, const std::string& text) {
    fmt::print(stderr, "rank {}: {}\n", rank, text);
  });
}

std::size_t HostRanks::count_lost(const LaunchResult& result) {
  for (std::size_t h = 0; h < all_.hosts.size(); ++h) {
    if (all_.hosts[h].host == placed_.at(static_cast<std::size_t>(result.rank))) {
      is_down_[h] = true;
    }
  }
  std::size_t slots = 0;
  for (const HostSlots& host : hosts_up()) slots += static_cast<std::size_t>(host.slots);
  const auto ranks = static_cast<std::size_t>(devices_used(plan_));
  return ranks - std::min(slots, ranks);
}

bool HostRanks::all_back() {
  constexpr double kAnswerS = 5;
  for (std::size_t h = 0; h < all_.hosts.size(); ++h) {
    if (is_down_[h] && !host_answers(all_, all_.hosts[h].host, kAnswerS)) return false;
  }
  is_down_.assign(is_down_.size(), false);
  return true;
}

std::vector<HostSlots> HostRanks::hosts_up() const {
  std::vector<HostSlots> up;
  for (std::size_t h = 0; h < all_.hosts.size(); ++h) {
    if (!is_down_[h]) up.push_back(all_.hosts[h]);
  }
  return up;
}

std::vector<std::string> HostRanks::command_for(const JobInputs& inputs,
                                                const std::string& resume) const {
  const std::string& folder = flags_.train.checkpoint.folder;
  const std::string path =
      fmt::format("{}/elastic-{}.plan.json", folder, devices_used(inputs.plan));
  std::filesystem::create_directories(folder);
  write_file(path, to_json(inputs.plan, inputs.graph));
  std::vector<std::string> command;
  for (const std::string& word : all_.command) {
    if (word == "--elastic" || word == "--resume") continue;
    command.push_back(word == flags_.plan ? path : word);
  }
  if (!resume.empty()) command.emplace_back("--resume");
  return command;
}

}  // namespace graphpipe
