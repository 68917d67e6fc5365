// graphpipe profile MODEL: measured seconds and bytes per operator signature.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/job_folder.h"
#include "cli/progress.h"
#include "cost/profile_json.h"
#include "job/launcher.h"
#include "job/profile_lines.h"
#include "models/models.h"

namespace graphpipe {
namespace {

struct ProfileFlags {
  std::string model;
  std::string micro_batch;
  std::string device = "cpu";
  std::string output;
  int repeats = 5;
  int ranks = 1;
  bool fresh = false;
};

// Where measurements are kept between profiles.
std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != 0) return std::string(cache) + "/graphpipe/profiles";
  return home == nullptr ? "" : std::string(home) + "/.cache/graphpipe/profiles";
}

std::string profile_text(const Profile& profile) {
  std::size_t failed = 0;
  std::string text;
  for (const auto& [signature, entry] : profile.entries) {
    if (entry.failure.empty()) continue;
    ++failed;
    text += fmt::format("not measured: {}: {}\n", signature, entry.failure);
  }
  text += fmt::format("{} distinct operators measured on {} ({}), {} rank(s) busy on {} core(s)\n",
                      profile.entries.size() - failed, profile.device, profile.library,
                      profile.load, profile.cores);
  if (profile.transfer_bytes_per_s > 0) {
    text += fmt::format("between ranks: latency {}, {}/s (messages within {:.0f} % of that line)\n",
                        seconds_text(profile.transfer_latency_s),
                        bytes_text(profile.transfer_bytes_per_s), 100 * profile.transfer_residual);
  }
  return text;
}

// Signatures may be longer than a line of the terminal.
std::string beginning(const std::string& signature) {
  constexpr std::size_t kMostShown = 36;
  if (signature.size() <= kMostShown) return signature;
  std::size_t end = kMostShown;
  // Not within a character.
  while ((static_cast<unsigned char>(signature[end]) & 0xC0U) == 0x80U) --end;
  return signature.substr(0, end) + "...";
}

void check_flags(const ProfileFlags& flags) {
  if (flags.device != "cpu") {
    throw InputError("--device", fmt::format("'{}' is not supported by this version; it measures "
                                             "on cpu",
                                             flags.device));
  }
  check_local_ranks(flags.ranks, "--ranks");
  if (flags.repeats < 1) {
    throw InputError("--repeats", fmt::format("{} is not at least 1", flags.repeats));
  }
}

// Ascending, each once.
std::vector<std::int64_t> sample_counts(const std::string& text) {
  std::vector<std::int64_t> counts = parse_integers(text, "--micro-batch");
  std::ranges::sort(counts);
  const auto repeats = std::ranges::unique(counts);
  counts.erase(repeats.begin(), repeats.end());
  if (counts.empty()) throw InputError("--micro-batch", "expected at least one sample count");
  if (counts.front() < 1) {
    throw InputError("--micro-batch", fmt::format("{} is not at least 1", counts.front()));
  }
  return counts;
}

void run_profile(const ProfileFlags& flags, CommandLine& line) {
  check_flags(flags);
  const std::string worker = require_worker();
  const Graph graph = load_model(flags.model);
  const JobFolder folder;
  Job job;
  job.kind = "profile";
  job.folder = folder.path();
  job.rendezvous = local_rendezvous();
  job.model = flags.model;
  job.profile_samples = sample_counts(flags.micro_batch);
  job.profile_repeats = flags.repeats;
  job.profile_load = flags.ranks;
  job.profile_cache = cache_folder();
  job.profile_fresh = flags.fresh;
  write_job_graph(job.folder, graph);
  write_job(job);
  ProgressLine progress;
  const LaunchResult result = run_workers(worker, job, flags.ranks, [&](const std::string& text) {
    if (const auto measuring = parse_measuring_line(text)) {
      progress.draw("profile", measuring->done, beginning(measuring->what));
    } else if (!line.json) {
      progress.clear();
      print_out(text);
    }
  });
  progress.clear();
  if (result.exit_code != 0) {
    fmt::print(stderr, "error: {}\n", result.first_cause);
    line.exit_code = result.exit_code;
    return;
  }
  const std::string measured = read_file(profile_result_path(folder.path()));
  if (!flags.output.empty()) write_file(flags.output, measured);
  if (line.json) return print_out(measured);
  print_out(profile_text(parse_profile(measured, "profile.json")));
  if (!flags.output.empty()) print_out(fmt::format("written to {}", flags.output));
}

}  // namespace

void add_profile_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("profile", "measure the operators on this machine");
  auto flags = std::make_shared<ProfileFlags>();
  command->add_option("MODEL", flags->model, "a zoo name with parameters, or a file")->required();
  command->add_option("--micro-batch", flags->micro_batch, "sample counts to measure: 1,2,4,8")
      ->required();
  command->add_option("--device", flags->device, "what to measure on")->capture_default_str();
  command
      ->add_option("--ranks", flags->ranks,
                   "how many ranks are busy meanwhile, as the plan will have")
      ->capture_default_str();
  command->add_option("--repeats", flags->repeats, "measurements, of which the median is taken")
      ->capture_default_str();
  command->add_flag("--fresh", flags->fresh,
                    "measure all, also what was measured on this machine before");
  command->add_option("-o,--output", flags->output, "where to write the profile");
  command->callback([flags, &line] { run_profile(*flags, line); });
}

}  // namespace graphpipe
