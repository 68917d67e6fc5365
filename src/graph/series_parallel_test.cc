#include "graph/series_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/counter_random.h"
#include "graph/builder.h"
#include "graph/order.h"

namespace graphpipe {
namespace {

using Edges = std::vector<std::pair<int, int>>;

// Operators "0" to "n - 1" with these dependencies, all from smaller to larger.
Graph dag(int n, const Edges& edges) {
  GraphBuilder g("dag");
  std::vector<TensorId> outputs;
  for (int op = 0; op < n; ++op) {
    std::vector<TensorId> inputs;
    for (const auto& [from, to] : edges) {
      if (to == op) inputs.push_back(outputs[static_cast<std::size_t>(from)]);
    }
    const std::string name = std::to_string(op);
    if (inputs.empty()) inputs.push_back(g.input("x" + name, {4}));
    outputs.push_back(inputs.size() == 1 ? g.relu(name, inputs[0]) : g.add(name, inputs));
  }
  return std::move(g).build();
}

std::string tree_text(int n, const Edges& edges) {
  const Graph graph = dag(n, edges);
  return to_text(decompose_series_parallel(graph), graph);
}

// The order of operators that a tree imposes, as the last common ancestor has it.
class TreeOrder {
 public:
  explicit TreeOrder(const SpTree& tree) {
    for (const SpTree::Node& node : tree.nodes) {
      if (node.kind != SpTree::Kind::kSeries) continue;
      for (std::size_t i = 0; i < node.children.size(); ++i) {
        for (std::size_t j = i + 1; j < node.children.size(); ++j) {
          for (const OpId a : tree.node(node.children[i]).ops) {
            for (const OpId b : tree.node(node.children[j]).ops) pairs_.push_back({a, b});
          }
        }
      }
    }
    std::ranges::sort(pairs_);
  }
  bool before(OpId a, OpId b) const { return std::ranges::binary_search(pairs_, std::pair{a, b}); }
  std::int64_t pairs() const { return static_cast<std::int64_t>(pairs_.size()); }

 private:
  std::vector<std::pair<OpId, OpId>> pairs_;
};

// What the header promises of any tree; returns what does not hold.
std::string broken_promise(const Graph& graph, const SpTree& tree) {
  std::vector<int> leaves(graph.op_count());
  for (const SpTree::Node& node : tree.nodes) {
    if (node.kind == SpTree::Kind::kOp) ++leaves[node.op.index()];
    std::vector<OpId> below;
    for (const int child : node.children) {
      const SpTree::Node& c = tree.node(child);
      if (c.kind == node.kind) return "a child of its parent's kind";
      below.insert(below.end(), c.ops.begin(), c.ops.end());
    }
    std::ranges::sort(below);
    if (node.kind != SpTree::Kind::kOp && below != node.ops) return "operators of a node";
    if (!node.children.empty() && node.children.size() < 2) return "a node of one child";
  }
  if (std::ranges::any_of(leaves, [](int n) { return n != 1; })) return "leaves";
  if (tree.node(tree.root).ops.size() != graph.op_count()) return "root";
  const TreeOrder order(tree);
  const Reachability reach(graph);
  std::int64_t dependencies = 0;
  for (std::size_t a = 0; a < graph.op_count(); ++a) {
    for (std::size_t b = 0; b < graph.op_count(); ++b) {
      if (!reach.reaches(OpId(a), OpId(b))) continue;
      ++dependencies;
      if (!order.before(OpId(a), OpId(b))) return "a dependency that the tree does not order";
    }
  }
  if (tree.added_order != order.pairs() - dependencies) return "added order";
  if (tree.exact && tree.added_order != 0) return "an exact tree adds order";
  return "";
}

TEST(SeriesParallel, ChainIsOneSeries) {
  EXPECT_EQ(tree_text(4, {{0, 1}, {1, 2}, {2, 3}}), "S(0 1 2 3)");
}

TEST(SeriesParallel, OneOperatorIsALeaf) { EXPECT_EQ(tree_text(1, {}), "0"); }

TEST(SeriesParallel, ResidualHasAnEmptyBranch) {
  EXPECT_EQ(tree_text(4, {{0, 1}, {1, 2}, {0, 3}, {2, 3}}), "S(0 P(S(1 2) -) 3)");
}

TEST(SeriesParallel, BranchesStandByTheirSmallestOperator) {
  // Four inputs, two operators each, one join and a top, as in a multi-modal model.
  EXPECT_EQ(tree_text(10, {{0, 4}, {1, 5}, {2, 6}, {3, 7}, {4, 8}, {5, 8}, {6, 8}, {7, 8}, {8, 9}}),
            "S(P(S(0 4) S(1 5) S(2 6) S(3 7)) 8 9)");
}

TEST(SeriesParallel, SeveralSinksAreParallel) {
  EXPECT_EQ(tree_text(4, {{0, 1}, {1, 2}, {1, 3}}), "S(0 1 P(2 3))");
}

TEST(SeriesParallel, SeparateModelsAreParallel) {
  EXPECT_EQ(tree_text(4, {{0, 1}, {2, 3}}), "P(S(0 1) S(2 3))");
}

TEST(SeriesParallel, PiecesNest) {
  EXPECT_EQ(
      tree_text(
          9,
          {{0, 1}, {0, 2}, {1, 3}, {1, 4}, {3, 5}, {4, 5}, {5, 6}, {2, 6}, {0, 6}, {6, 7}, {6, 8}}),
      "S(0 P(S(1 P(3 4) 5) 2 -) 6 P(7 8))");
}

TEST(SeriesParallel, EveryOperatorOfOneLayerBeforeEveryOneOfTheNextReduces) {
  const Edges edges = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
  EXPECT_EQ(tree_text(4, edges), "S(P(0 1) P(2 3))");
  EXPECT_TRUE(decompose_series_parallel(dag(4, edges)).exact);
}

TEST(SeriesParallel, ImpliedDependenciesDoNotSpoilAReduction) {
  // 0 -> 2 and 1 -> 4 skip, crossing each other.
  const Edges edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 3}, {1, 4}};
  EXPECT_EQ(tree_text(5, edges), "S(0 1 2 3 4)");
  EXPECT_TRUE(decompose_series_parallel(dag(5, edges)).exact);
}

