#include "cli/job_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "report/text_report.h"

namespace graphpipe {

JobFolder::JobFolder() {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
  pthread_sigmask(SIG_BLOCK, &ends, &old_mask_);
  path_ = (std::filesystem::temp_directory_path() / "graphpipe-job-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) {
    pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
    throw InputError(path_, std::string("cannot make a folder for the run: ") +
                                std::strerror(errno) + "; set TMPDIR to one that can be written");
  }
}

JobFolder::~JobFolder() {
  std::error_code ignored;  // a destructor has nobody to tell
  std::filesystem::remove_all(path_, ignored);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void JobFolder::write(const std::string& name, const std::string& text) const {
  write_file(path_ + "/" + name, text);
}

void write_job_files(const Job& job, const JobInputs& inputs, const std::string& profile_path) {
  write_job_inputs(job.folder, inputs);
  if (!profile_path.empty()) write_file(job.folder + "/profile.json", read_file(profile_path));
  write_job(job);
}

void print_failure(const LaunchResult& result) {
  for (const std::string& text : result.last_lines) fmt::print(stderr, "  {}\n", text);
  fmt::print(stderr, "error: {}\n", result.first_cause);
}

std::string stages_text(const DoneLine& done) {
  std::vector<MeasuredStage> stages;
  for (const StageReport& stage : done.stages) {
    stages.push_back({.stage = stage.stage,
                      .predicted_s = stage.predicted_s,
                      .measured_s = stage.measured_s,
                      .predicted_peak_bytes = stage.predicted_peak_bytes,
                      .measured_peak_bytes = stage.measured_peak_bytes,
                      .bytes_sent = stage.bytes_sent});
  }
  return measured_table(stages, {.predicted_iteration_s = done.predicted_iteration_s,
                                 .measured_iteration_s = done.measured_iteration_s,
                                 .ranks = done.ranks,
                                 .cores = done.cores});
}

void check_local_ranks(std::int64_t ranks, const std::string& where) {
  const std::int64_t most = kMostRanksPerCore * std::max(1U, std::thread::hardware_concurrency());
  if (ranks >= 1 && ranks <= most) return;
  throw InputError(where, fmt::format("{} ranks; this machine runs 1 to {} of them ({} a core)",
                                      ranks, most, kMostRanksPerCore));
}

std::string require_worker() {
  const std::string worker = find_worker();
  if (worker.empty()) {
    throw InputError("graphpipe-worker",
                     "not found beside graphpipe or on PATH; build it with: cmake --workflow "
                     "--preset full");
  }
  return worker;
}

}  // namespace graphpipe
