// How an irreducible piece is cut in two: a moment m between its ends, some of its parts before m,
// the rest after it. What lies before has all that it depends on before.
//
//     s --1--> a --3--> t           s --1--> m --3--> t
//     |         \      ^     =>       \--2--^ \--4--^        2 now comes before 3 too
//     \--2--> b --4--/
//
// Parts sorted by when they can start at the earliest, or must at the latest, have only such sets
// as their beginnings; those are tried. Of parts before m the longest path ends with the last to
// end, and of those after it, it begins with the one that has most ahead, so that each beginning's
// length is a sum of two maxima.

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "graph/sp_reduction.h"

namespace graphpipe {
namespace {

// With more parts it is not asked which operators a cut orders anew.
constexpr std::size_t kMostCounted = 1024;

// Lengths nearer than this part are alike.
constexpr double kAlike = 1e-9;

struct CutPart {
  int edge = 0;
  int from = 0;  // vertices by their place in an order in which they can come
  int to = 0;
  double length = 0;
  double ops = 0;
  double head = 0;  // longest path to its start
  double tail = 0;  // longest path from its end
};

// The parts of a piece, and the cuts that are tried.
class Cuts {
 public:
  Cuts(std::vector<CutPart> parts, int vertices) : parts_(std::move(parts)) {
    std::vector<double> head(static_cast<std::size_t>(vertices), 0);
    std::vector<double> tail(static_cast<std::size_t>(vertices), 0);
    std::ranges::stable_sort(parts_, {}, &CutPart::from);
    for (CutPart& part : parts_) {
      part.head = head[at(part.from)];
      head[at(part.to)] = std::max(head[at(part.to)], part.head + part.length);
    }
    for (std::size_t i = parts_.size(); i-- > 0;) {
      CutPart& part = parts_[i];
      part.tail = tail[at(part.to)];
      tail[at(part.from)] = std::max(tail[at(part.from)], part.tail + part.length);
    }
    count_ = parts_.size() <= kMostCounted;
    if (count_) find_followers();
  }

  // Edges of the parts that come before the best moment.
  std::vector<int> best() {
    std::vector<std::size_t> order(parts_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return parts_[i].head; });
    try_beginnings(order);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {},
                             [&](std::size_t i) { return -(parts_[i].length + parts_[i].tail); });
    try_beginnings(order);
    return best_;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  // follows_[i][j]: part j depends on part i.
  void find_followers() {
    std::vector<std::vector<bool>> of_vertex;  // parts that depend on what ends there
    int vertices = 0;
    for (const CutPart& part : parts_) vertices = std::max(vertices, part.to + 1);
    of_vertex.assign(at(vertices), std::vector<bool>(parts_.size()));
    follows_.resize(parts_.size());
    for (std::size_t i = parts_.size(); i-- > 0;) {
      follows_[i] = of_vertex[at(parts_[i].to)];
      std::vector<bool>& before = of_vertex[at(parts_[i].from)];
      for (std::size_t j = 0; j < parts_.size(); ++j) before[j] = before[j] || follows_[i][j];
      before[i] = true;
    }
  }

  void try_beginnings(const std::vector<std::size_t>& order) {
    std::vector<double> ahead(order.size() + 1, 0);  // [k]: of order[k] and all behind it
    for (std::size_t k = order.size(); k-- > 0;) {
      const CutPart& part = parts_[order[k]];
      ahead[k] = std::max(ahead[k + 1], part.length + part.tail);
    }
    double behind = 0;
    double added = 0;
    for (std::size_t k = 0; k + 1 < order.size(); ++k) {
      const CutPart& part = parts_[order[k]];
      behind = std::max(behind, part.head + part.length);
      if (count_) added += newly_ordered(order, k);
      consider(behind + ahead[k + 1], added, order, k + 1);
    }
  }

  // By how many pairs more than without part k, which joins those before the moment.
  double newly_ordered(const std::vector<std::size_t>& order, std::size_t k) const {
    const std::size_t own = order[k];
    double others = 0;
    for (std::size_t i = 0; i < k; ++i) {
      if (!follows_[order[i]][own]) others -= parts_[order[i]].ops;
    }
    for (std::size_t i = k + 1; i < order.size(); ++i) {
      if (!follows_[own][order[i]]) others += parts_[order[i]].ops;
    }
    return others * parts_[own].ops;
  }

