#include "planners/graphpipe/pieces.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/numbers.h"

namespace graphpipe {
namespace {

// Longer lines are cut more coarsely: the tables over their runs grow with the square.
constexpr int kMostItems = 1024;

class PieceBuilder {
 public:
  PieceBuilder(CostTable& table, const SpTree& tree, bool through_residuals)
      : table_(table),
        graph_(*table.problem().graph),
        tree_(tree),
        through_residuals_(through_residuals) {
    for (const Parameter& param : graph_.params) {
      pieces_.params.push_back(param_memory(param, table.problem().options.optimizer));
    }
    pieces_.param_holders.assign(pieces_.params.size(), 0);
  }

  Pieces build() {
    if (tree_.node(tree_.root).kind != SpTree::Kind::kEmpty) add_line(tree_.root, -1, -1);
    describe_tensors();
    describe_positions();
    return std::move(pieces_);
  }

 private:
  struct Place {
    int line = -1;
    int item = -1;
  };

  int add_line(int node, int parent, int parent_item) {
    const int id = static_cast<int>(pieces_.lines.size());
    pieces_.lines.emplace_back();
    Line line;
    line.parent = parent;
    line.parent_item = parent_item;
    append(node, id, line);
    if (line.size() > kMostItems) line = coarser(line, id);
    line.start.push_back(static_cast<int>(pieces_.positions.size()));
    line.reach.push_back(0);
    for (const Line::Item& item : line.items)
      line.reach.push_back(line.reach.back() + longest(item));
    pieces_.lines[at(id)] = std::move(line);
    return id;
  }

  void append(int node_index, int line_id, Line& line) {
    const SpTree::Node& node = tree_.node(node_index);
    switch (node.kind) {
      case SpTree::Kind::kEmpty:
        return;
      case SpTree::Kind::kOp:
        line.start.push_back(static_cast<int>(pieces_.positions.size()));
        place_of_position_.push_back({line_id, line.size()});
        line.items.push_back({-1, 1});
        pieces_.positions.push_back({node.op, {}, {}, {}});
        return;
      case SpTree::Kind::kSeries:
        for (const int child : node.children) append(child, line_id, line);
        return;
      case SpTree::Kind::kParallel:
        append_parallel(node, line_id, line);
        return;
    }
  }

  // Neighbours that together take no more than an even share of the line become one item.
  Line coarser(const Line& line, int id) {
    const CostTable::Column& column = table_.at(1);
    const auto weight = [&](int i) {
      const std::size_t op = pieces_.positions[at(line.start[at(i)])].op.index();
      return column.forward_s[op] + column.backward_s[op];
    };
    double total = 0;
    for (int i = 0; i < line.size(); ++i) total += line.items[at(i)].parallel < 0 ? weight(i) : 0;
    Line merged;
    merged.parent = line.parent;
    merged.parent_item = line.parent_item;
    double sum = 0;
    for (int i = 0; i < line.size(); ++i) {
      const Line::Item& item = line.items[at(i)];
      const bool is_operator = item.parallel < 0;
      sum += is_operator ? weight(i) : 0;
      const bool joins = is_operator && merged.size() > 0 && merged.items.back().parallel < 0 &&
                         sum <= total / kMostItems;
      if (joins) {
        ++merged.items.back().operators;
      } else {
        merged.items.push_back(item);
        merged.start.push_back(line.start[at(i)]);
        sum = is_operator ? weight(i) : 0;
      }
      const int now = merged.size() - 1;
      if (is_operator) {
        place_of_position_[at(line.start[at(i)])] = {id, now};
        continue;
      }
      for (const int branch : pieces_.parallel(item.parallel).branches) {
        pieces_.lines[at(branch)].parent_item = now;
      }
    }
    return merged;
  }

  // Empty branches cost nothing and impose nothing: another branch is always longer.
  void append_parallel(const SpTree::Node& node, int line_id, Line& line) {
    std::vector<int> branches = node.children;
    std::erase_if(branches, [&](int b) { return tree_.node(b).kind == SpTree::Kind::kEmpty; });
    if (branches.size() == 1 && through_residuals_) return append(branches[0], line_id, line);
    line.start.push_back(static_cast<int>(pieces_.positions.size()));
    const int item = line.size();
    line.items.push_back({static_cast<int>(pieces_.parallels.size()), 0});
    const int parallel = line.items.back().parallel;
    pieces_.parallels.emplace_back();
    for (const int branch : branches) {
      const int id = add_line(branch, line_id, item);
      pieces_.parallels[at(parallel)].branches.push_back(id);
    }
  }

