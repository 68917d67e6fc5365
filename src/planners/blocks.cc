#include "planners/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "base/text.h"
#include "graph/order.h"
#include "planners/downsets.h"

namespace graphpipe {
namespace {

// Blocks of which each operator knows its own, in running order (ties: the smallest operator).
Blocks make_blocks(const Graph& graph, const std::vector<int>& block_of, int count) {
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::vector<OpId>> ops(n);
  for (std::size_t i = 0; i < block_of.size(); ++i) {
    ops[static_cast<std::size_t>(block_of[i])].emplace_back(i);
  }
  std::vector<std::set<int>> next(n);
  const auto before = op_predecessors(graph);
  std::vector<int> waits(n, 0);
  for (std::size_t i = 0; i < block_of.size(); ++i) {
    for (const OpId p : before[i]) {
      const int from = block_of[p.index()];
      if (from != block_of[i] && next[static_cast<std::size_t>(from)].insert(block_of[i]).second) {
        ++waits[static_cast<std::size_t>(block_of[i])];
      }
    }
  }
  using Entry = std::pair<OpId, int>;
  const auto later = [](const Entry& a, const Entry& b) { return b.first < a.first; };
  std::priority_queue<Entry, std::vector<Entry>, decltype(later)> ready(later);
  for (std::size_t b = 0; b < n; ++b) {
    if (waits[b] == 0) ready.emplace(ops[b].front(), static_cast<int>(b));
  }
  Blocks blocks;
  std::vector<int> place(n, 0);
  while (!ready.empty()) {
    const auto b = static_cast<std::size_t>(ready.top().second);
    ready.pop();
    place[b] = static_cast<int>(blocks.ops.size());
    blocks.ops.push_back(ops[b]);
    for (const int s : next[b]) {
      if (--waits[static_cast<std::size_t>(s)] == 0) {
        ready.emplace(ops[static_cast<std::size_t>(s)].front(), s);
      }
    }
  }
  blocks.successors.resize(n);
  for (std::size_t b = 0; b < n; ++b) {
    std::vector<int>& successors = blocks.successors[static_cast<std::size_t>(place[b])];
    for (const int s : next[b]) successors.push_back(place[static_cast<std::size_t>(s)]);
    std::ranges::sort(successors);
  }
  const std::vector<bool> needs = needs_gradient(graph);
  const auto readers = consumers(graph);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const OpId producer = graph.tensors[t].producer;
    if (!producer.valid()) continue;
    const int from = place[static_cast<std::size_t>(block_of[producer.index()])];
    std::set<int> to;
    for (const OpId reader : readers[t]) {
      to.insert(place[static_cast<std::size_t>(block_of[reader.index()])]);
    }
    to.erase(from);
    if (!to.empty())
      blocks.tensors.push_back({TensorId(t), from, {to.begin(), to.end()}, needs[t]});
  }
  return blocks;
}

// Contracts a graph edge by edge.
class Contraction {
 public:
  Contraction(const Graph& graph, const std::vector<double>& weight)
      : weight_(weight), next_(weight.size()), before_(weight.size()) {
    const auto predecessors = op_predecessors(graph);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      parent_.push_back(i);
      for (const OpId p : predecessors[i]) {
        next_[p.index()].insert(i);
        before_[i].insert(p.index());
      }
    }
  }

  // The lightest edge that may go; false: none.
  bool contract_one(double most_weight) {
    std::vector<std::pair<double, std::pair<std::size_t, std::size_t>>> edges;
    for (std::size_t u = 0; u < next_.size(); ++u) {
      for (const std::size_t v : next_[u]) {
        if (weight_[u] + weight_[v] <= most_weight) {
          edges.push_back({weight_[u] + weight_[v], {u, v}});
        }
      }
    }
    std::ranges::sort(edges);
    for (const auto& [sum, edge] : edges) {
      if (has_detour(edge.first, edge.second)) continue;
      join(edge.first, edge.second);
      return true;
    }
    return false;
  }

  std::vector<int> block_of(int& count) const {
    std::map<std::size_t, int> numbers;
    std::vector<int> blocks;
    for (std::size_t i = 0; i < parent_.size(); ++i) {
      std::size_t root = i;
      while (parent_[root] != root) root = parent_[root];
      blocks.push_back(numbers.try_emplace(root, static_cast<int>(numbers.size())).first->second);
    }
    count = static_cast<int>(numbers.size());
    return blocks;
  }

 private:
  bool has_detour(std::size_t u, std::size_t v) const {
    if (next_[u].size() == 1 || before_[v].size() == 1) return false;
    std::vector<bool> seen(next_.size(), false);
    std::vector<std::size_t> stack;
    for (const std::size_t w : next_[u]) {
      if (w != v) stack.push_back(w);
    }
    while (!stack.empty()) {
      const std::size_t w = stack.back();
      stack.pop_back();
      if (w == v) return true;
      if (seen[w]) continue;
      seen[w] = true;
      stack.insert(stack.end(), next_[w].begin(), next_[w].end());
    }
    return false;
  }

  // v goes into u.
  void join(std::size_t u, std::size_t v) {
    weight_[u] += weight_[v];
    parent_[v] = u;
    for (const std::size_t w : next_[v]) {
      before_[w].erase(v);
      before_[w].insert(u);
      next_[u].insert(w);
    }
    for (const std::size_t w : before_[v]) {
      next_[w].erase(v);
      if (w == u) continue;
      next_[w].insert(u);
      before_[u].insert(w);
    }
    next_[u].erase(v);
    next_[v].clear();
    before_[v].clear();
  }

  std::vector<double> weight_;
  std::vector<std::set<std::size_t>> next_;
  std::vector<std::set<std::size_t>> before_;
  std::vector<std::size_t> parent_;
};

}  // namespace

Blocks run_blocks(const Graph& graph, const std::vector<double>& weight, double most_weight) {
  std::vector<int> block_of;
  int count = 0;
  double sum = 0;
  for (const double w : weight) {
    if (count == 0 || sum + w > most_weight) {
      ++count;
      sum = 0;
    }
    sum += w;
    block_of.push_back(count - 1);
  }
  return make_blocks(graph, block_of, count);
}

Blocks coarse_blocks(const Graph& graph, const std::vector<double>& weight, double most_weight,
                     std::size_t most_downsets, const std::function<bool()>& should_stop) {
  constexpr int kBetweenCounts = 8;
  Contraction contraction(graph, weight);
  while (true) {
    int count = 0;
    const std::vector<int> block_of = contraction.block_of(count);
    Blocks blocks = make_blocks(graph, block_of, count);
    if (should_stop && should_stop()) return blocks;
    if (Downsets(blocks.successors, most_downsets, should_stop).complete()) return blocks;
    bool any = false;
    for (int i = 0; i < kBetweenCounts; ++i) any = contraction.contract_one(most_weight) || any;
    if (!any) return blocks;
  }
}

std::string too_many_downsets_text(std::size_t most_downsets, const Blocks& blocks) {
  return fmt::format("more than {} downsets of {} blocks, which is the limit",
                     count_text(static_cast<std::int64_t>(most_downsets)), blocks.ops.size());
}

}  // namespace graphpipe