  void consider(double length, double added, const std::vector<std::size_t>& order,
                std::size_t count) {
    const double alike = kAlike * best_length_;
    const bool better = best_.empty() || length < best_length_ - alike ||
                        (length <= best_length_ + alike && added < best_added_);
    if (!better) return;
    best_length_ = length;
    best_added_ = added;
    best_.clear();
    for (std::size_t k = 0; k < count; ++k) best_.push_back(parts_[order[k]].edge);
  }

  std::vector<CutPart> parts_;
  std::vector<std::vector<bool>> follows_;
  bool count_ = false;
  double best_length_ = 0;
  double best_added_ = 0;
  std::vector<int> best_;
};

}  // namespace

void SpReduction::cut_between(int from, int to, const std::vector<int>& inside) {
  const auto edge_at = [&](int e) -> const Edge& { return edges_[static_cast<std::size_t>(e)]; };
  std::map<int, int> waiting;  // vertex inside -> parts that lead to it from those not placed
  for (const int v : inside) waiting[v] = vertices_[static_cast<std::size_t>(v)].in_degree;
  std::vector<int> edges;
  for (const int e : live_out(from)) {
    if (waiting.contains(edge_at(e).to)) edges.push_back(e);
  }
  for (const int v : inside) {
    const std::vector<int> out = live_out(v);
    edges.insert(edges.end(), out.begin(), out.end());
  }
  // A part that all the others come after, or before, is cut off already.
  const auto only = [&](int Edge::*end, int vertex) {
    const auto at_end = [&](int e) { return edge_at(e).*end == vertex; };
    const auto first = std::ranges::find_if(edges, at_end);
    return std::ranges::count_if(edges, at_end) == 1 ? first : edges.end();
  };
  for (auto e = only(&Edge::from, from); e != edges.end(); e = only(&Edge::from, from)) {
    from = edge_at(*e).to;
    edges.erase(e);
  }
  for (auto e = only(&Edge::to, to); e != edges.end(); e = only(&Edge::to, to)) {
    to = edge_at(*e).from;
    edges.erase(e);
  }
  // Vertices in an order in which they can come.
  std::map<int, int> place = {{from, 0}};
  std::vector<int> order = {from};
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const int e : edges) {
      const int next = edge_at(e).to;
      if (edge_at(e).from != order[i] || next == to || --waiting.at(next) > 0) continue;
      place[next] = static_cast<int>(order.size());
      order.push_back(next);
    }
  }
  place[to] = static_cast<int>(order.size());
  std::vector<CutPart> parts;
  for (const int e : edges) {
    const Edge& edge = edge_at(e);
    const SpPart& part = parts_[static_cast<std::size_t>(edge.part)];
    parts.push_back(
        {e, place.at(edge.from), place.at(edge.to), part.length, static_cast<double>(part.ops)});
  }
  const std::vector<int> before = Cuts(parts, place.at(to) + 1).best();
  GP_CHECK(!before.empty() && before.size() < edges.size(), "a piece of {} parts is not cut",
           edges.size());

  std::map<int, bool> goes_on;  // vertex -> a part before the moment leaves it
  std::map<int, bool> begun;    // vertex -> a part after the moment enters it
  std::map<int, bool> is_before;
  for (const int e : before) is_before[e] = true;
  for (const int e : edges) {
    const Edge& edge = edge_at(e);
    if (is_before.contains(e)) {
      goes_on[edge.from] = true;
    } else {
      begun[edge.to] = true;
    }
  }
  const int moment = add_vertex();
  std::vector<Edge> moved;
  for (const int e : edges) {
    Edge edge = edge_at(e);
    if (is_before.contains(e)) {
      if (!goes_on.contains(edge.to)) edge.to = moment;
    } else {
      if (!begun.contains(edge.from)) edge.from = moment;
    }
    moved.push_back(edge);
    remove_edge(e);
  }
  for (const Edge& edge : moved) add_edge(edge.from, edge.to, edge.part);
}

}  // namespace graphpipe
