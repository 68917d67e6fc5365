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

// What a planner's input file says of the devices it was made for. Their compute is not told and
// not needed: such files hold the times.
struct EmbeddedCluster {
  int devices = 1;
  double memory_bytes = 0;
  double bandwidth_bytes_per_s = 0;
};

// Whether the argument asks for the model file's own devices: "embedded" (as many as the file
// says), "embedded:8,memory=2GiB". With it, the cluster; same overrides and errors.
bool is_embedded_cluster(const std::string& text);
Cluster embedded_preset(const std::string& text, const EmbeddedCluster& embedded);

struct PresetDescription {
  std::string name;
  std::string summary;
};
std::vector<PresetDescription> preset_descriptions();

// Non-empty where the user should know: ranks share cores ("4 ranks share 2 cores:
// compute is modelled 2 times slower when all are busy").
std::string cluster_note(const Cluster& cluster);

}  // namespace graphpipe
