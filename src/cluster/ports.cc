#include "cluster/ports.h"

namespace graphpipe {

std::vector<Port> ports_between(const Cluster& cluster, DeviceId from, DeviceId to) {
  std::vector<Port> ports = {{-1, from.value, true}, {-1, to.value, false}};
  const int meet = level_between(cluster, from, to);
  for (int level = 1; level <= meet; ++level) {
    if (!cluster.levels[static_cast<std::size_t>(level)].shared) continue;
    ports.push_back({level, group_of(cluster, from, level - 1), true});
    ports.push_back({level, group_of(cluster, to, level - 1), false});
  }
  return ports;
}

}  // namespace graphpipe