  int longest(const Line::Item& item) const {
    if (item.parallel < 0) return item.operators;
    int most = 0;
    for (const int branch : pieces_.parallel(item.parallel).branches) {
      most = std::max(most, pieces_.line(branch).reach.back());
    }
    return most;
  }

  void describe_tensors() {
    std::vector<int> position_of_op(graph_.op_count(), -1);
    for (std::size_t p = 0; p < pieces_.positions.size(); ++p) {
      position_of_op[pieces_.positions[p].op.index()] = static_cast<int>(p);
    }
    const std::vector<bool> needs = needs_gradient(graph_);
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      TensorSize size;
      const std::int64_t bytes = tensor_bytes(tensor, 1);
      (tensor.batched ? size.per_sample_bytes : size.constant_bytes) = bytes;
      size.gradient = needs[t];
      size.stays = table_.facts().kept[t] || table_.facts().watched[t];
      if (tensor.producer.valid()) size.producer = position_of_op[tensor.producer.index()];
      pieces_.tensors.push_back(size);
    }
  }

  void describe_positions() {
    for (std::size_t p = 0; p < pieces_.positions.size(); ++p) {
      PositionInfo& info = pieces_.positions[p];
      const Operator& op = graph_.op(info.op);
      for (const TensorId out : op.outputs) info.outputs.push_back(out.value);
      for (const ParamId param : op.params) info.params.push_back(param.value);
      std::ranges::sort(info.params);
      const auto repeats = std::ranges::unique(info.params);
      info.params.erase(repeats.begin(), repeats.end());
      for (const int param : info.params) ++pieces_.param_holders[at(param)];
      for (const TensorId in : op.inputs) {
        const bool known = std::ranges::any_of(
            info.inputs, [&](const TensorUse& use) { return use.tensor == in.value; });
        if (known) continue;
        TensorSize& tensor = pieces_.tensors[in.index()];
        const int between =
            tensor.producer < 0 ? 0 : operators_between(tensor.producer, static_cast<int>(p));
        info.inputs.push_back({in.value, between});
        ++tensor.consumers;
        tensor.between += between;
      }
    }
  }

  // On the longest path between two positions, the first before the second.
  int operators_between(int from, int to) const {
    Place a = place_of_position_[at(from)];
    Place b = place_of_position_[at(to)];
    int between = 0;
    const auto leave_a = [&] {
      const Line& line = pieces_.line(a.line);
      between += line.reach.back() - line.reach[at(a.item + 1)];
      a = {line.parent, line.parent_item};
    };
    const auto leave_b = [&] {
      const Line& line = pieces_.line(b.line);
      between += line.reach[at(b.item)];
      b = {line.parent, line.parent_item};
    };
    // A line has a larger number than the one that it is in.
    while (a.line != b.line) a.line > b.line ? leave_a() : leave_b();
    if (a.item == b.item) return between;  // they stay together
    const std::vector<int>& reach = pieces_.line(a.line).reach;
    GP_CHECK(a.item < b.item, "position {} does not come before {}", from, to);
    return between + reach[at(b.item)] - reach[at(a.item + 1)];
  }

  CostTable& table_;
  const Graph& graph_;
  const SpTree& tree_;
  bool through_residuals_;
  Pieces pieces_;
  std::vector<Place> place_of_position_;
};

// Lines with the same text of numbers are equal in structure and in everything that
// stages over them cost, whichever others they are grouped with.
class LineClasses {
 public:
  LineClasses(CostTable& table, Pieces& pieces) : pieces_(pieces) {
    const Graph& graph = *table.problem().graph;
    for (const PositionInfo& info : pieces.positions) {
      op_hash_.push_back(hash_bytes(op_signature(graph, info.op)));
      for (const std::int64_t samples : {std::int64_t{1}, table.problem().mini_batch}) {
        add_costs(op_hash_.back(), table.at(samples), info.op);
      }
    }
  }

  void classify() {
    std::map<std::uint64_t, int> class_of_hash;
    for (int i = 0; i < static_cast<int>(pieces_.lines.size()); ++i) {
      const auto [found, fresh] =
          class_of_hash.try_emplace(line_hash(i), static_cast<int>(pieces_.class_line.size()));
      if (fresh) pieces_.class_line.push_back(i);
      pieces_.lines[at(i)].line_class = found->second;
    }
    for (ParallelPiece& parallel : pieces_.parallels) count_classes(parallel);
  }

