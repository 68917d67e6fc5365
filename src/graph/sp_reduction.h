// The reductions behind series_parallel.h, on a two-terminal multigraph.

#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

// A part of the tree while it is built: at most two children, flattened at the end.
struct SpPart {
  enum class Kind { kOp, kEmpty, kSeries, kParallel };
  Kind kind = Kind::kEmpty;
  OpId op;
  int left = -1;
  int right = -1;
  std::int32_t min_op = INT32_MAX;  // the smallest operator below; none: INT32_MAX
  std::int64_t ops = 0;             // operators below
  double length = 0;                // of the longest path through it
};

// Edges are parts, vertices the moments between them. The graph stays acyclic.
class SpReduction {
 public:
  SpReduction();

  int add_vertex();
  int source() const { return 0; }
  int sink() const { return 1; }
  int add_part(SpPart part);
  void add_edge(int from, int to, int part);

  // Series and parallel reductions until none applies. O((vertices + edges) log edges)
  // over all calls together.
  void reduce();
  bool reduced() const { return live_edges_ == 1; }

  // Moves what dangles: a part that ends at the sink although what else leaves its
  // vertex meets again earlier (a loss in the middle of a branch) is ended there, and
  // likewise for the source. Imposes an order. Returns whether anything moved.
  bool tie_dangling_parts();

  // Cuts every smallest irreducible piece between two vertices in two by a moment that comes
  // after a part of it and before the rest: of all such moments the one that lengthens the longest
  // path least, and of these the one that orders the fewest operators anew. Imposes an order.
  // Requires: no reduction applies.
  void cut_smallest_pieces();

  const std::vector<SpPart>& parts() const { return parts_; }
  int root() const;  // the part of the only edge. Requires: reduced().

 private:
  struct Edge {
    int from = 0;
    int to = 0;
    int part = 0;
    bool live = true;
  };
  struct Vertex {
    std::vector<int> in;  // edges; dead ones are dropped when met
    std::vector<int> out;
    int in_degree = 0;
    int out_degree = 0;
  };

  int series(int left, int right);
  int parallel(int left, int right);
  void remove_edge(int edge);
  int only_live(std::vector<int>& edges);
  std::vector<int> live_out(int vertex) const;
  std::vector<int> topological_order() const;
  std::vector<int> dominators(const std::vector<int>& order, bool forward,
                              const std::vector<bool>& skipped) const;
  std::vector<int> interior(int from, int to, const std::vector<int>& exit_of,
                            std::vector<bool>& seen) const;
  std::vector<std::vector<int>> components(const std::vector<int>& inside,
                                           std::vector<bool>& waiting) const;
  void cut_between(int from, int to, const std::vector<int>& inside);

  std::vector<SpPart> parts_;
  std::vector<Edge> edges_;
  std::vector<Vertex> vertices_;
  std::map<std::pair<int, int>, int> edge_between_;
  std::vector<int> worklist_;
  std::int64_t live_edges_ = 0;
};

}  // namespace graphpipe
