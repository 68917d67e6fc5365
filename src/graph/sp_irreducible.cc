// What is done where no series or parallel reduction applies: parts that dangle are tied
// in, then the smallest pieces with one entry and one exit are cut in two (sp_cut.cc). Pieces are
// found by dominators: the piece that begins at s ends at the first vertex t that all paths from s
// meet, and it has no other entry exactly when s is the last vertex that all paths to t have met.

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/sp_reduction.h"

namespace graphpipe {

std::vector<int> SpReduction::live_out(int vertex) const {
  std::vector<int> edges;
  for (const int e : vertices_[static_cast<std::size_t>(vertex)].out) {
    if (edges_[static_cast<std::size_t>(e)].live) edges.push_back(e);
  }
  return edges;
}

// Vertices that still have edges, tails before heads.
std::vector<int> SpReduction::topological_order() const {
  std::vector<int> waiting(vertices_.size());
  for (std::size_t v = 0; v < vertices_.size(); ++v) waiting[v] = vertices_[v].in_degree;
  std::vector<int> order = {source()};
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const int e : live_out(order[i])) {
      const int to = edges_[static_cast<std::size_t>(e)].to;
      if (--waiting[static_cast<std::size_t>(to)] == 0) order.push_back(to);
    }
  }
  return order;
}

// forward: the last vertex that all paths from the source to v meet before v; else the
// first that all paths from v to the sink meet after v. Skipped edges do not count.
// After Cooper, Harvey and Kennedy (2001); one pass does, since there are no cycles.
std::vector<int> SpReduction::dominators(const std::vector<int>& order, bool forward,
                                         const std::vector<bool>& skipped) const {
  std::vector<int> position(vertices_.size(), -1);
  std::vector<int> dominator(vertices_.size(), -1);
  const std::size_t n = order.size();
  const auto vertex_at = [&](std::size_t i) { return order[forward ? i : n - 1 - i]; };
  for (std::size_t i = 0; i < n; ++i) {
    position[static_cast<std::size_t>(vertex_at(i))] = static_cast<int>(i);
  }
  for (std::size_t i = 1; i < n; ++i) {
    const int v = vertex_at(i);
    const Vertex& vertex = vertices_[static_cast<std::size_t>(v)];
    int meet = -1;
    for (const int e : forward ? vertex.in : vertex.out) {
      const Edge& edge = edges_[static_cast<std::size_t>(e)];
      if (!edge.live || (!skipped.empty() && skipped[static_cast<std::size_t>(e)])) continue;
      int other = forward ? edge.from : edge.to;
      if (meet < 0) meet = other;
      while (meet != other) {
        int& later =
            position[static_cast<std::size_t>(meet)] > position[static_cast<std::size_t>(other)]
                ? meet
                : other;
        later = dominator[static_cast<std::size_t>(later)];
      }
    }
    dominator[static_cast<std::size_t>(v)] = meet;
  }
  return dominator;
}

bool SpReduction::tie_dangling_parts() {
  std::vector<bool> at_sink(edges_.size());
  std::vector<bool> at_source(edges_.size());
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const Edge& edge = edges_[e];
    if (!edge.live) continue;
    at_sink[e] = edge.to == sink() && edge.from != source() &&
                 vertices_[static_cast<std::size_t>(edge.from)].out_degree > 1;
    at_source[e] = edge.from == source() && edge.to != sink() &&
                   vertices_[static_cast<std::size_t>(edge.to)].in_degree > 1;
  }
  const std::vector<int> order = topological_order();
  const std::vector<int> exit = dominators(order, false, at_sink);
  const std::vector<int> entry = dominators(order, true, at_source);
  bool moved = false;
  for (std::size_t e = 0; e < at_sink.size(); ++e) {
    const Edge edge = edges_[e];
    int from = edge.from;
    int to = edge.to;
    if (at_sink[e]) to = exit[static_cast<std::size_t>(from)];
    if (at_source[e]) from = entry[static_cast<std::size_t>(to)];
    if (from == edge.from && to == edge.to) continue;
    remove_edge(static_cast<int>(e));
    add_edge(from, to, edge.part);
    moved = true;
  }
  return moved;
}

// The vertices strictly between; empty where a smaller piece lies inside. exit_of[v] is
// the end of the piece that begins at v, -1 where none does. `seen` is left as it was.
std::vector<int> SpReduction::interior(int from, int to, const std::vector<int>& exit_of,
                                       std::vector<bool>& seen) const {
  std::vector<int> found;
  bool smallest = true;
  std::vector<int> stack = {from};
  while (smallest && !stack.empty()) {
    const int v = stack.back();
    stack.pop_back();
    for (const int e : live_out(v)) {
      const int next = edges_[static_cast<std::size_t>(e)].to;
      if (next == to || seen[static_cast<std::size_t>(next)]) continue;
      if (exit_of[static_cast<std::size_t>(next)] >= 0) smallest = false;
      seen[static_cast<std::size_t>(next)] = true;
      found.push_back(next);
      stack.push_back(next);
    }
  }
  for (const int v : found) seen[static_cast<std::size_t>(v)] = false;
  if (!smallest) found.clear();
  return found;
}

// The parts of `inside` that hang together without the piece's two ends.
std::vector<std::vector<int>> SpReduction::components(const std::vector<int>& inside,
                                                      std::vector<bool>& waiting) const {
  for (const int v : inside) waiting[static_cast<std::size_t>(v)] = true;
  std::vector<std::vector<int>> result;
  for (const int start : inside) {
    if (!waiting[static_cast<std::size_t>(start)]) continue;
    waiting[static_cast<std::size_t>(start)] = false;
    std::vector<int> component = {start};
    for (std::size_t i = 0; i < component.size(); ++i) {
      const Vertex& vertex = vertices_[static_cast<std::size_t>(component[i])];
      for (const std::vector<int>* edges : {&vertex.in, &vertex.out}) {
        for (const int e : *edges) {
          const Edge& edge = edges_[static_cast<std::size_t>(e)];
          const int other = edges == &vertex.in ? edge.from : edge.to;
          if (!edge.live || !waiting[static_cast<std::size_t>(other)]) continue;
          waiting[static_cast<std::size_t>(other)] = false;
          component.push_back(other);
        }
      }
    }
    result.push_back(std::move(component));
  }
  return result;
}

void SpReduction::cut_smallest_pieces() {
  const std::vector<int> order = topological_order();
  const std::vector<int> exit = dominators(order, false, {});
  const std::vector<int> entry = dominators(order, true, {});
  std::vector<int> exit_of(vertices_.size(), -1);
  for (const int s : order) {
    const int t = exit[static_cast<std::size_t>(s)];
    if (t >= 0 && vertices_[static_cast<std::size_t>(s)].out_degree > 1 &&
        entry[static_cast<std::size_t>(t)] == s) {
      exit_of[static_cast<std::size_t>(s)] = t;
    }
  }
  bool any = false;
  std::vector<bool> marks(vertices_.size());
  for (const int s : order) {
    const int t = exit_of[static_cast<std::size_t>(s)];
    if (t < 0) continue;
    const std::vector<int> inside = interior(s, t, exit_of, marks);
    if (inside.empty()) continue;
    for (const std::vector<int>& component : components(inside, marks)) {
      cut_between(s, t, component);
    }
    any = true;
  }
  GP_CHECK(any, "an irreducible graph has no irreducible piece");
}

}  // namespace graphpipe
