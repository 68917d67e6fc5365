#include "models/piper_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "models/imported_graph.h"

namespace graphpipe {
namespace {

constexpr std::size_t kMostAlternatives = 2;
constexpr int kMostDegree = 1 << 20;
constexpr std::int64_t kMostCount = std::int64_t{1} << 30;

std::int64_t count(const JsonReader& json) {
  const std::int64_t value = json.integer_at_least(1);
  if (value > kMostCount)
    json.fail(fmt::format("expected at most {}, found {}", kMostCount, value));
  return value;
}

class Reader {
 public:
  Reader(const JsonReader& json, double seconds_per_unit)
      : json_(json), seconds_per_unit_(seconds_per_unit) {}

  PiperFile read() {
    piper_.devices = static_cast<int>(count(json_["maxDevices"]));
    piper_.memory_bytes = figure(json_["maxMemoryPerDevice"], 1e18);
    piper_.bandwidth_bytes_per_s = figure(json_["bandwidth"], 1e18);
    if (piper_.bandwidth_bytes_per_s <= 0) json_["bandwidth"].fail("expected more than 0, found 0");
    piper_.micro_batches = count(json_["mbsInBatch"]);
    read_ids();
    read_edges();
    const std::vector<JsonReader> nodes = json_["nodes"].items();
    for (std::size_t i = 0; i < nodes.size(); ++i) read_node(nodes[i], i);
    return std::move(piper_);
  }

 private:
  void read_ids() {
    const std::vector<JsonReader> nodes = json_["nodes"].items();
    if (nodes.empty()) json_["nodes"].fail("expected a node, found none");
    if (nodes.size() > kMostImportedNodes) {
      json_["nodes"].fail(
          fmt::format("{} nodes, expected at most {}", nodes.size(), kMostImportedNodes));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::int64_t id = nodes[i]["id"].integer();
      if (!places_.try_emplace(id, i).second) {
        nodes[i]["id"].fail(fmt::format("{} is the id of an earlier node too", id));
      }
    }
    predecessors_.resize(nodes.size());
    successors_.resize(nodes.size());
  }

  std::size_t place(const JsonReader& json) const {
    const auto found = places_.find(json.integer());
    if (found == places_.end()) json.fail(fmt::format("there is no node {}", json.integer()));
    return found->second;
  }

  void read_edges() {
    const std::vector<JsonReader> edges = json_["edges"].items();
    if (edges.size() > kMostImportedEdges) {
      json_["edges"].fail(
          fmt::format("{} edges, expected at most {}", edges.size(), kMostImportedEdges));
    }
    for (const JsonReader& json : edges) {
      PiperEdge edge{place(json["sourceId"]), place(json["destId"]),
                     figure(json["communicationCost"], kMostImportedFigure)};
      if (edge.from == edge.to) json.fail("an edge from a node to itself");
      if (!successors_[edge.from].insert(edge.to).second) json.fail("the same edge stands before");
      predecessors_[edge.to].insert(edge.from);
      piper_.edges.push_back(edge);
    }
  }

  // Keys must be exactly the predecessors (successors).
  std::map<std::size_t, double> read_sync(const JsonReader& json,
                                          const std::set<std::size_t>& expected,
                                          std::string_view what) const {
    std::map<std::size_t, double> bytes;
    for (const auto& [key, value] : json.members()) {
      std::int64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      const auto found = places_.find(id);
      if (error != std::errc() || end != key.data() + key.size() || found == places_.end() ||
          !expected.contains(found->second)) {
        value.fail(fmt::format("\"{}\" is no {} of the node", key.substr(0, 40), what));
      }
      bytes[found->second] = figure(value, kMostImportedFigure);
    }
    if (bytes.size() < expected.size()) {
      json.fail(fmt::format("expected a figure for each of {} {}s, found {}", expected.size(), what,
                            bytes.size()));
    }
    return bytes;
  }

