#include "cluster/cluster_json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/presets.h"

namespace graphpipe {
namespace {

constexpr const char* kTwoTypes = R"({
  "format": "graphpipe-cluster", "version": 1,
  "types": [{"name": "slow", "peak_flops_per_s": 1e12,
             "memory_bandwidth_bytes_per_s": 1e11, "memory_bytes": 1000},
            {"name": "fast", "peak_flops_per_s": 2e12, "compute_efficiency": 0.5,
             "memory_bandwidth_bytes_per_s": 1e11, "memory_efficiency": 0.25,
             "memory_bytes": 2000, "launch_overhead_s": 1e-6, "multiprocessors": 7}],
  "devices": [{"type": 1, "count": 2}, {"type": 0, "count": 1}],
  "levels": [{"name": "node", "group_size": 3, "bandwidth_bytes_per_s": 1e9}]
})";

std::string fault(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  try {
    parse_cluster(text, "c.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void expect_equal(const Cluster& a, const Cluster& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.types, b.types);
  EXPECT_EQ(a.device_type, b.device_type);
  EXPECT_EQ(a.levels, b.levels);
  EXPECT_EQ(a.cores_per_node, b.cores_per_node);
}

TEST(ClusterJson, ReadsTypesRunsAndDefaults) {
  const Cluster cluster = parse_cluster(kTwoTypes, "c.json");
  EXPECT_EQ(cluster.device_type, (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(cluster.types[0].compute_efficiency, 1);
  EXPECT_EQ(cluster.types[0].multiprocessors, 1);
  EXPECT_EQ(cluster.types[1].multiprocessors, 7);
  EXPECT_EQ(cluster.types[1].memory_efficiency, 0.25);
  EXPECT_EQ(cluster.levels[0].link, (Link{1e9, 0}));
  EXPECT_FALSE(cluster.levels[0].shared);
}

TEST(ClusterJson, WhatIsWrittenIsReadTheSame) {
  for (const char* name : {"summit:10", "h100:3", "local:3,cores=2"}) {
    const Cluster cluster = preset_cluster(name);
    expect_equal(parse_cluster(to_json(cluster), name), cluster);
  }
  const Cluster mixed = parse_cluster(kTwoTypes, "c.json");
  expect_equal(parse_cluster(to_json(mixed), "again"), mixed);
}

TEST(ClusterJson, RefusesAnotherFormat) {
  EXPECT_EQ(fault(kTwoTypes, "graphpipe-cluster", "graphpipe-plan"),
            "c.json: /format: expected \"graphpipe-cluster\", found \"graphpipe-plan\"; this is "
            "not a cluster file");
  EXPECT_EQ(fault(kTwoTypes, "\"version\": 1", "\"version\": 2"),
            "c.json: /version: expected 1, found 2; write the file anew with this program");
}

TEST(ClusterJson, PointsAtWhatIsWrong) {
  EXPECT_EQ(fault(kTwoTypes, "\"type\": 1", "\"type\": 2"),
            "c.json: /devices: C2: device 0 has type 2, which does not exist; there are 2, counted "
            "from 0");
  EXPECT_EQ(fault(kTwoTypes, "\"count\": 2", "\"count\": 0"),
            "c.json: /devices/0/count: expected a whole number of at least 1, found 0");
  EXPECT_EQ(fault(kTwoTypes, "\"count\": 2", "\"count\": 2000000"),
            "c.json: /devices/0/count: expected at most 1000000, found 2000000");
  EXPECT_EQ(fault(kTwoTypes, "\"memory_bytes\": 1000", "\"memory_bytes\": 0"),
            "c.json: /types/0/memory_bytes: C2: expected a positive number, found 0");
}

}  // namespace
}  // namespace graphpipe