 private:
  static void add_costs(std::uint64_t& hash, const CostTable::Column& column, OpId op) {
    const std::size_t i = op.index();
    hash = combine_hash(hash, std::bit_cast<std::uint64_t>(column.forward_s[i]));
    hash = combine_hash(hash, std::bit_cast<std::uint64_t>(column.backward_s[i]));
    hash = combine_hash(hash, static_cast<std::uint64_t>(column.saved_bytes[i]));
    hash = combine_hash(hash, static_cast<std::uint64_t>(column.task[i].worst_bytes));
    hash = combine_hash(hash, static_cast<std::uint64_t>(column.task[i].beside_bytes));
    if (column.recompute_s.empty()) return;
    hash = combine_hash(hash, std::bit_cast<std::uint64_t>(column.recompute_s[i]));
  }

  void add(std::int64_t number) { hash_ = combine_hash(hash_, static_cast<std::uint64_t>(number)); }

  void add_structure(int line_index) {
    const Line& line = pieces_.line(line_index);
    add(line.size());
    for (const Line::Item& item : line.items) {
      add(item.parallel < 0 ? -1
                            : static_cast<int>(pieces_.parallel(item.parallel).branches.size()));
      if (item.parallel < 0) continue;
      for (const int branch : pieces_.parallel(item.parallel).branches) add_structure(branch);
    }
  }

  std::uint64_t line_hash(int line_index) {
    const Line& line = pieces_.line(line_index);
    const Span span = line.span(0, line.size());
    hash_ = 0;
    add_structure(line_index);
    std::map<int, int> readers;  // tensor -> operators of the line that read it
    std::map<int, std::int64_t> between;
    std::map<int, int> holders;  // param -> operators of the line that hold it
    for (int p = span.begin; p < span.end; ++p) {
      for (const TensorUse& use : pieces_.positions[at(p)].inputs) {
        ++readers[use.tensor];
        between[use.tensor] += use.between;
      }
      for (const int param : pieces_.positions[at(p)].params) ++holders[param];
    }
    std::map<int, int> first_use;  // of parameters: their number by first use
    for (int p = span.begin; p < span.end; ++p) {
      const PositionInfo& info = pieces_.positions[at(p)];
      hash_ = combine_hash(hash_, op_hash_[at(p)]);
      for (const TensorUse& use : info.inputs) add_input(use, span, readers[use.tensor]);
      for (const int out : info.outputs) {
        add(tensor(out).gradient ? 1 : 0);
        add(tensor(out).stays ? 1 : 0);
        add(tensor(out).consumers - readers[out]);
        add(tensor(out).between - between[out]);
      }
      for (const int param : info.params) {
        const bool shared = pieces_.param_holders[at(param)] > holders[param];
        const int local =
            first_use.try_emplace(param, static_cast<int>(first_use.size())).first->second;
        add(shared ? -1 - param : local);
        add(pieces_.params[at(param)].weight_bytes);
        add(pieces_.params[at(param)].gradient_bytes);
      }
    }
    return hash_;
  }

  // A tensor that operators outside the line read too is told apart by itself: lines that
  // share one cost less together than lines that do not.
  void add_input(const TensorUse& use, Span span, int readers) {
    const TensorSize& t = tensor(use.tensor);
    const bool inside = t.producer >= span.begin && t.producer < span.end;
    add(use.between);
    add(inside ? t.producer - span.begin : -1 - (t.producer < 0 ? 0 : 1));
    if (inside) return;
    add(t.consumers > readers ? use.tensor : -1);
    add(t.per_sample_bytes);
    add(t.constant_bytes);
    add(t.gradient ? 1 : 0);
  }

  void count_classes(ParallelPiece& parallel) const {
    for (const int branch : parallel.branches) {
      const int line_class = pieces_.line(branch).line_class;
      const auto found = std::ranges::find(parallel.classes, line_class);
      parallel.branch_class.push_back(static_cast<int>(found - parallel.classes.begin()));
      if (found == parallel.classes.end()) {
        parallel.classes.push_back(line_class);
        parallel.class_size.push_back(0);
      }
      ++parallel.class_size[at(parallel.branch_class.back())];
    }
  }

  const TensorSize& tensor(int t) const { return pieces_.tensors[at(t)]; }

  Pieces& pieces_;
  std::vector<std::uint64_t> op_hash_;  // [position]
  std::uint64_t hash_ = 0;
};

}  // namespace

Pieces make_pieces(CostTable& table, const SpTree& tree, bool through_residuals) {
  Pieces pieces = PieceBuilder(table, tree, through_residuals).build();
  LineClasses(table, pieces).classify();
  return pieces;
}

}  // namespace graphpipe
