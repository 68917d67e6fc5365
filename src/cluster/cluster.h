// Devices and the links between them.
//
// Devices are numbered from 0 and grouped by levels from the inside out: level 0
// groups `group_size` neighbours (the devices of a node), level 1 groups of level 0
// (the nodes), and so on. Two devices talk over the link of the first level that
// holds both.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"

namespace graphpipe {

// What one device can do. Figures from public data sheets are named in presets.cc.
struct DeviceType {
  std::string name;  // "V100-16GB"
  double peak_flops_per_s = 0;
  double compute_efficiency = 1;  // share of the peak that a large product reaches
  double memory_bandwidth_bytes_per_s = 0;
  double memory_efficiency = 1;
  std::int64_t memory_bytes = 0;
  double launch_overhead_s = 0;  // per kernel
  int multiprocessors = 1;       // 1: no wave quantisation (CPUs)
  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

struct Link {
  double bandwidth_bytes_per_s = 0;  // one direction, between two devices
  double latency_s = 0;
  friend bool operator==(const Link&, const Link&) = default;
};

struct Level {
  std::string name;    // "node", "cluster"
  int group_size = 1;  // how many groups of the level below (devices, at level 0)
  Link link;
  bool shared = false;  // the groups below have one port each at this level, which
                        // their devices share (one NIC for the GPUs of a node)
  friend bool operator==(const Level&, const Level&) = default;
};

struct Cluster {
  std::string name;  // as it was asked for: "summit:32"
  std::vector<DeviceType> types;
  std::vector<int> device_type;  // [device] -> index into types; its length is the
                                 // number of devices
  std::vector<Level> levels;     // inside out; the product of sizes covers the devices
  int cores_per_node = 0;        // > 0: the devices of a level-0 group are ranks that
                                 // share so many cores (0: each has its own)

  int device_count() const { return static_cast<int>(device_type.size()); }
  const DeviceType& type_of(DeviceId device) const {
    return types[static_cast<std::size_t>(device_type[device.index()])];
  }
};

// Invariants, checked by validate():
//   C1  there is at least one device and one level; group sizes are positive and their
//       product is at least the number of devices
//   C2  every device's type exists; figures are positive and finite, efficiencies in
//       (0, 1]; latencies and launch overheads are not negative
//   C3  cores per node are not negative
void validate(const Cluster& cluster, const std::string& where);

// The level at which two different devices meet.
int level_between(const Cluster& cluster, DeviceId a, DeviceId b);
const Link& link_between(const Cluster& cluster, DeviceId a, DeviceId b);
// The slowest link that a group of devices needs (a single device: the innermost).
const Link& slowest_link(const Cluster& cluster, const std::vector<DeviceId>& devices);
// The link of the outermost level that the cluster's devices reach.
const Link& worst_link(const Cluster& cluster);
// Which group of the level the device is in (level 0: its node).
int group_of(const Cluster& cluster, DeviceId device, int level);

// How much slower a device computes when all devices of its node do: the ranks per
// core, at least 1.
double core_oversubscription(const Cluster& cluster);

}  // namespace graphpipe
