// Valdes, Tarjan and Lawler, "The recognition of series parallel digraphs", SIAM J.
// Comput. 11 (1982), section 3: a two-terminal graph is series-parallel exactly when
// series and parallel reductions, in any order, leave one edge.

#include "graph/sp_reduction.h"

#include <algorithm>

#include "base/error.h"

namespace graphpipe {

SpReduction::SpReduction() {
  add_vertex();
  add_vertex();
}

int SpReduction::add_vertex() {
  vertices_.emplace_back();
  worklist_.push_back(static_cast<int>(vertices_.size()) - 1);
  return static_cast<int>(vertices_.size()) - 1;
}

int SpReduction::add_part(SpPart part) {
  parts_.push_back(part);
  return static_cast<int>(parts_.size()) - 1;
}

int SpReduction::series(int left, int right) {
  const SpPart& a = parts_[static_cast<std::size_t>(left)];
  const SpPart& b = parts_[static_cast<std::size_t>(right)];
  if (a.kind == SpPart::Kind::kEmpty) return right;
  if (b.kind == SpPart::Kind::kEmpty) return left;
  return add_part({SpPart::Kind::kSeries, OpId(), left, right, std::min(a.min_op, b.min_op),
                   a.ops + b.ops, a.length + b.length});
}

int SpReduction::parallel(int left, int right) {
  const SpPart& a = parts_[static_cast<std::size_t>(left)];
  const SpPart& b = parts_[static_cast<std::size_t>(right)];
  if (a.kind == SpPart::Kind::kEmpty && b.kind == SpPart::Kind::kEmpty) return left;
  return add_part({SpPart::Kind::kParallel, OpId(), left, right, std::min(a.min_op, b.min_op),
                   a.ops + b.ops, std::max(a.length, b.length)});
}

// A second edge between the same vertices is a parallel reduction at once.
void SpReduction::add_edge(int from, int to, int part) {
  const auto [at, fresh] = edge_between_.try_emplace({from, to}, static_cast<int>(edges_.size()));
  if (!fresh) {
    Edge& twin = edges_[static_cast<std::size_t>(at->second)];
    twin.part = parallel(twin.part, part);
    worklist_.push_back(from);
    worklist_.push_back(to);
    return;
  }
  Vertex& tail = vertices_[static_cast<std::size_t>(from)];
  Vertex& head = vertices_[static_cast<std::size_t>(to)];
  tail.out.push_back(at->second);
  head.in.push_back(at->second);
  ++tail.out_degree;
  ++head.in_degree;
  ++live_edges_;
  edges_.push_back({from, to, part, true});
}

void SpReduction::remove_edge(int edge) {
  Edge& e = edges_[static_cast<std::size_t>(edge)];
  e.live = false;
  edge_between_.erase({e.from, e.to});
  --vertices_[static_cast<std::size_t>(e.from)].out_degree;
  --vertices_[static_cast<std::size_t>(e.to)].in_degree;
  --live_edges_;
  worklist_.push_back(e.from);
  worklist_.push_back(e.to);
}

int SpReduction::only_live(std::vector<int>& edges) {
  while (!edges_[static_cast<std::size_t>(edges.back())].live) edges.pop_back();
  return edges.back();
}

void SpReduction::reduce() {
  while (!worklist_.empty()) {
    const int v = worklist_.back();
    worklist_.pop_back();
    Vertex& vertex = vertices_[static_cast<std::size_t>(v)];
    if (v == source() || v == sink() || vertex.in_degree != 1 || vertex.out_degree != 1) continue;
    const int in = only_live(vertex.in);
    const int out = only_live(vertex.out);
    const Edge left = edges_[static_cast<std::size_t>(in)];
    const Edge right = edges_[static_cast<std::size_t>(out)];
    remove_edge(in);
    remove_edge(out);
    add_edge(left.from, right.to, series(left.part, right.part));
  }
}

int SpReduction::root() const {
  GP_CHECK(reduced(), "{} edges are left", live_edges_);
  return edges_[static_cast<std::size_t>(edge_between_.begin()->second)].part;
}

}  // namespace graphpipe
