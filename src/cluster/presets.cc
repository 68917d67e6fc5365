#include "cluster/presets.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/text.h"

namespace graphpipe {
namespace {

constexpr const char* kWhere = "--cluster";
constexpr std::int64_t kMostPresetDevices = 1'000'000;
// Of overrides: beyond them a figure is a slip, and sums of it could overflow.
constexpr double kMostBytes = 1e18;
constexpr double kMostLatencyS = 3600;

// NVIDIA V100 data sheet, SXM2 16 GB: 15.7 TFLOP/s float32, 900 GB/s, 80 multiprocessors.
// The two shares and the launch overhead are the frozen ones of docs/papers.md.
DeviceType v100() {
  return {.name = "V100-16GB",
          .peak_flops_per_s = 15.7e12,
          .compute_efficiency = 0.85,
          .memory_bandwidth_bytes_per_s = 900e9,
          .memory_efficiency = 0.8,
          .memory_bytes = std::int64_t{16} << 30,
          .launch_overhead_s = 5e-6,
          .multiprocessors = 80};
}

// NVIDIA A100 data sheet, SXM 80 GB: 156 TFLOP/s TF32 on tensor cores without sparsity,
// 2,039 GB/s, 108 multiprocessors. TF32 and not float32 (19.5 TFLOP/s), because that is
// how float32 models are commonly trained on it.
DeviceType a100() {
  return {.name = "A100-80GB",
          .peak_flops_per_s = 156e12,
          .compute_efficiency = 0.85,
          .memory_bandwidth_bytes_per_s = 2039e9,
          .memory_efficiency = 0.8,
          .memory_bytes = std::int64_t{80} << 30,
          .launch_overhead_s = 5e-6,
          .multiprocessors = 108};
}

// NVIDIA H100 data sheet, SXM5 80 GB: 989 TFLOP/s TF32 with sparsity, half of it without;
// 3.35 TB/s, 132 multiprocessors. TF32 for the reason given at the A100.
DeviceType h100() {
  return {.name = "H100-80GB",
          .peak_flops_per_s = 494.5e12,
          .compute_efficiency = 0.85,
          .memory_bandwidth_bytes_per_s = 3350e9,
          .memory_efficiency = 0.8,
          .memory_bytes = std::int64_t{80} << 30,
          .launch_overhead_s = 5e-6,
          .multiprocessors = 132};
}

// One core of a server CPU with AVX2: 2 fused multiply-adds of 8 float32 a cycle at about
// 2.5 GHz make 80 GFLOP/s, of which OpenBLAS reaches some 60 in large products; a core
// alone draws 10 to 15 GB/s from memory; a library call costs some 5 us.
DeviceType cpu_core(std::int64_t memory_bytes) {
  return {.name = "CPU-core",
          .peak_flops_per_s = 80e9,
          .compute_efficiency = 0.75,
          .memory_bandwidth_bytes_per_s = 15e9,
          .memory_efficiency = 0.8,
          .memory_bytes = memory_bytes,
          .launch_overhead_s = 5e-6,
          .multiprocessors = 1};
}

// Summit as the paper used it: 4 GPUs a node. V100s of one socket are joined by 2 NVLink 2.0
// links of 25 GB/s one way; EDR InfiniBand is 100 Gb/s, one port that the node shares.
std::vector<Level> summit_levels() {
  return {{.name = "node", .group_size = 4, .link = {50e9, 3e-6}},
          {.name = "cluster", .link = {12.5e9, 5e-6}, .shared = true}};
}

// DGX A100: NVLink 3 through NVSwitch, 600 GB/s a GPU both ways together; one HDR InfiniBand
// port (200 Gb/s) a GPU.
std::vector<Level> a100_levels() {
  return {{.name = "node", .group_size = 8, .link = {300e9, 3e-6}},
          {.name = "cluster", .link = {25e9, 5e-6}}};
}

// DGX H100: NVLink 4 through NVSwitch, 900 GB/s a GPU both ways together; one NDR InfiniBand
// port (400 Gb/s) a GPU.
std::vector<Level> h100_levels() {
  return {{.name = "node", .group_size = 8, .link = {450e9, 3e-6}},
          {.name = "cluster", .link = {50e9, 5e-6}}};
}

// Messages through memory between processes of one machine, as measured for
// docs/runtime.md: about 25 us until a receiver that slept goes on, one copy at 10 GB/s.
std::vector<Level> local_levels(int devices) {
  return {{.name = "node", .group_size = devices, .link = {10e9, 25e-6}}};
}

std::int64_t installed_memory_bytes() {
  const auto pages = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  GP_CHECK(pages > 0 && page_bytes > 0, "the system does not tell its memory");
  return pages * page_bytes;
}

Cluster gpu_cluster(DeviceType type, std::vector<Level> levels, int devices) {
  Cluster cluster;
  cluster.types = {std::move(type)};
  cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
  const int per_node = levels[0].group_size;
  levels[1].group_size = (devices + per_node - 1) / per_node;
  cluster.levels = std::move(levels);
  return cluster;
}

Cluster local_cluster(int devices) {
  Cluster cluster;
  cluster.types = {cpu_core(installed_memory_bytes() / devices)};
  cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
  cluster.levels = local_levels(devices);
  cluster.cores_per_node = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return cluster;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetDescription& preset : preset_descriptions()) names.push_back(preset.name);
  return names;
}

Cluster build_preset(const std::string& name, int devices) {
  if (name == "summit") return gpu_cluster(v100(), summit_levels(), devices);
  if (name == "a100") return gpu_cluster(a100(), a100_levels(), devices);
  if (name == "h100") return gpu_cluster(h100(), h100_levels(), devices);
  if (name == "local") return local_cluster(devices);
  const std::vector<std::string> names = preset_names();
  const std::string near = nearest_word(name, names);
  throw InputError(kWhere,
                   fmt::format("there is no cluster '{}'{}; there are {}, each with a number of "
                               "devices ({}:8), or a cluster file",
                               name, near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                               fmt::join(names, ", "), names.front()));
}

int parse_device_count(const std::string& name, const std::string& text) {
  const std::int64_t devices = parse_integer(text, kWhere);
  if (devices < 1 || devices > kMostPresetDevices) {
    throw InputError(
        kWhere, fmt::format("{}:{}: expected 1 to {} devices", name, devices, kMostPresetDevices));
  }
  return static_cast<int>(devices);
}

double positive(double figure, const std::string& key) {
  if (!(figure > 0)) {
    throw InputError(kWhere, fmt::format("{}: expected more than 0, found {}", key, figure));
  }
  if (figure > kMostBytes) {
    throw InputError(
        kWhere, fmt::format("{}: expected at most {} bytes, found {}", key, kMostBytes, figure));
  }
  return figure;
}

double latency(double seconds) {
  if (seconds <= kMostLatencyS) return seconds;
  throw InputError(
      kWhere, fmt::format("latency: expected at most {} s, found {} s", kMostLatencyS, seconds));
}

Level& outermost_level(Cluster& cluster) {
  const int devices = cluster.device_count();
  const int level = devices < 2 ? 0 : level_between(cluster, DeviceId(0), DeviceId(devices - 1));
  return cluster.levels[static_cast<std::size_t>(level)];
}

void apply_override(Cluster& cluster, const std::string& key, const std::string& value,
                    bool local) {
  if (key == "memory") {
    const double bytes = positive(parse_bytes(value, kWhere), key);
    for (DeviceType& type : cluster.types) type.memory_bytes = static_cast<std::int64_t>(bytes);
  } else if (key == "bandwidth") {
    outermost_level(cluster).link.bandwidth_bytes_per_s =
        positive(parse_bandwidth(value, kWhere), key);
  } else if (key == "latency") {
    outermost_level(cluster).link.latency_s = latency(parse_seconds(value, kWhere));
  } else if (key == "node-bandwidth") {
    cluster.levels.front().link.bandwidth_bytes_per_s =
        positive(parse_bandwidth(value, kWhere), key);
  } else if (key == "cores" && local) {
    const std::int64_t cores = parse_integer(value, kWhere);
    if (cores < 1 || cores > kMostPresetDevices) {
      throw InputError(kWhere,
                       fmt::format("cores: expected 1 to {}, found {}", kMostPresetDevices, cores));
    }
    cluster.cores_per_node = static_cast<int>(cores);
  } else {
    throw InputError(kWhere,
                     fmt::format("unknown override '{}'; there are memory, bandwidth, latency, "
                                 "node-bandwidth and, for local, cores",
                                 key));
  }
}

void apply_overrides(Cluster& cluster, const std::string& text, bool local) {
  const std::vector<std::string> parts = split_text(text, ',');
  cluster.name = text;
  std::set<std::string> given;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto equals = parts[i].find('=');
    if (equals == std::string::npos) {
      throw InputError(
          kWhere, fmt::format("expected KEY=VALUE, such as memory=8GiB, found '{}'", parts[i]));
    }
    const std::string key = parts[i].substr(0, equals);
    if (!given.insert(key).second) {
      throw InputError(kWhere, fmt::format("'{}' is given twice in '{}'", key, text));
    }
    apply_override(cluster, key, parts[i].substr(equals + 1), local);
  }
  validate(cluster, kWhere);
}

}  // namespace

