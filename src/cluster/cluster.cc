#include "cluster/cluster.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace graphpipe {
namespace {

void check_positive(double figure, const char* field, const std::string& where) {
  if (!std::isfinite(figure) || figure <= 0) {
    throw InputError(where + "/" + field,
                     fmt::format("C2: expected a positive number, found {}", figure));
  }
}

void check_not_negative(double figure, const char* field, const std::string& where) {
  if (!std::isfinite(figure) || figure < 0) {
    throw InputError(where + "/" + field,
                     fmt::format("C2: expected a number that is not negative, found {}", figure));
  }
}

void check_efficiency(double figure, const char* field, const std::string& where) {
  if (!(figure > 0 && figure <= 1)) {
    throw InputError(where + "/" + field,
                     fmt::format("C2: expected a share above 0 and up to 1, found {}", figure));
  }
}

void check_shape(const Cluster& cluster, const std::string& where) {
  if (cluster.device_type.empty()) {
    throw InputError(where + ": /devices", "C1: there is no device; list at least one");
  }
  if (cluster.levels.empty()) {
    throw InputError(where + ": /levels", "C1: there is no level; list at least one with its link");
  }
  std::int64_t room = 1;
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    const int size = cluster.levels[i].group_size;
    if (size < 1) {
      throw InputError(fmt::format("{}: /levels/{}/group_size", where, i),
                       fmt::format("C1: expected at least 1, found {}", size));
    }
    // Capped, so that sizes that multiply beyond 64 bits still count as room enough.
    room = std::min<std::int64_t>(room * size, std::int64_t{1} << 31);
  }
  if (room < cluster.device_count()) {
    throw InputError(where + ": /levels",
                     fmt::format("C1: the group sizes hold {} devices, but there are {}; make a "
                                 "group larger or add a level",
                                 room, cluster.device_count()));
  }
}

void check_type(const DeviceType& type, const std::string& where) {
  check_positive(type.peak_flops_per_s, "peak_flops_per_s", where);
  check_efficiency(type.compute_efficiency, "compute_efficiency", where);
  check_positive(type.memory_bandwidth_bytes_per_s, "memory_bandwidth_bytes_per_s", where);
  check_efficiency(type.memory_efficiency, "memory_efficiency", where);
  check_positive(static_cast<double>(type.memory_bytes), "memory_bytes", where);
  check_not_negative(type.launch_overhead_s, "launch_overhead_s", where);
  check_positive(type.multiprocessors, "multiprocessors", where);
}

}  // namespace

void validate(const Cluster& cluster, const std::string& where) {
  check_shape(cluster, where);
  for (std::size_t d = 0; d < cluster.device_type.size(); ++d) {
    const int type = cluster.device_type[d];
    if (type < 0 || static_cast<std::size_t>(type) >= cluster.types.size()) {
      throw InputError(where + ": /devices",
                       fmt::format("C2: device {} has type {}, which does not exist; there are {}, "
                                   "counted from 0",
                                   d, type, cluster.types.size()));
    }
  }
  for (std::size_t i = 0; i < cluster.types.size(); ++i) {
    check_type(cluster.types[i], fmt::format("{}: /types/{}", where, i));
  }
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    const Link& link = cluster.levels[i].link;
    const std::string at = fmt::format("{}: /levels/{}", where, i);
    check_positive(link.bandwidth_bytes_per_s, "bandwidth_bytes_per_s", at);
    check_not_negative(link.latency_s, "latency_s", at);
  }
  if (cluster.cores_per_node < 0) {
    throw InputError(where + ": /cores_per_node",
                     fmt::format("C3: expected 0 (each device has its own) or more, found {}",
                                 cluster.cores_per_node));
  }
}

int group_of(const Cluster& cluster, DeviceId device, int level) {
  std::int64_t group = device.value;
  for (int i = 0; i <= level; ++i) group /= cluster.levels[static_cast<std::size_t>(i)].group_size;
  return static_cast<int>(group);
}

int level_between(const Cluster& cluster, DeviceId a, DeviceId b) {
  std::int64_t group_a = a.value;
  std::int64_t group_b = b.value;
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    group_a /= cluster.levels[i].group_size;
    group_b /= cluster.levels[i].group_size;
    if (group_a == group_b) return static_cast<int>(i);
  }
  GP_CHECK(false, "devices {} and {} meet at no level", a.value, b.value);
  return -1;
}

const Link& link_between(const Cluster& cluster, DeviceId a, DeviceId b) {
  return cluster.levels[static_cast<std::size_t>(level_between(cluster, a, b))].link;
}

const Link& slowest_link(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  std::vector<DeviceId> sorted = devices;
  std::ranges::sort(sorted);
  // The level of any pair is the highest between neighbours in order, so neighbours meet at
  // every level at which any pair meets.
  const Link* slowest = nullptr;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const Link& link = link_between(cluster, sorted[i - 1], sorted[i]);
    if (slowest == nullptr || link.bandwidth_bytes_per_s < slowest->bandwidth_bytes_per_s ||
        (link.bandwidth_bytes_per_s == slowest->bandwidth_bytes_per_s &&
         link.latency_s > slowest->latency_s)) {
      slowest = &link;
    }
  }
  return slowest == nullptr ? cluster.levels.front().link : *slowest;
}

const Link& worst_link(const Cluster& cluster) {
  if (cluster.device_count() < 2) return cluster.levels.front().link;
  return link_between(cluster, DeviceId(0), DeviceId(cluster.device_count() - 1));
}

double core_oversubscription(const Cluster& cluster) {
  if (cluster.cores_per_node <= 0) return 1;
  const int ranks = std::min(cluster.levels.front().group_size, cluster.device_count());
  return std::max(1.0, static_cast<double>(ranks) / cluster.cores_per_node);
}

}  // namespace graphpipe
