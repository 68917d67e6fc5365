#include "cluster/presets.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace graphpipe {
namespace {

std::string preset_fault(const std::string& text) {
  try {
    preset_cluster(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Presets, SummitHasFourV100sANodeAndOnePortBetween) {
  const Cluster cluster = preset_cluster("summit:10");
  EXPECT_EQ(cluster.name, "summit:10");
  EXPECT_EQ(cluster.device_count(), 10);
  EXPECT_EQ(cluster.type_of(DeviceId(9)).name, "V100-16GB");
  EXPECT_EQ(cluster.type_of(DeviceId(9)).memory_bytes, std::int64_t{16} << 30);
  ASSERT_EQ(cluster.levels.size(), 2U);
  EXPECT_EQ(cluster.levels[0].group_size, 4);
  EXPECT_EQ(cluster.levels[1].group_size, 3);  // two full nodes and one half full
  EXPECT_TRUE(cluster.levels[1].shared);
  EXPECT_EQ(link_between(cluster, DeviceId(3), DeviceId(4)).bandwidth_bytes_per_s, 100e9 / 8);
  EXPECT_EQ(cluster_note(cluster), "");
}

TEST(Presets, EveryPresetIsDescribedAndValid) {
  for (const PresetDescription& preset : preset_descriptions()) {
    for (const int devices : {1, 3, 8, 9, 64}) {
      const Cluster cluster = preset_cluster(preset.name + ":" + std::to_string(devices));
      EXPECT_EQ(cluster.device_count(), devices) << preset.name;
      EXPECT_NO_THROW(validate(cluster, preset.name));
    }
    EXPECT_NE(preset.summary, "");
  }
}

TEST(Presets, LocalDividesTheMemoryOfThisMachine) {
  const Cluster one = preset_cluster("local:1");
  const Cluster four = preset_cluster("local:4");
  EXPECT_EQ(four.types[0].memory_bytes, one.types[0].memory_bytes / 4);
  EXPECT_EQ(four.cores_per_node, one.cores_per_node);
  EXPECT_GE(four.cores_per_node, 1);
  EXPECT_EQ(four.levels.size(), 1U);
}

TEST(Presets, OverridesReachWhatTheyName) {
  const Cluster cluster =
      preset_cluster("summit:8,memory=8GiB,bandwidth=25GiB/s,latency=7us,node-bandwidth=30e9");
  EXPECT_EQ(cluster.types[0].memory_bytes, std::int64_t{8} << 30);
  EXPECT_EQ(cluster.levels[1].link, (Link{25.0 * 1024 * 1024 * 1024, 7e-6}));
  EXPECT_EQ(cluster.levels[0].link.bandwidth_bytes_per_s, 30e9);
}

TEST(Presets, BandwidthIsOfTheOutermostLevelInUse) {
  const Cluster cluster = preset_cluster("summit:4,bandwidth=1e9");
  EXPECT_EQ(cluster.levels[0].link.bandwidth_bytes_per_s, 1e9);
  EXPECT_EQ(worst_link(cluster).bandwidth_bytes_per_s, 1e9);
}

TEST(Presets, NoteTellsThatRanksShareCores) {
  EXPECT_EQ(cluster_note(preset_cluster("local:4,cores=2")),
            "4 ranks share 2 cores: compute is modelled 2 times slower when all are busy");
  EXPECT_EQ(cluster_note(preset_cluster("local:4,cores=3")),
            "4 ranks share 3 cores: compute is modelled 1.33 times slower when all are busy");
  EXPECT_EQ(cluster_note(preset_cluster("local:3,cores=1")),
            "3 ranks share 1 core: compute is modelled 3 times slower when all are busy");
  EXPECT_EQ(cluster_note(preset_cluster("local:2,cores=2")), "");
}

TEST(Presets, RefusesUnknownNamesWithThoseThatExist) {
  EXPECT_EQ(
      preset_fault("sumit:8"),
      "--cluster: there is no cluster 'sumit' (did you mean summit?); there are summit, a100, "
      "h100, local, each with a number of devices (summit:8), or a cluster file");
}

TEST(Presets, RefusesAMissingDeviceCount) {
  EXPECT_EQ(preset_fault("summit"),
            "--cluster: expected NAME:DEVICES, such as summit:8, found 'summit'; the names are "
            "summit, a100, h100, local");
  EXPECT_EQ(preset_fault("summit:0"), "--cluster: summit:0: expected 1 to 1000000 devices");
}

TEST(Presets, RefusesOverridesThatCannotBeMeant) {
  EXPECT_EQ(preset_fault("summit:8,memory=1GiB,memory=2GiB"),
            "--cluster: 'memory' is given twice in 'summit:8,memory=1GiB,memory=2GiB'");
  EXPECT_EQ(preset_fault("summit:8,memory=1e300"),
            "--cluster: memory: expected at most 1e+18 bytes, found 1e+300");
  EXPECT_EQ(preset_fault("summit:8,latency=1e300"),
            "--cluster: latency: expected at most 3600 s, found 1e+300 s");
}

TEST(Presets, RefusesUnknownOverrides) {
  EXPECT_EQ(preset_fault("summit:8,cores=2"),
            "--cluster: unknown override 'cores'; there are memory, bandwidth, latency, "
            "node-bandwidth and, for local, cores");
  EXPECT_EQ(preset_fault("summit:8,memory"),
            "--cluster: expected KEY=VALUE, such as memory=8GiB, found 'memory'");
  EXPECT_EQ(preset_fault("local:8,cores=0"), "--cluster: cores: expected 1 to 1000000, found 0");
  EXPECT_EQ(preset_fault("local:8,bandwidth=0"),
            "--cluster: bandwidth: expected more than 0, found 0");
}

}  // namespace
}  // namespace graphpipe