TEST(SeriesParallel, BridgeIsCutBetweenItsTwoLayers) {
  //     1 -> 3
  //    /  \   \         0 and 5 stay outside; 1 2 3 4 is what does not reduce.
  //   0    \   5
  //    \    v /         The graph leaves 1|2, 2|3 and 3|4 unordered.
  //     2 -> 4
  const Graph graph = dag(6, {{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 4}, {3, 5}, {4, 5}});
  const SpTree tree = decompose_series_parallel(graph);
  EXPECT_EQ(to_text(tree, graph), "S(0 P(1 2) P(3 4) 5)");
  EXPECT_FALSE(tree.exact);
  EXPECT_EQ(tree.added_order, 1);  // 2 before 3
  EXPECT_EQ(tree.stretch, 0);
}

TEST(SeriesParallel, OnlyTheSmallestIrreduciblePieceIsCut) {
  // The bridge of above as one of two branches; the other branch stays parallel.
  const Graph graph = dag(
      9, {{0, 1}, {1, 2}, {1, 3}, {2, 4}, {2, 5}, {3, 5}, {4, 6}, {5, 6}, {0, 7}, {6, 8}, {7, 8}});
  EXPECT_EQ(to_text(decompose_series_parallel(graph), graph), "S(0 P(S(1 P(2 3) P(4 5) 6) 7) 8)");
}

TEST(SeriesParallel, TwoPiecesBetweenTheSameEndsStayParallel) {
  // Two bridges between 0 and 9.
  EXPECT_EQ(tree_text(10, {{0, 1},
                           {0, 2},
                           {1, 3},
                           {1, 4},
                           {2, 4},
                           {3, 9},
                           {4, 9},
                           {0, 5},
                           {0, 6},
                           {5, 7},
                           {5, 8},
                           {6, 8},
                           {7, 9},
                           {8, 9}}),
            "S(0 P(S(P(1 2) P(3 4)) S(P(5 6) P(7 8))) 9)");
}

