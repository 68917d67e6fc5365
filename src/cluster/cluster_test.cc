#include "cluster/cluster.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace graphpipe {
namespace {

// Two nodes of two V-devices each, and a third node that is half full.
Cluster five_devices() {
  Cluster cluster;
  cluster.types = {{.name = "V",
                    .peak_flops_per_s = 1e12,
                    .compute_efficiency = 0.5,
                    .memory_bandwidth_bytes_per_s = 1e11,
                    .memory_efficiency = 0.8,
                    .memory_bytes = 1 << 30,
                    .launch_overhead_s = 1e-6,
                    .multiprocessors = 4}};
  cluster.device_type.assign(5, 0);
  cluster.levels = {{.name = "node", .group_size = 2, .link = {4e9, 1e-6}},
                    {.name = "rack", .group_size = 2, .link = {2e9, 2e-6}},
                    {.name = "hall", .group_size = 2, .link = {1e9, 3e-6}}};
  return cluster;
}

std::string validate_fault(const Cluster& cluster) {
  try {
    validate(cluster, "c.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::vector<DeviceId> devices(std::initializer_list<int> numbers) {
  std::vector<DeviceId> ids;
  for (const int n : numbers) ids.emplace_back(n);
  return ids;
}

TEST(ClusterLevels, DevicesMeetAtTheFirstLevelThatHoldsBoth) {
  const Cluster cluster = five_devices();
  EXPECT_EQ(level_between(cluster, DeviceId(0), DeviceId(1)), 0);
  EXPECT_EQ(level_between(cluster, DeviceId(1), DeviceId(2)), 1);
  EXPECT_EQ(level_between(cluster, DeviceId(3), DeviceId(0)), 1);
  EXPECT_EQ(level_between(cluster, DeviceId(0), DeviceId(4)), 2);
  EXPECT_EQ(link_between(cluster, DeviceId(1), DeviceId(2)), (Link{2e9, 2e-6}));
}

TEST(ClusterLevels, GroupsAreCountedPerLevel) {
  const Cluster cluster = five_devices();
  EXPECT_EQ(group_of(cluster, DeviceId(3), 0), 1);
  EXPECT_EQ(group_of(cluster, DeviceId(3), 1), 0);
  EXPECT_EQ(group_of(cluster, DeviceId(4), 0), 2);
  EXPECT_EQ(group_of(cluster, DeviceId(4), 1), 1);
  EXPECT_EQ(group_of(cluster, DeviceId(4), 2), 0);
}

TEST(SlowestLink, OneDeviceNeedsTheInnermost) {
  EXPECT_EQ(slowest_link(five_devices(), devices({3})), (Link{4e9, 1e-6}));
}

TEST(SlowestLink, IsThatOfThePairFurthestApartWhereOuterLinksAreSlower) {
  const Cluster cluster = five_devices();
  EXPECT_EQ(slowest_link(cluster, devices({1, 0})), (Link{4e9, 1e-6}));
  EXPECT_EQ(slowest_link(cluster, devices({3, 0, 1})), (Link{2e9, 2e-6}));
  EXPECT_EQ(slowest_link(cluster, devices({4, 1, 0})), (Link{1e9, 3e-6}));
}

TEST(SlowestLink, CountsAnInnerLinkThatIsTheSlowest) {
  Cluster cluster = five_devices();
  cluster.levels[0].link = {5e8, 1e-6};
  EXPECT_EQ(slowest_link(cluster, devices({0, 1, 2})), (Link{5e8, 1e-6}));
  EXPECT_EQ(slowest_link(cluster, devices({0, 2})), (Link{2e9, 2e-6}));  // one a node
}

TEST(SlowestLink, OfEqualBandwidthsTheOneWithMoreLatency) {
  Cluster cluster = five_devices();
  cluster.levels[1].link = {4e9, 9e-6};
  EXPECT_EQ(slowest_link(cluster, devices({0, 1, 2})), (Link{4e9, 9e-6}));
}

TEST(WorstLink, IsTheOutermostThatIsReached) {
  Cluster cluster = five_devices();
  EXPECT_EQ(worst_link(cluster), (Link{1e9, 3e-6}));
  cluster.device_type.resize(4);
  EXPECT_EQ(worst_link(cluster), (Link{2e9, 2e-6}));
  cluster.device_type.resize(1);
  EXPECT_EQ(worst_link(cluster), (Link{4e9, 1e-6}));
}

TEST(CoreOversubscription, IsRanksPerCoreOfANode) {
  Cluster cluster = five_devices();
  EXPECT_EQ(core_oversubscription(cluster), 1);  // each device has its own
  cluster.cores_per_node = 1;
  EXPECT_EQ(core_oversubscription(cluster), 2);
  cluster.cores_per_node = 8;
  EXPECT_EQ(core_oversubscription(cluster), 1);
  cluster.levels[0].group_size = 16;  // more room than devices
  cluster.cores_per_node = 2;
  EXPECT_EQ(core_oversubscription(cluster), 2.5);
}

TEST(ClusterValidate, AcceptsANodeThatIsHalfFull) { EXPECT_EQ(validate_fault(five_devices()), ""); }

TEST(ClusterValidate, C1ThereIsADevice) {
  Cluster cluster = five_devices();
  cluster.device_type.clear();
  EXPECT_EQ(validate_fault(cluster), "c.json: /devices: C1: there is no device; list at least one");
}

TEST(ClusterValidate, C1ThereIsALevel) {
  Cluster cluster = five_devices();
  cluster.levels.clear();
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /levels: C1: there is no level; list at least one with its link");
}

TEST(ClusterValidate, C1GroupSizesArePositive) {
  Cluster cluster = five_devices();
  cluster.levels[1].group_size = 0;
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /levels/1/group_size: C1: expected at least 1, found 0");
}

TEST(ClusterValidate, C1GroupSizesHoldTheDevices) {
  Cluster cluster = five_devices();
  cluster.levels.pop_back();
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /levels: C1: the group sizes hold 4 devices, but there are 5; make a group "
            "larger or add a level");
}

TEST(ClusterValidate, C1GroupSizesMayMultiplyBeyond64Bits) {
  Cluster cluster = five_devices();
  for (Level& level : cluster.levels) level.group_size = std::numeric_limits<int>::max();
  EXPECT_EQ(validate_fault(cluster), "");
}

TEST(ClusterValidate, C2DeviceTypesExist) {
  Cluster cluster = five_devices();
  cluster.device_type[3] = 1;
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /devices: C2: device 3 has type 1, which does not exist; there are 1, counted "
            "from 0");
}

TEST(ClusterValidate, C2FiguresArePositive) {
  Cluster cluster = five_devices();
  cluster.types[0].peak_flops_per_s = 0;
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /types/0/peak_flops_per_s: C2: expected a positive number, found 0");
  cluster = five_devices();
  cluster.types[0].memory_bytes = -5;
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /types/0/memory_bytes: C2: expected a positive number, found -5");
  cluster = five_devices();
  cluster.levels[2].link.bandwidth_bytes_per_s = std::numeric_limits<double>::infinity();
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /levels/2/bandwidth_bytes_per_s: C2: expected a positive number, found inf");
}

TEST(ClusterValidate, C2EfficienciesAreShares) {
  Cluster cluster = five_devices();
  cluster.types[0].memory_efficiency = 1.5;
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /types/0/memory_efficiency: C2: expected a share above 0 and up to 1, found "
            "1.5");
}

TEST(ClusterValidate, C2LatenciesAreNotNegative) {
  Cluster cluster = five_devices();
  cluster.levels[0].link.latency_s = -1;
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /levels/0/latency_s: C2: expected a number that is not negative, found -1");
  cluster = five_devices();
  cluster.types[0].launch_overhead_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /types/0/launch_overhead_s: C2: expected a number that is not negative, found "
            "nan");
}

TEST(ClusterValidate, C3CoresAreNotNegative) {
  Cluster cluster = five_devices();
  cluster.cores_per_node = -2;
  EXPECT_EQ(validate_fault(cluster),
            "c.json: /cores_per_node: C3: expected 0 (each device has its own) or more, found -2");
}

}  // namespace
}  // namespace graphpipe
