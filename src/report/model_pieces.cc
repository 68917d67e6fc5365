#include "report/model_pieces.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "graph/series_parallel.h"

namespace graphpipe {
namespace {

// [op]: a number for each branch of the tree's top, and for each stretch of the trunk between.
std::vector<int> branch_of_ops(const Graph& graph, std::set<int>& branches) {
  const SpTree tree = decompose_series_parallel(graph);
  std::vector<int> branch(graph.op_count(), 0);
  int next = 1;  // 0 is the first stretch of trunk
  const auto mark = [&](const std::vector<OpId>& ops, int number) {
    for (const OpId op : ops) branch[op.index()] = number;
  };
  const SpTree::Node& root = tree.node(tree.root);
  const std::vector<int> top =
      root.kind == SpTree::Kind::kSeries ? root.children : std::vector<int>{tree.root};
  int trunk = 0;
  for (const int child : top) {
    const SpTree::Node& node = tree.node(child);
    const auto with_ops =
        std::ranges::count_if(node.children, [&](int c) { return !tree.node(c).ops.empty(); });
    if (node.kind != SpTree::Kind::kParallel || with_ops < 2) {
      mark(node.ops, trunk);
      continue;
    }
    for (const int b : node.children) {
      if (tree.node(b).ops.empty()) continue;
      branches.insert(next);
      mark(tree.node(b).ops, next++);
    }
    trunk = next++;
  }
  return branch;
}

// What all names begin with, up to a dot: "branch0" of "branch0.layer0.fc" and "branch0.norm".
std::string common_name(const std::vector<OpId>& ops, const Graph& graph) {
  std::string common = graph.op(ops.front()).name + ".";
  for (const OpId op : ops) {
    const std::string name = graph.op(op).name + ".";
    const auto [a, b] = std::mismatch(common.begin(), common.end(), name.begin(), name.end());
    common.erase(a, common.end());
  }
  const std::size_t dot = common.rfind('.');
  return dot == std::string::npos ? "" : common.substr(0, dot);
}

}  // namespace

ModelPieces model_pieces(const Plan& plan, const Graph& graph, int most) {
  std::set<int> branches;
  std::vector<int> branch = branch_of_ops(graph, branches);
  std::map<std::pair<std::size_t, int>, std::vector<OpId>> groups;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const OpId op : plan.stages[s].ops) groups[{s, branch[op.index()]}].push_back(op);
  }
  std::map<int, std::vector<OpId>> ops_of_branch;
  for (std::size_t i = 0; i < branch.size(); ++i) ops_of_branch[branch[i]].emplace_back(i);
  if (static_cast<int>(groups.size()) > most) {
    groups.clear();
    for (std::size_t s = 0; s < plan.stages.size(); ++s) groups[{s, 0}] = plan.stages[s].ops;
  }
  ModelPieces result;
  for (const auto& [key, ops] : groups) {
    const bool in_branch = branches.contains(key.second);
    result.pieces.push_back({StageId(key.first),
                             in_branch ? common_name(ops_of_branch.at(key.second), graph) : "",
                             ops});
  }
  std::ranges::stable_sort(result.pieces, [](const ModelPiece& a, const ModelPiece& b) {
    return std::tie(a.stage, a.ops.front()) < std::tie(b.stage, b.ops.front());
  });
  std::vector<int> piece_of(graph.op_count(), -1);
  for (std::size_t p = 0; p < result.pieces.size(); ++p) {
    for (const OpId op : result.pieces[p].ops) piece_of[op.index()] = static_cast<int>(p);
  }
  std::map<std::pair<int, int>, std::set<TensorId>> crossing;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    for (const TensorId input : graph.ops[i].inputs) {
      const OpId producer = graph.tensor(input).producer;
      if (!producer.valid() || piece_of[producer.index()] == piece_of[i]) continue;
      crossing[{piece_of[producer.index()], piece_of[i]}].insert(input);
    }
  }
  for (const auto& [ends, tensors] : crossing) {
    PieceEdge edge{ends.first, ends.second, 0};
    for (const TensorId tensor : tensors) edge.bytes += tensor_bytes(graph.tensor(tensor), 1);
    result.edges.push_back(edge);
  }
  return result;
}

}  // namespace graphpipe
