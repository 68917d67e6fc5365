// The file form of a Cluster: NAME.cluster.json, described in docs/formats.md.
//
//   {"format": "graphpipe-cluster", "version": 1, "name": "two boxes",
//    "types": [{"name": "V100-16GB", "peak_flops_per_s": 15.7e12, "compute_efficiency": 0.85,
//               "memory_bandwidth_bytes_per_s": 900e9, "memory_efficiency": 0.8,
//               "memory_bytes": 17179869184, "launch_overhead_s": 5e-6,
//               "multiprocessors": 80}],
//    "devices": [{"type": 0, "count": 8}],       runs of devices, numbered in this order;
//                                                type: index into types
//    "levels": [{"name": "node", "group_size": 4, "bandwidth_bytes_per_s": 50e9,
//                "latency_s": 3e-6},             inside out
//               {"name": "cluster", "group_size": 2, "bandwidth_bytes_per_s": 12.5e9,
//                "latency_s": 5e-6, "shared": true}],
//    "cores_per_node": 0}
//
// May be left out: name, efficiencies (1), launch overhead and latency (0), multiprocessors
// (1), shared (false), cores_per_node (0).

#pragma once

#include <string>
#include <string_view>

#include "cluster/cluster.h"

namespace graphpipe {

// Parses and validates. Throws InputError("FILE: /levels/0/group_size", ...).
Cluster parse_cluster(std::string_view json, const std::string& file);
std::string to_json(const Cluster& cluster);  // parse_cluster(to_json(c)) equals c

}  // namespace graphpipe
