// A temporary folder for one launched run; gone when the run is.

#pragma once

#include <cstdint>
#include <string>

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "job/launcher.h"

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
};

// Throws InputError where this machine cannot hold so many worker processes: at most
// kMostRanksPerCore a core, beyond which they only wait for each other.
inline constexpr int kMostRanksPerCore = 16;
void check_local_ranks(std::int64_t ranks, const std::string& where);

// The worker program. Throws InputError that says how to build it where it is missing.
std::string require_worker();

}  // namespace graphpipe
