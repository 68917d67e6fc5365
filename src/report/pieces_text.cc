#include <fmt/format.h>

#include "base/text.h"
#include "report/text_report.h"

namespace graphpipe {
namespace {

void add_pieces(const SpTree& tree, const Graph& graph, int node, int indent, std::string& text) {
  const SpTree::Node& n = tree.node(node);
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  const auto span = [&](const std::vector<OpId>& ops) {
    if (ops.empty()) return std::string("(empty: the fork feeds the join)");
    if (ops.size() == 1) return graph.op(ops.front()).name;
    return fmt::format("{} .. {} ({} operators)", graph.op(ops.front()).name,
                       graph.op(ops.back()).name, ops.size());
  };
  switch (n.kind) {
    case SpTree::Kind::kOp:
    case SpTree::Kind::kEmpty:
      text += fmt::format("{}{}\n", pad, span(n.ops));
      return;
    case SpTree::Kind::kParallel:
      text += fmt::format("{}{} branches\n", pad, n.children.size());
      for (const int child : n.children) {
        text += fmt::format("{}  | {}\n", pad, span(tree.node(child).ops));
      }
      return;
    case SpTree::Kind::kSeries:
      break;
  }
  std::vector<OpId> run;  // operators in a row share a line
  const auto flush = [&] {
    if (!run.empty()) text += fmt::format("{}{}\n", pad, span(run));
    run.clear();
  };
  for (const int child : n.children) {
    if (tree.node(child).kind == SpTree::Kind::kOp) {
      run.push_back(tree.node(child).op);
      continue;
    }
    flush();
    add_pieces(tree, graph, child, indent, text);
  }
  flush();
}

}  // namespace

std::string pieces_text(const SpTree& tree, const Graph& graph, int indent) {
  std::string text;
  add_pieces(tree, graph, tree.root, indent, text);
  return text;
}

std::string added_order_text(const SpTree& tree) {
  const std::string longer =
      tree.stretch < 5e-4
          ? "leaves its longest path as it is"
          : fmt::format("makes its longest path {:.1f} % longer", 100 * tree.stretch);
  return fmt::format(
      "an order that adds {} pair{} of operators to its dependencies and {} (in forward FLOPs)",
      count_text(tree.added_order), tree.added_order == 1 ? "" : "s", longer);
}

}  // namespace graphpipe
