#include "graph/order.h"

#include <algorithm>

namespace graphpipe {

std::vector<std::vector<OpId>> op_predecessors(const Graph& graph) {
  std::vector<std::vector<OpId>> before(graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const TensorId input : graph.ops[i].inputs) {
      const OpId producer = graph.tensor(input).producer;
      if (producer.valid()) before[i].push_back(producer);
    }
    std::sort(before[i].begin(), before[i].end());
    before[i].erase(std::unique(before[i].begin(), before[i].end()), before[i].end());
  }
  return before;
}

std::vector<std::vector<OpId>> op_successors(const Graph& graph) {
  const std::vector<std::vector<OpId>> before = op_predecessors(graph);
  std::vector<std::vector<OpId>> after(graph.ops.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (const OpId op : before[i]) after[op.index()].push_back(OpId(i));
  }
  return after;
}

Reachability::Reachability(const Graph& graph)
    : words_((graph.ops.size() + 63) / 64), bits_(graph.ops.size() * words_, 0) {
  const std::vector<std::vector<OpId>> after = op_successors(graph);
  for (std::size_t from = after.size(); from-- > 0;) {  // successors have larger ids (G5)
    std::uint64_t* row = &bits_[from * words_];
    for (const OpId next : after[from]) {
      const std::uint64_t* reached = &bits_[next.index() * words_];
      for (std::size_t w = 0; w < words_; ++w) row[w] |= reached[w];
      row[next.index() / 64] |= std::uint64_t{1} << (next.index() % 64);
    }
  }
}

bool is_convex(const Graph& graph, const std::vector<OpId>& ops) {
  std::vector<bool> inside(graph.ops.size(), false);
  for (const OpId op : ops) inside[op.index()] = true;
  std::vector<bool> left(graph.ops.size(), false);  // outside, after an operator of the set
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const TensorId input : graph.ops[i].inputs) {
      const OpId producer = graph.tensor(input).producer;
      if (!producer.valid()) continue;
      if (left[producer.index()] && inside[i]) return false;
      if (left[producer.index()] || (inside[producer.index()] && !inside[i])) left[i] = true;
    }
  }
  return true;
}

}  // namespace graphpipe
