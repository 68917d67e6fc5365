#include "graph/series_parallel.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/order.h"
#include "graph/sp_reduction.h"

namespace graphpipe {
namespace {

using Lists = std::vector<std::vector<OpId>>;

Lists reversed(const Lists& successors) {
  Lists predecessors(successors.size());
  for (std::size_t u = 0; u < successors.size(); ++u) {
    for (const OpId v : successors[u]) predecessors[v.index()].emplace_back(u);
  }
  return predecessors;
}

// Without the dependencies that others imply.
Lists transitive_reduction(const Graph& graph, const Lists& successors) {
  const Reachability reach(graph);
  Lists reduced(successors.size());
  for (std::size_t u = 0; u < successors.size(); ++u) {
    for (const OpId v : successors[u]) {
      // Only a smaller successor can reach v, and if any does, one that is kept does.
      const bool implied =
          std::ranges::any_of(reduced[u], [&](OpId between) { return reach.reaches(between, v); });
      if (!implied) reduced[u].push_back(v);
    }
  }
  return reduced;
}

// Operators {a, b} that all have just the successors {c, d}, which have no other
// predecessors, meet in one moment: everything in the first group before everything in
// the second. Left as four edges, that would not reduce.
//
//     a ---> c            a         c
//       \  /                \     /
//        \/         =>        moment
//       /  \                /     \      .
//     b ---> d            b         d
class Moments {
 public:
  Moments(const Lists& successors, const Lists& predecessors, SpReduction& reduction) {
    std::map<std::vector<OpId>, std::vector<OpId>> by_successors;
    for (std::size_t u = 0; u < successors.size(); ++u) {
      if (successors[u].size() > 1) by_successors[successors[u]].emplace_back(u);
    }
    moment_after_.assign(successors.size(), -1);
    for (const auto& [after, before] : by_successors) {
      const bool complete = before.size() > 1 && std::ranges::all_of(after, [&](OpId v) {
                              return predecessors[v.index()] == before;
                            });
      if (!complete) continue;
      const int moment = reduction.add_vertex();
      for (const OpId u : before) moment_after_[u.index()] = moment;
      for (const OpId v : after) reduction.add_edge(moment, entry(v), reduction.add_part({}));
    }
  }
  // The moment that stands in for all successors of the operator; -1: none.
  int after(std::size_t op) const { return moment_after_[op]; }

  static int entry(OpId op) { return 2 + 2 * op.value; }
  static int exit(OpId op) { return 3 + 2 * op.value; }

 private:
  std::vector<int> moment_after_;
};

SpReduction two_terminal_graph(const Lists& successors, const std::vector<double>& weight) {
  SpReduction reduction;
  const Lists predecessors = reversed(successors);
  for (std::size_t u = 0; u < successors.size(); ++u) {
    GP_CHECK(reduction.add_vertex() == Moments::entry(OpId(u)), "vertices out of step");
    reduction.add_vertex();
  }
  const Moments moments(successors, predecessors, reduction);
  if (successors.empty()) {
    reduction.add_edge(reduction.source(), reduction.sink(), reduction.add_part({}));
  }
  const auto add_empty = [&](int from, int to) {
    reduction.add_edge(from, to, reduction.add_part({}));
  };
  for (std::size_t u = 0; u < successors.size(); ++u) {
    const OpId op(u);
    const int part = reduction.add_part({SpPart::Kind::kOp, op, -1, -1, op.value, 1, weight[u]});
    reduction.add_edge(Moments::entry(op), Moments::exit(op), part);
    if (predecessors[u].empty()) add_empty(reduction.source(), Moments::entry(op));
    if (successors[u].empty()) add_empty(Moments::exit(op), reduction.sink());
    if (moments.after(u) >= 0) {
      add_empty(Moments::exit(op), moments.after(u));
      continue;
    }
    for (const OpId v : successors[u]) add_empty(Moments::exit(op), Moments::entry(v));
  }
  reduction.reduce();
  return reduction;
}

// Makes the tree of the parts: nested series and parallels of two become flat ones.
// Nodes are numbered children first. No recursion: a chain of 10,000 operators is a part
// 10,000 deep.
class TreeBuilder {
 public:
  explicit TreeBuilder(const std::vector<SpPart>& parts) : parts_(parts) {}

  SpTree build(int root) {
    struct Frame {
      int part;
      std::vector<int> child_parts;
      std::vector<int> child_nodes;
    };
    std::vector<Frame> stack;
    stack.push_back({root, child_parts(root), {}});
    while (true) {
      Frame& top = stack.back();
      if (top.child_nodes.size() < top.child_parts.size()) {
        const int next = top.child_parts[top.child_nodes.size()];
        stack.push_back({next, child_parts(next), {}});
        continue;
      }
      const int node = add_node(top.part, std::move(top.child_nodes));
      stack.pop_back();
      if (stack.empty()) {
        tree_.root = node;
        return std::move(tree_);
      }
      stack.back().child_nodes.push_back(node);
    }
  }

 private:
  const SpPart& part(int i) const { return parts_[static_cast<std::size_t>(i)]; }

  bool composite(int i) const {
    return part(i).kind == SpPart::Kind::kSeries || part(i).kind == SpPart::Kind::kParallel;
  }

  // The nearest descendants of another kind, in order.
  std::vector<int> child_parts(int root) const {
    std::vector<int> children;
    if (!composite(root)) return children;
    std::vector<int> stack = {root};
    while (!stack.empty()) {
      const int i = stack.back();
      stack.pop_back();
      if (part(i).kind == part(root).kind) {
        stack.push_back(part(i).right);
        stack.push_back(part(i).left);
      } else {
        children.push_back(i);
      }
    }
    if (part(root).kind == SpPart::Kind::kParallel) arrange_branches(children);
    return children;
  }