TEST(SeriesParallel, ALossInTheMiddleOfABranchEndsWithTheBranch) {
  // 2 is read by nobody: taken as ending at the sink it would put all in one series.
  const Graph graph = dag(7, {{0, 1}, {1, 2}, {1, 3}, {0, 4}, {3, 5}, {4, 5}, {5, 6}});
  const SpTree tree = decompose_series_parallel(graph);
  EXPECT_EQ(to_text(tree, graph), "S(0 P(S(1 P(2 3)) 4) 5 6)");
  EXPECT_FALSE(tree.exact);
  EXPECT_EQ(tree.added_order, 2);  // 2 before 5 and 6
}

TEST(SeriesParallel, LooseEndsOfSeparatePiecesAreTiedIn) {
  EXPECT_EQ(tree_text(8, {{0, 2}, {0, 3}, {1, 3}, {4, 6}, {4, 7}, {5, 7}}),
            "P(S(0 P(1 2 -) 3) S(4 P(5 6 -) 7))");
}

TEST(SeriesParallel, AnInputInTheMiddleOfABranchBeginsWithTheBranch) {
  const Graph graph = dag(6, {{0, 1}, {1, 3}, {2, 3}, {0, 4}, {3, 5}, {4, 5}});
  EXPECT_EQ(to_text(decompose_series_parallel(graph), graph), "S(0 P(S(P(1 2) 3) 4) 5)");
}

TEST(SeriesParallel, KeepsItsPromisesOnRandomGraphs) {
  int exact = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const CounterRandom random(seed);
    const int n = 2 + static_cast<int>(random.below(0, 11));
    const double density = random.uniform(1);
    Edges edges;
    for (int u = 0; u < n; ++u) {
      for (int v = u + 1; v < n; ++v) {
        if (random.uniform(static_cast<std::uint64_t>(100 + u * n + v)) < density) {
          edges.push_back({u, v});
        }
      }
    }
    const Graph graph = dag(n, edges);
    const SpTree tree = decompose_series_parallel(graph);
    EXPECT_EQ(broken_promise(graph, tree), "") << "seed " << seed;
    exact += tree.exact ? 1 : 0;
  }
  EXPECT_GT(exact, 50);  // both kinds are there
  EXPECT_LT(exact, 250);
}

// The shortest that the longest path of a series-parallel order over these operators can be, where
// the order contains their dependencies: either they fall into parts that do not touch, or some
// come before all others.
class ShortestOrder {
 public:
  explicit ShortestOrder(const Graph& graph)
      : graph_(graph), reach_(graph), ops_(graph.op_count()) {
    for (std::size_t op = 0; op < ops_; ++op) {
      for (std::size_t other = 0; other < ops_; ++other) {
        if (reach_.reaches(OpId(op), OpId(other)) || reach_.reaches(OpId(other), OpId(op))) {
          touching_[op] |= 1U << other;
        }
      }
    }
  }
  double of_all() { return of((1U << ops_) - 1); }

 private:
  double of(unsigned set) {
    double& known = known_[set];
    if (known > 0) return known;
    unsigned part = set & -set;
    for (unsigned before = 0; before != part;) {
      before = part;
      for (std::size_t op = 0; op < ops_; ++op) {
        if ((part >> op & 1) != 0) part |= touching_[op] & set;
      }
    }
    if (part != set) return known = std::max(of(part), of(set & ~part));
    double best = 0;
    for (std::size_t op = 0; op < ops_; ++op) {
      if ((set >> op & 1) != 0) best += 1 + forward_flops_per_sample(graph_, OpId(op));
    }
    for (unsigned first = (set - 1) & set; first != 0; first = (first - 1) & set) {
      if (comes_first(first, set & ~first)) best = std::min(best, of(first) + of(set & ~first));
    }
    return known = best;
  }