Cluster preset_cluster(const std::string& text) {
  const std::vector<std::string> parts = split_text(text, ',');
  const std::string head = parts.empty() ? "" : parts.front();
  const auto colon = head.find(':');
  if (colon == std::string::npos) {
    throw InputError(kWhere, fmt::format("expected NAME:DEVICES, such as summit:8, found '{}'; the "
                                         "names are {}",
                                         text, fmt::join(preset_names(), ", ")));
  }
  const std::string name = head.substr(0, colon);
  Cluster cluster = build_preset(name, parse_device_count(name, head.substr(colon + 1)));
  apply_overrides(cluster, text, name == "local");
  return cluster;
}

bool is_embedded_cluster(const std::string& text) {
  constexpr std::string_view kName = "embedded";
  if (!text.starts_with(kName)) return false;
  return text.size() == kName.size() || text[kName.size()] == ':' || text[kName.size()] == ',';
}

Cluster embedded_preset(const std::string& text, const EmbeddedCluster& embedded) {
  const std::string head = text.substr(0, text.find(','));
  const auto colon = head.find(':');
  const int devices = colon == std::string::npos
                          ? embedded.devices
                          : parse_device_count("embedded", head.substr(colon + 1));
  Cluster cluster;
  // No operator of such a file asks for the device's compute.
  cluster.types = {{.name = "embedded",
                    .peak_flops_per_s = 1e12,
                    .memory_bandwidth_bytes_per_s = 1e12,
                    .memory_bytes = static_cast<std::int64_t>(embedded.memory_bytes)}};
  cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
  cluster.levels = {
      {.name = "cluster", .group_size = devices, .link = {embedded.bandwidth_bytes_per_s, 0}}};
  apply_overrides(cluster, text, false);
  return cluster;
}

std::vector<PresetDescription> preset_descriptions() {
  return {{"summit", "V100 16 GB, 4 to a node, NVLink inside, 100 Gb/s InfiniBand between"},
          {"a100", "A100 80 GB with TF32, 8 to a node, NVLink inside, 200 Gb/s a GPU between"},
          {"h100", "H100 80 GB with TF32, 8 to a node, NVLink inside, 400 Gb/s a GPU between"},
          {"local", "CPU ranks on this machine, one thread each"}};
}

std::string cluster_note(const Cluster& cluster) {
  const double slowdown = core_oversubscription(cluster);
  if (slowdown <= 1) return "";
  const int ranks = std::min(cluster.levels.front().group_size, cluster.device_count());
  return fmt::format(
      "{} ranks share {} core{}: compute is modelled {:.3g} times slower when all "
      "are busy",
      ranks, cluster.cores_per_node, cluster.cores_per_node == 1 ? "" : "s", slowdown);
}

}  // namespace graphpipe
