#include "cluster/cluster_json.h"

#include <utility>

#include "base/error.h"
#include "base/json_reader.h"

namespace graphpipe {
namespace {

constexpr std::string_view kFormat = "graphpipe-cluster";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostDevices = 1'000'000;

double number_or(const JsonReader& json, const std::string& key, double otherwise) {
  return json.has(key) ? json[key].number() : otherwise;
}

int small_integer(const JsonReader& json, std::int64_t low) {
  const std::int64_t n = json.integer_at_least(low);
  if (n > kMostDevices) json.fail(fmt::format("expected at most {}, found {}", kMostDevices, n));
  return static_cast<int>(n);
}

DeviceType read_type(const JsonReader& json) {
  json.only({"name", "peak_flops_per_s", "compute_efficiency", "memory_bandwidth_bytes_per_s",
             "memory_efficiency", "memory_bytes", "launch_overhead_s", "multiprocessors"});
  DeviceType type;
  type.name = json["name"].string();
  type.peak_flops_per_s = json["peak_flops_per_s"].number();
  type.compute_efficiency = number_or(json, "compute_efficiency", 1);
  type.memory_bandwidth_bytes_per_s = json["memory_bandwidth_bytes_per_s"].number();
  type.memory_efficiency = number_or(json, "memory_efficiency", 1);
  type.memory_bytes = json["memory_bytes"].integer();
  type.launch_overhead_s = number_or(json, "launch_overhead_s", 0);
  if (json.has("multiprocessors")) {
    type.multiprocessors = small_integer(json["multiprocessors"], 1);
  }
  return type;
}

Level read_level(const JsonReader& json) {
  json.only({"name", "group_size", "bandwidth_bytes_per_s", "latency_s", "shared"});
  Level level;
  level.name = json["name"].string();
  level.group_size = small_integer(json["group_size"], 1);
  level.link.bandwidth_bytes_per_s = json["bandwidth_bytes_per_s"].number();
  level.link.latency_s = number_or(json, "latency_s", 0);
  level.shared = json.has("shared") && json["shared"].boolean();
  return level;
}

void read_devices(const JsonReader& json, Cluster& cluster) {
  for (const JsonReader& run : json.items()) {
    run.only({"type", "count"});
    const int type = small_integer(run["type"], 0);
    const auto count = static_cast<std::size_t>(small_integer(run["count"], 1));
    cluster.device_type.insert(cluster.device_type.end(), count, type);
    if (cluster.device_count() > kMostDevices) {
      run.fail(fmt::format("more than {} devices in all", kMostDevices));
    }
  }
}

Json written(const DeviceType& type) {
  return {{"name", type.name},
          {"peak_flops_per_s", type.peak_flops_per_s},
          {"compute_efficiency", type.compute_efficiency},
          {"memory_bandwidth_bytes_per_s", type.memory_bandwidth_bytes_per_s},
          {"memory_efficiency", type.memory_efficiency},
          {"memory_bytes", type.memory_bytes},
          {"launch_overhead_s", type.launch_overhead_s},
          {"multiprocessors", type.multiprocessors}};
}

Json written(const Level& level) {
  return {{"name", level.name},
          {"group_size", level.group_size},
          {"bandwidth_bytes_per_s", level.link.bandwidth_bytes_per_s},
          {"latency_s", level.link.latency_s},
          {"shared", level.shared}};
}

// Devices of one type in a row make one entry.
Json written_devices(const Cluster& cluster) {
  Json runs = Json::array();
  std::size_t start = 0;
  for (std::size_t d = 1; d <= cluster.device_type.size(); ++d) {
    if (d < cluster.device_type.size() && cluster.device_type[d] == cluster.device_type[start]) {
      continue;
    }
    runs.push_back({{"type", cluster.device_type[start]}, {"count", d - start}});
    start = d;
  }
  return runs;
}

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonReader json(document, file);
  json.only({"format", "version", "name", "types", "devices", "levels", "cores_per_node"});
  json.expect_format(kFormat, kVersion, "a cluster file", "write the file anew with this program");
  Cluster cluster;
  if (json.has("name")) cluster.name = json["name"].string();
  for (const JsonReader& type : json["types"].items()) cluster.types.push_back(read_type(type));
  read_devices(json["devices"], cluster);
  for (const JsonReader& level : json["levels"].items()) {
    cluster.levels.push_back(read_level(level));
  }
  if (json.has("cores_per_node")) {
    cluster.cores_per_node = small_integer(json["cores_per_node"], 0);
  }
  validate(cluster, file);
  return cluster;
}

std::string to_json(const Cluster& cluster) {
  Json types = Json::array();
  for (const DeviceType& type : cluster.types) types.push_back(written(type));
  Json levels = Json::array();
  for (const Level& level : cluster.levels) levels.push_back(written(level));
  const Json document = {{"format", kFormat},
                         {"version", kVersion},
                         {"name", cluster.name},
                         {"types", std::move(types)},
                         {"devices", written_devices(cluster)},
                         {"levels", std::move(levels)},
                         {"cores_per_node", cluster.cores_per_node}};
  return document.dump(2) + "\n";
}

}  // namespace graphpipe