  PiperConfig read_config(const JsonReader& json, std::size_t node) const {
    PiperConfig config;
    config.id = json["id"].string();
    config.seconds = figure(json["timePerSample"], kMostImportedSeconds) * seconds_per_unit_;
    config.parameter_bytes = figure(json["parameterSize"], kMostImportedFigure);
    config.memory_a = figure(json["memoryUsageA"], kMostImportedFigure);
    config.memory_b = figure(json["memoryUsageB"], kMostImportedFigure);
    config.sync_fw_bytes = read_sync(json["syncTimeFw"], predecessors_[node], "predecessor");
    config.sync_bw_bytes = read_sync(json["syncTimeBw"], successors_[node], "successor");
    return config;
  }

  void read_node(const JsonReader& json, std::size_t place) {
    PiperNode node;
    if (json.has("name")) node.name = json["name"].string();
    for (const auto& [key, list] : json["TMPCs"].members()) {
      int degree = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), degree);
      if (error != std::errc() || end != key.data() + key.size() || degree < 1 ||
          degree > kMostDegree) {
        list.fail(fmt::format("\"{}\" is no tensor-parallel degree", key.substr(0, 40)));
      }
      const std::vector<JsonReader> items = list.items();
      if (items.size() > kMostAlternatives) {
        list.fail(
            fmt::format("{} alternatives, expected at most {}", items.size(), kMostAlternatives));
      }
      for (const JsonReader& item : items) {
        node.configs[degree].push_back(read_config(item, place));
      }
    }
    if (!node.configs.contains(1)) json["TMPCs"].fail("there is none for degree \"1\"");
    piper_.nodes.push_back(std::move(node));
  }

  const JsonReader& json_;
  double seconds_per_unit_;
  PiperFile piper_;
  std::map<std::int64_t, std::size_t> places_;
  std::vector<std::set<std::size_t>> predecessors_;
  std::vector<std::set<std::size_t>> successors_;
};

// What recomputation adds is a forward, where that is possible.
double forward_seconds(const std::vector<PiperConfig>& configs) {
  const double all_s = configs.front().seconds;
  const double more_s = configs.back().seconds - all_s;
  return more_s > 0 && more_s < all_s ? more_s : all_s / 3;
}

}  // namespace

bool is_piper(const Json& document) { return document.contains("mbsInBatch"); }

PiperFile parse_piper(const Json& document, const std::string& file, double seconds_per_unit) {
  return Reader(JsonReader(document, file), seconds_per_unit).read();
}

Graph piper_graph(const PiperFile& piper, const std::string& name, const std::string& file) {
  ImportedGraph imported;
  imported.name = name;
  std::vector<std::map<double, std::size_t>> tensors(piper.nodes.size());
  std::vector<double> sent_bytes(piper.nodes.size(), 0);
  for (const PiperEdge& edge : piper.edges) {
    const auto [tensor, fresh] =
        tensors[edge.from].try_emplace(edge.bytes, imported.tensors.size());
    if (fresh) {
      imported.tensors.push_back({edge.from, {}, edge.bytes});
      sent_bytes[edge.from] += edge.bytes;
    }
    imported.tensors[tensor->second].consumers.push_back(edge.to);
  }
  for (std::size_t i = 0; i < piper.nodes.size(); ++i) {
    const std::vector<PiperConfig>& configs = piper.nodes[i].configs.at(1);
    const PiperConfig& plain = configs.front();
    const double forward_s = forward_seconds(configs);
    const std::string& label = piper.nodes[i].name;
    imported.ops.push_back(
        {.name = label.empty() ? fmt::format("node{}", i) : fmt::format("{}.{}", label, i),
         .forward_s = forward_s,
         .backward_s = plain.seconds - forward_s,
         .saved_bytes = std::max(0.0, plain.memory_a - sent_bytes[i]),
         .params_bytes = plain.parameter_bytes,
         .fixed_bytes = std::max(0.0, plain.memory_b - 2 * plain.parameter_bytes)});
  }
  return opaque_graph(imported, file);
}

}  // namespace graphpipe
