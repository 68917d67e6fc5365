// Clusters by name: "summit:32", "local:4", "a100:64", "h100:256", with overrides
// ("summit:8,memory=8GiB,bandwidth=25GiB/s").

#pragma once

#include <string>
#include <vector>

#include "cluster/cluster.h"

namespace graphpipe {

// Overrides: memory=SIZE (of every device), bandwidth=RATE and latency=TIME (of the
// outermost level in use), node-bandwidth=RATE (level 0), cores=N (local only).
// Throws InputError("--cluster", ...) with the names that exist.
//
// local:N is this machine: memory is what is installed / N, cores are counted here.
Cluster preset_cluster(const std::string& text);

struct PresetDescription {
  std::string name;
  std::string summary;
};
std::vector<PresetDescription> preset_descriptions();

// Non-empty where the user should know: ranks share cores ("4 ranks share 2 cores:
// compute is modelled 2 times slower when all are busy").
std::string cluster_note(const Cluster& cluster);

}  // namespace graphpipe