  bool comes_first(unsigned first, unsigned rest) const {
    for (std::size_t a = 0; a < ops_; ++a) {
      for (std::size_t b = 0; b < ops_; ++b) {
        const bool apart = (rest >> a & 1) != 0 && (first >> b & 1) != 0;
        if (apart && reach_.reaches(OpId(a), OpId(b))) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  Reachability reach_;
  std::size_t ops_;
  std::array<unsigned, 32> touching_ = {};
  std::map<unsigned, double> known_;
};

double longest_path(const Graph& graph) {
  const auto before = op_predecessors(graph);
  std::vector<double> length(graph.op_count(), 0);
  for (std::size_t op = 0; op < before.size(); ++op) {
    for (const OpId from : before[op]) length[op] = std::max(length[op], length[from.index()]);
    length[op] += 1 + forward_flops_per_sample(graph, OpId(op));
  }
  return *std::ranges::max_element(length);
}

TEST(SeriesParallel, LengthensTheLongestPathNotMuchMoreThanItMust) {
  double longer = 0;
  int inexact = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const CounterRandom random(seed);
    Edges edges;
    for (int v = 1; v < 9; ++v) {
      for (int u = 0; u < v; ++u) {
        if (random.uniform(static_cast<std::uint64_t>(9 * u + v)) < 0.3) edges.push_back({u, v});
      }
    }
    const Graph graph = dag(9, edges);
    const SpTree tree = decompose_series_parallel(graph);
    if (tree.exact) continue;
    ++inexact;
    const double shortest = ShortestOrder(graph).of_all();
    const double found = (1 + tree.stretch) * longest_path(graph);
    EXPECT_GE(found, shortest * (1 - 1e-9)) << "seed " << seed;
    EXPECT_LT(found, 1.7 * shortest) << "seed " << seed;
    longer += found / shortest - 1;
  }
  EXPECT_GT(inexact, 50);
  EXPECT_LT(longer / inexact, 0.25);
}

// A random tree's own graph: operators are numbered as they are met, a series' children
// are joined through all ends and beginnings.
class RandomSeriesParallel {
 public:
  explicit RandomSeriesParallel(std::uint64_t seed) : random_(seed) { make(4, true); }
  Graph graph() const { return dag(ops_, edges_); }

 private:
  struct Ends {
    std::vector<int> first;
    std::vector<int> last;
  };
  std::uint64_t below(std::uint64_t n) { return random_.below(drawn_++, n); }

  Ends make(int depth, bool series) {
    if (depth == 0 || below(4) == 0) {
      const int op = ops_++;
      return {{op}, {op}};
    }
    const std::uint64_t children = 2 + below(3);
    Ends ends;
    for (std::uint64_t c = 0; c < children; ++c) {
      const Ends child = make(depth - 1, !series);
      if (series && c > 0) {
        for (const int u : ends.last) {
          for (const int v : child.first) edges_.push_back({u, v});
        }
        ends.last = child.last;
        continue;
      }
      ends.first.insert(ends.first.end(), child.first.begin(), child.first.end());
      ends.last.insert(ends.last.end(), child.last.begin(), child.last.end());
    }
    return ends;
  }

  CounterRandom random_;
  std::uint64_t drawn_ = 0;
  int ops_ = 0;
  Edges edges_;
};

TEST(SeriesParallel, FindsTheOrderOfRandomSeriesParallelGraphs) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Graph graph = RandomSeriesParallel(seed).graph();
    const SpTree tree = decompose_series_parallel(graph);
    EXPECT_TRUE(tree.exact) << "seed " << seed << ": " << to_text(tree, graph);
    EXPECT_EQ(broken_promise(graph, tree), "") << "seed " << seed;
  }
}

TEST(SeriesParallel, TakesTenThousandOperators) {
  // Blocks of ten: a bridge every tenth block, else two branches with a skip.
  Edges edges;
  const int n = 10'000;
  for (int base = 0; base + 10 <= n; base += 10) {
    if (base > 0) edges.push_back({base - 1, base});
    for (const int i : {1, 2, 9}) edges.push_back({base, base + i});
    edges.push_back({base + 1, base + 3});
    edges.push_back({base + 2, base + 4});
    if (base % 100 == 0) edges.push_back({base + 1, base + 4});
    edges.push_back({base + 3, base + 9});
    for (int i = 4; i < 9; ++i) edges.push_back({base + i, base + i + 1});
  }
  const SpTree tree = decompose_series_parallel(dag(n, edges));
  EXPECT_FALSE(tree.exact);
  // Of the bridge's block: 2 before 3.
  EXPECT_EQ(tree.added_order, n / 100);
  EXPECT_EQ(tree.node(tree.root).ops.size(), static_cast<std::size_t>(n));
}

}  // namespace
}  // namespace graphpipe