  // By smallest operator; of several empty branches one is left, at the end.
  void arrange_branches(std::vector<int>& children) const {
    std::ranges::stable_sort(children, {}, [&](int i) { return part(i).min_op; });
    const auto is_empty = [&](int i) { return part(i).kind == SpPart::Kind::kEmpty; };
    const auto first_empty = std::ranges::find_if(children, is_empty);
    if (first_empty != children.end()) children.erase(first_empty + 1, children.end());
  }

  int add_node(int i, std::vector<int> children) {
    SpTree::Node node;
    switch (part(i).kind) {
      case SpPart::Kind::kOp:
        node.kind = SpTree::Kind::kOp;
        node.op = part(i).op;
        node.ops = {node.op};
        break;
      case SpPart::Kind::kEmpty:
        node.kind = SpTree::Kind::kEmpty;
        break;
      case SpPart::Kind::kSeries:
        node.kind = SpTree::Kind::kSeries;
        break;
      case SpPart::Kind::kParallel:
        node.kind = SpTree::Kind::kParallel;
        break;
    }
    for (const int child : children) {
      const std::vector<OpId>& ops = tree_.node(child).ops;
      node.ops.insert(node.ops.end(), ops.begin(), ops.end());
    }
    std::ranges::sort(node.ops);
    node.children = std::move(children);
    tree_.nodes.push_back(std::move(node));
    return static_cast<int>(tree_.nodes.size()) - 1;
  }

  const std::vector<SpPart>& parts_;
  SpTree tree_;
};

// Pairs of operators that the tree orders: in a series, each child before the next.
std::int64_t ordered_pairs(const SpTree& tree) {
  std::int64_t pairs = 0;
  for (const SpTree::Node& node : tree.nodes) {
    if (node.kind != SpTree::Kind::kSeries) continue;
    std::int64_t before = 0;
    for (const int child : node.children) {
      const auto here = static_cast<std::int64_t>(tree.node(child).ops.size());
      pairs += before * here;
      before += here;
    }
  }
  return pairs;
}

std::int64_t ordered_pairs(const Graph& graph) {
  const Reachability reach(graph);
  std::int64_t pairs = 0;
  for (std::size_t u = 0; u < graph.op_count(); ++u) {
    for (std::size_t v = u + 1; v < graph.op_count(); ++v) {
      if (reach.reaches(OpId(u), OpId(v))) ++pairs;
    }
  }
  return pairs;
}

// Forward FLOPs, and one more for operators that have none.
std::vector<double> weights(const Graph& graph) {
  std::vector<double> weight;
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    weight.push_back(1 + forward_flops_per_sample(graph, OpId(o)));
  }
  return weight;
}

double longest_path(const Lists& successors, const std::vector<double>& weight) {
  std::vector<double> before(weight.size(), 0);
  double longest = 0;
  for (std::size_t u = 0; u < weight.size(); ++u) {
    const double here = before[u] + weight[u];
    longest = std::max(longest, here);
    for (const OpId v : successors[u]) before[v.index()] = std::max(before[v.index()], here);
  }
  return longest;
}

void append_text(const SpTree& tree, const Graph& graph, int i, std::string& text) {
  const SpTree::Node& node = tree.node(i);
  if (node.kind == SpTree::Kind::kEmpty) text += "-";
  if (node.kind == SpTree::Kind::kOp) text += graph.op(node.op).name;
  if (node.children.empty()) return;
  text += node.kind == SpTree::Kind::kSeries ? "S(" : "P(";
  for (std::size_t k = 0; k < node.children.size(); ++k) {
    if (k > 0) text += " ";
    append_text(tree, graph, node.children[k], text);
  }
  text += ")";
}

}  // namespace

SpTree decompose_series_parallel(const Graph& graph) {
  const Lists successors = op_successors(graph);
  const std::vector<double> weight = weights(graph);
  SpReduction reduction = two_terminal_graph(successors, weight);
  bool exact = reduction.reduced();
  if (!exact) {
    reduction = two_terminal_graph(transitive_reduction(graph, successors), weight);
    exact = reduction.reduced();
  }
  while (!reduction.reduced()) {
    if (!reduction.tie_dangling_parts()) reduction.cut_smallest_pieces();
    reduction.reduce();
  }
  SpTree tree = TreeBuilder(reduction.parts()).build(reduction.root());
  tree.exact = exact;
  if (!exact) {
    tree.added_order = ordered_pairs(tree) - ordered_pairs(graph);
    const double length = reduction.parts()[static_cast<std::size_t>(reduction.root())].length;
    tree.stretch = std::max(0.0, length / longest_path(successors, weight) - 1);
  }
  return tree;
}

std::string to_text(const SpTree& tree, const Graph& graph) {
  std::string text;
  append_text(tree, graph, tree.root, text);
  return text;
}

int branch_count(const SpTree& tree) {
  std::size_t widest = 1;
  for (const SpTree::Node& node : tree.nodes) {
    if (node.kind != SpTree::Kind::kParallel) continue;
    const auto branches = std::ranges::count_if(
        node.children, [&](int child) { return tree.node(child).kind != SpTree::Kind::kEmpty; });
    widest = std::max(widest, static_cast<std::size_t>(branches));
  }
  return static_cast<int>(widest);
}

}  // namespace graphpipe
