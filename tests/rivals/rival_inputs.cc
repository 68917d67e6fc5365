#include "rivals/rival_inputs.h"

#include <algorithm>
#include <map>

#include "base/file.h"

namespace graphpipe {
namespace {

constexpr std::size_t kMostStates = 100'000;

// Joins operators in a row that each have one predecessor and one successor.
PipedreamProfile with_chains_joined(const PipedreamProfile& profile) {
  const std::size_t n = profile.nodes.size();
  std::vector<std::vector<std::size_t>> next(n), before(n);
  for (const auto& [from, to] : profile.edges) {
    next[from].push_back(to);
    before[to].push_back(from);
  }
  const auto links = [&](std::size_t i) { return before[i].size() == 1 && next[i].size() == 1; };
  PipedreamProfile joined;
  std::vector<std::size_t> place(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (links(i) && links(before[i][0])) continue;  // not the first of its chain
    PipedreamNode sum = profile.nodes[i];
    place[i] = joined.nodes.size();
    for (std::size_t at = i; links(i) && links(next[at][0]);) {
      at = next[at][0];
      place[at] = joined.nodes.size();
      const PipedreamNode& node = profile.nodes[at];
      sum.id += "," + node.id;
      sum.forward_ms += node.forward_ms;
      sum.backward_ms += node.backward_ms;
      sum.parameter_bytes += node.parameter_bytes;
      sum.activation_bytes = node.activation_bytes;
    }
    joined.nodes.push_back(sum);
  }
  for (const auto& [from, to] : profile.edges) {
    if (place[from] != place[to]) joined.edges.emplace_back(place[from], place[to]);
  }
  return joined;
}

}  // namespace

PipedreamProfile recorded_pipedream_profile(const std::string& path, bool chains) {
  const PipedreamProfile profile = without_inputs(parse_pipedream(read_file(path), path));
  return chains ? with_chains_joined(profile) : profile;
}

PipedreamStateSpace pipedream_states(const PipedreamProfile& profile) {
  std::vector<PipedreamOp> ops;
  for (const PipedreamNode& node : profile.nodes) {
    ops.push_back(
        {(node.forward_ms + node.backward_ms) / 1000, node.activation_bytes, node.parameter_bytes});
  }
  std::vector<std::vector<int>> successors(ops.size());
  std::vector<bool> is_source(ops.size(), true);
  for (const auto& [from, to] : profile.edges) {
    successors[from].push_back(static_cast<int>(to));
    is_source[to] = false;
  }
  const auto source = std::ranges::find(is_source, true) - is_source.begin();
  return antichain_states(ops, successors, static_cast<int>(source), kMostStates);
}

PipedreamStateSpace recorded_pipedream_states(const std::string& path, bool chains) {
  return pipedream_states(recorded_pipedream_profile(path, chains));
}

PipedreamPartition recorded_pipedream_partition(const PipedreamStateSpace& space,
                                                const RecordedPipedream& row) {
  return partition_pipedream(space.states, row.levels,
                             {.variant = PipedreamVariant::kCode,
                              .count_activations = row.count_activations,
                              .straight = row.straight,
                              .memory_bytes = row.memory_bytes});
}

PiperInstance recorded_piper_instance(const std::string& path, int devices, double memory_bytes,
                                      double bandwidth_bytes_per_s) {
  const PiperFile file = parse_piper(parse_json(read_file(path), path), path);
  PiperInstance instance;
  instance.devices = devices;
  instance.memory_bytes = memory_bytes > 0 ? memory_bytes : file.memory_bytes;
  instance.bandwidth_bytes_per_s =
      bandwidth_bytes_per_s > 0 ? bandwidth_bytes_per_s : file.bandwidth_bytes_per_s;
  instance.micro_batches = file.micro_batches;
  for (const auto& [degree, configs] : file.nodes.front().configs) {
    const auto has_it = [d = degree](const PiperNode& node) { return node.configs.contains(d); };
    if (std::ranges::all_of(file.nodes, has_it)) instance.degrees.push_back(degree);
  }
  for (const PiperNode& node : file.nodes) {
    std::vector<PiperCost>& costs = instance.ops.emplace_back();
    for (const int degree : instance.degrees) {
      const PiperConfig& plain = node.configs.at(degree).front();
      const PiperConfig& again = node.configs.at(degree).back();
      costs.push_back({plain.seconds, plain.parameter_bytes, plain.memory_a, plain.memory_b,
                       again.seconds, again.memory_a, again.memory_b});
    }
  }
  for (const PiperEdge& edge : file.edges) {
    PiperLink link{static_cast<int>(edge.from), static_cast<int>(edge.to), edge.bytes, {}, {}};
    for (const int degree : instance.degrees) {
      link.to_sync_bytes.push_back(
          file.nodes[edge.to].configs.at(degree).front().sync_fw_bytes.at(edge.from));
      link.from_sync_bytes.push_back(
          file.nodes[edge.from].configs.at(degree).front().sync_bw_bytes.at(edge.to));
    }
    instance.links.push_back(std::move(link));
  }
  return instance;
}

MaxLoadInstance recorded_max_load_instance(const std::string& path, double edge_seconds_per_unit) {
  const DnnFile file =
      parse_dnn_partitioning(parse_json(read_file(path), path), path, edge_seconds_per_unit);
  MaxLoadInstance instance;
  instance.accelerators = file.accelerators;
  instance.cpus = file.cpus;
  instance.accelerator_bytes = file.accelerator_bytes;
  std::vector<int> group_of(file.nodes.size());
  for (const DnnGroup& group : dnn_groups(file)) {
    MaxLoadOp op;
    for (const std::size_t i : group.nodes) {
      group_of[i] = static_cast<int>(instance.ops.size());
      op.accelerator_s += file.nodes[i].accelerator_s;
      op.cpu_s += file.nodes[i].cpu_s;
      op.bytes += file.nodes[i].bytes;
      op.on_accelerator = op.on_accelerator && file.nodes[i].on_accelerator;
    }
    instance.ops.push_back(op);
    std::vector<int>& successors = instance.successors.emplace_back();
    for (const std::size_t s : group.successors) successors.push_back(static_cast<int>(s));
  }
  std::map<std::size_t, MaxLoadTensor> tensors;  // by source
  for (const DnnEdge& edge : file.edges) {
    MaxLoadTensor& tensor = tensors[edge.from];
    tensor.seconds = edge.seconds;
    for (const std::size_t end : {edge.from, edge.to}) {
      if (std::ranges::find(tensor.ops, group_of[end]) == tensor.ops.end()) {
        tensor.ops.push_back(group_of[end]);
      }
    }
  }
  for (auto& [source, tensor] : tensors) {
    if (tensor.ops.size() > 1) instance.tensors.push_back(std::move(tensor));
  }
  return instance;
}

}  // namespace graphpipe
