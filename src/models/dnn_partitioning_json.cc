#include "models/dnn_partitioning_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "models/imported_graph.h"

namespace graphpipe {
namespace {

constexpr double kMsPerS = 1e3;
constexpr std::int64_t kMostDevices = 1 << 20;

// 0 and 1 stand for false and true.
bool flag(const JsonReader& json) {
  if (json.value().is_boolean()) return json.boolean();
  const std::int64_t value = json.integer();
  if (value != 0 && value != 1) json.fail(fmt::format("expected 0 or 1, found {}", value));
  return value == 1;
}

int device_count(const JsonReader& json, std::int64_t least) {
  const std::int64_t n = json.integer_at_least(least);
  if (n > kMostDevices) json.fail(fmt::format("expected at most {}, found {}", kMostDevices, n));
  return static_cast<int>(n);
}

DnnNode read_node(const JsonReader& json) {
  DnnNode node;
  if (json.has("name")) node.name = json["name"].string();
  node.accelerator_s = figure(json["fpgaLatency"], kMostImportedSeconds * kMsPerS) / kMsPerS;
  node.cpu_s = figure(json["cpuLatency"], kMostImportedSeconds * kMsPerS) / kMsPerS;
  node.on_accelerator = flag(json["supportedOnFpga"]);
  node.backward = flag(json["isBackwardNode"]);
  if (json.has("colorClass")) node.color_class = json["colorClass"].integer_at_least(0);
  if (json.has("size")) node.bytes = figure(json["size"], kMostImportedFigure);
  return node;
}

// Sets that are joined, each named by its smallest member.
class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

using Adjacency = std::vector<std::vector<std::size_t>>;

// Tarjan's strongly connected components, without recursion: component_of[node].
std::vector<std::size_t> strong_components(const Adjacency& next) {
  constexpr std::size_t kNone = SIZE_MAX;
  const std::size_t n = next.size();
  std::vector<std::size_t> number(n, kNone), low(n, 0), component(n, kNone), place(n, 0);
  std::vector<std::size_t> stack, path;
  std::size_t numbers = 0;
  std::size_t components = 0;
  for (std::size_t root = 0; root < n; ++root) {
    if (number[root] != kNone) continue;
    path.push_back(root);
    while (!path.empty()) {
      const std::size_t v = path.back();
      if (number[v] == kNone) {
        number[v] = low[v] = numbers++;
        stack.push_back(v);
      }
      if (place[v] < next[v].size()) {
        const std::size_t w = next[v][place[v]++];
        if (number[w] == kNone) {
          path.push_back(w);
        } else if (component[w] == kNone) {
          low[v] = std::min(low[v], number[w]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[v]);
      if (low[v] != number[v]) continue;
      while (true) {
        const std::size_t w = stack.back();
        stack.pop_back();
        component[w] = components;
        if (w == v) break;
      }
      ++components;
    }
  }
  return component;
}

// Of groups, by their names; edges between the members of one are left out.
std::vector<std::set<std::size_t>> group_edges(const Adjacency& next, Sets& sets) {
  std::vector<std::set<std::size_t>> edges(next.size());
  for (std::size_t i = 0; i < next.size(); ++i) {
    for (const std::size_t j : next[i]) {
      if (sets.find(i) != sets.find(j)) edges[sets.find(i)].insert(sets.find(j));
    }
  }
  return edges;
}

// Joins the groups of no forward time that have one neighbour with it: cutting there gains nothing.
// Whether there were any.
bool fold_idle(const DnnFile& file, const Adjacency& next, Sets& sets) {
  const std::vector<std::set<std::size_t>> edges = group_edges(next, sets);
  std::vector<std::set<std::size_t>> neighbours = edges;
  std::vector<double> forward_s(next.size(), 0);
  for (std::size_t i = 0; i < next.size(); ++i) {
    for (const std::size_t j : edges[i]) neighbours[j].insert(i);
    if (!file.nodes[i].backward) forward_s[sets.find(i)] += file.nodes[i].accelerator_s;
  }
  bool any = false;
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (sets.find(i) != i || forward_s[i] > 0 || neighbours[i].size() != 1) continue;
    sets.join(i, *neighbours[i].begin());
    any = true;
  }
  return any;
}

std::vector<DnnGroup> collect_groups(const Adjacency& next, Sets& sets) {
  std::map<std::size_t, std::size_t> place;  // by name, in the order of the file
  std::vector<DnnGroup> groups;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const auto [group, fresh] = place.try_emplace(sets.find(i), groups.size());
    if (fresh) groups.emplace_back();
    groups[group->second].nodes.push_back(i);
  }
  const std::vector<std::set<std::size_t>> edges = group_edges(next, sets);
  for (const auto& [name, group] : place) {
    for (const std::size_t to : edges[name]) groups[group].successors.push_back(place.at(to));
    std::ranges::sort(groups[group].successors);
  }
  return groups;
}

}  // namespace

bool is_dnn_partitioning(const Json& document) { return document.contains("maxFPGAs"); }

DnnFile parse_dnn_partitioning(const Json& document, const std::string& file,
                               double edge_seconds_per_unit) {
  const JsonReader json(document, file);
  DnnFile dnn;
  dnn.accelerator_bytes = figure(json["maxSizePerFPGA"], 1e18);
  dnn.accelerators = device_count(json["maxFPGAs"], 1);
  dnn.cpus = device_count(json["maxCPUs"], 0);
  const std::vector<JsonReader> nodes = json["nodes"].items();
  const std::vector<JsonReader> edges = json["edges"].items();
  if (nodes.empty()) json["nodes"].fail("expected a node, found none");
  if (nodes.size() > kMostImportedNodes || edges.size() > kMostImportedEdges) {
    json.fail(fmt::format("{} nodes and {} edges, expected at most {} and {}", nodes.size(),
                          edges.size(), kMostImportedNodes, kMostImportedEdges));
  }
  std::map<std::int64_t, std::size_t> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::int64_t id = nodes[i]["id"].integer();
    if (!places.try_emplace(id, i).second) {
      nodes[i]["id"].fail(fmt::format("{} is the id of an earlier node too", id));
    }
    dnn.nodes.push_back(read_node(nodes[i]));
  }
  const auto place = [&](const JsonReader& id) {
    const auto found = places.find(id.integer());
    if (found == places.end()) id.fail(fmt::format("there is no node {}", id.integer()));
    return found->second;
  };
  std::map<std::size_t, double> cost_of;
  for (const JsonReader& item : edges) {
    const DnnEdge edge{place(item["sourceId"]), place(item["destId"]),
                       figure(item["cost"], kMostImportedSeconds) * edge_seconds_per_unit};
    const auto [known, fresh] = cost_of.try_emplace(edge.from, edge.seconds);
    if (!fresh && known->second != edge.seconds) {
      item["cost"].fail("another cost than an earlier edge of the same source has");
    }
    dnn.edges.push_back(edge);
  }
  return dnn;
}

