// A temporary folder for one launched run; gone when the run is. While it is there, SIGINT, SIGTERM
// and SIGHUP are held back, but for the time that run_workers() takes, which ends at them: no
// folder is left, whenever they come.

#pragma once

#include <signal.h>

#include <cstdint>
#include <string>

#include "job/job.h"
#include "job/launcher.h"
#include "job/train_lines.h"

namespace graphpipe {

class JobFolder {
 public:
  JobFolder();
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
  sigset_t old_mask_ = {};
};

// What a job that runs a plan needs, in its folder. `profile_path`: "" where costs are analytic.
void write_job_files(const Job& job, const JobInputs& inputs, const std::string& profile_path);

// Where one of the ranks failed, on standard error: the first cause, and what that rank said
// before.
void print_failure(const LaunchResult& result);

// The stages of a run, predicted and measured.
std::string stages_text(const DoneLine& done);

// Throws InputError where this machine cannot hold so many worker processes: at most
// kMostRanksPerCore a core, beyond which they only wait for each other.
inline constexpr int kMostRanksPerCore = 16;
void check_local_ranks(std::int64_t ranks, const std::string& where);

// The worker program. Throws InputError that says how to build it where it is missing.
std::string require_worker();

}  // namespace graphpipe
