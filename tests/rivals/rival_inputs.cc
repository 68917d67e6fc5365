#include "rivals/rival_inputs.h"

#include <algorithm>

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

PipedreamStateSpace recorded_pipedream_states(const std::string& path, bool chains) {
  PipedreamProfile profile = without_inputs(parse_pipedream(read_file(path), path));
  if (chains) profile = with_chains_joined(profile);
  std::vector<PipedreamOp> ops;
  for (const PipedreamNode& node : profile.nodes) {
    ops.push_back({(node.forward_ms + node.backward_ms) / 1000, node.activation_bytes,
                   node.parameter_bytes});
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

}  // namespace graphpipe