std::vector<DnnGroup> dnn_groups(const DnnFile& file) {
  const std::size_t n = file.nodes.size();
  // A forward and a backward part of one class are one device's, so one group from the start.
  Sets sets(n);
  std::map<std::int64_t, std::size_t> first;
  for (std::size_t i = 0; i < n; ++i) {
    if (file.nodes[i].color_class < 0) continue;
    const auto [known, fresh] = first.try_emplace(file.nodes[i].color_class, i);
    if (!fresh) sets.join(known->second, i);
  }
  std::vector<bool> has_forward(n, false);
  for (std::size_t i = 0; i < n; ++i) {
    if (!file.nodes[i].backward) has_forward[sets.find(i)] = true;
  }
  Adjacency next(n);
  for (const DnnEdge& edge : file.edges) {
    const std::size_t a = sets.find(edge.from);
    const std::size_t b = sets.find(edge.to);
    if (a == b) continue;
    const bool backward = file.nodes[edge.from].backward && file.nodes[edge.to].backward;
    if (!file.nodes[edge.from].backward && !file.nodes[edge.to].backward) next[a].push_back(b);
    if (backward && (!has_forward[a] || !has_forward[b])) next[b].push_back(a);
  }
  const std::vector<std::size_t> component = strong_components(next);
  std::map<std::size_t, std::size_t> first_of;
  for (std::size_t i = 0; i < n; ++i) {
    const auto [known, fresh] = first_of.try_emplace(component[sets.find(i)], i);
    if (!fresh) sets.join(known->second, i);
  }
  fold_idle(file, next, sets);
  return collect_groups(next, sets);
}

Graph dnn_graph(const DnnFile& dnn, const std::string& name, const std::string& file) {
  const std::vector<DnnGroup> groups = dnn_groups(dnn);
  std::vector<std::size_t> group_of(dnn.nodes.size());
  ImportedGraph imported;
  imported.name = name;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    ImportedOp op;
    for (const std::size_t i : groups[g].nodes) {
      const DnnNode& node = dnn.nodes[i];
      group_of[i] = g;
      (node.backward ? op.backward_s : op.forward_s) += node.accelerator_s;
      op.fixed_bytes += node.bytes;
    }
    const std::string& label = dnn.nodes[groups[g].nodes.front()].name;
    op.name = label.empty() ? fmt::format("node{}", g) : fmt::format("{}.{}", label, g);
    imported.ops.push_back(std::move(op));
  }
  // Forward outputs with those who read them in another group; edges that only order (mirrored
  // ones) carry one number.
  std::map<std::size_t, std::size_t> tensor_of;
  std::set<std::pair<std::size_t, std::size_t>> joined;
  for (const DnnEdge& edge : dnn.edges) {
    if (dnn.nodes[edge.from].backward || dnn.nodes[edge.to].backward) continue;
    const std::size_t from = group_of[edge.from];
    const std::size_t to = group_of[edge.to];
    if (from == to) continue;
    const auto [tensor, fresh] = tensor_of.try_emplace(edge.from, imported.tensors.size());
    if (fresh) imported.tensors.push_back({from, {}, edge.seconds * kDnnLinkBytesPerS});
    std::vector<std::size_t>& readers = imported.tensors[tensor->second].consumers;
    if (std::ranges::find(readers, to) == readers.end()) readers.push_back(to);
    joined.emplace(from, to);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t to : groups[g].successors) {
      if (!joined.contains({g, to})) imported.tensors.push_back({g, {to}, 0});
    }
  }
  return opaque_graph(imported, file);
}

}  // namespace graphpipe
