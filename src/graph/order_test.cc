#include "graph/order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/counter_random.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

// A graph with an operator for each entry; entry i lists the operators it reads.
Graph from_dependencies(const std::vector<std::vector<int>>& dependencies) {
  GraphBuilder g("g");
  const TensorId x = g.input("x", {1});
  std::vector<TensorId> outputs;
  for (const std::vector<int>& list : dependencies) {
    const std::string name = fmt::format("op{}", outputs.size());
    std::vector<TensorId> inputs;
    for (const int i : list) inputs.push_back(outputs[static_cast<std::size_t>(i)]);
    if (inputs.empty()) inputs.push_back(x);
    outputs.push_back(inputs.size() == 1 ? g.relu(name, inputs[0]) : g.add(name, inputs));
  }
  return std::move(g).build();
}

std::vector<OpId> ids(const std::vector<int>& values) {
  std::vector<OpId> list;
  for (const int v : values) list.push_back(OpId(v));
  return list;
}

//       1
//     /   \.
//   0       3 -> 4
//     \   /
//       2
Graph diamond() { return from_dependencies({{}, {0}, {0}, {2, 1, 2}, {3}}); }

Graph random_graph(std::uint64_t seed, int op_count) {
  const CounterRandom random(seed);
  std::vector<std::vector<int>> dependencies;
  for (int i = 0; i < op_count; ++i) {
    std::vector<int> list;
    for (int j = 0; j < i; ++j) {
      if (random.uniform(static_cast<std::uint64_t>(i * op_count + j)) < 0.3) list.push_back(j);
    }
    dependencies.push_back(list);
  }
  return from_dependencies(dependencies);
}

// By walking every path.
bool walks_to(const std::vector<std::vector<OpId>>& after, OpId from, OpId to) {
  for (const OpId next : after[from.index()]) {
    if (next == to || walks_to(after, next, to)) return true;
  }
  return false;
}

// By the definition: no operator outside lies between two inside.
bool plainly_convex(const Graph& graph, const std::vector<OpId>& ops) {
  const std::vector<std::vector<OpId>> after = op_successors(graph);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (std::find(ops.begin(), ops.end(), OpId(i)) != ops.end()) continue;
    bool behind = false, before = false;
    for (const OpId op : ops) {
      behind = behind || walks_to(after, op, OpId(i));
      before = before || walks_to(after, OpId(i), op);
    }
    if (behind && before) return false;
  }
  return true;
}

TEST(OpPredecessors, AreAscendingWithoutRepeats) {
  const std::vector<std::vector<OpId>> expected{{}, ids({0}), ids({0}), ids({1, 2}), ids({3})};
  EXPECT_EQ(op_predecessors(diamond()), expected);
}

TEST(OpSuccessors, AreAscendingWithoutRepeats) {
  const std::vector<std::vector<OpId>> expected{ids({1, 2}), ids({3}), ids({3}), ids({4}), {}};
  EXPECT_EQ(op_successors(diamond()), expected);
}

TEST(Reachability, FollowsPathsAndNotItself) {
  const Reachability reach(diamond());
  EXPECT_TRUE(reach.reaches(OpId(0), OpId(4)));
  EXPECT_TRUE(reach.reaches(OpId(1), OpId(3)));
  EXPECT_FALSE(reach.reaches(OpId(1), OpId(2)));
  EXPECT_FALSE(reach.reaches(OpId(4), OpId(0)));
  EXPECT_FALSE(reach.reaches(OpId(3), OpId(3)));
}

TEST(Reachability, AgreesWithWalkingOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = random_graph(seed, 12);
    const std::vector<std::vector<OpId>> after = op_successors(graph);
    const Reachability reach(graph);
    for (std::size_t a = 0; a < graph.ops.size(); ++a) {
      for (std::size_t b = 0; b < graph.ops.size(); ++b) {
        ASSERT_EQ(reach.reaches(OpId(a), OpId(b)), walks_to(after, OpId(a), OpId(b)))
            << "seed " << seed << ", " << a << " to " << b;
      }
    }
  }
}

TEST(Reachability, CrossesWordBorders) {
  std::vector<std::vector<int>> chain{{}};
  for (int i = 0; i < 199; ++i) chain.push_back({i});
  const Reachability reach(from_dependencies(chain));
  EXPECT_TRUE(reach.reaches(OpId(0), OpId(199)));
  EXPECT_TRUE(reach.reaches(OpId(63), OpId(64)));
  EXPECT_TRUE(reach.reaches(OpId(127), OpId(128)));
  EXPECT_FALSE(reach.reaches(OpId(64), OpId(63)));
}

TEST(IsConvex, SeesPathsThatLeaveAndComeBack) {
  const Graph graph = diamond();
  EXPECT_TRUE(is_convex(graph, ids({})));
  EXPECT_TRUE(is_convex(graph, ids({0, 1, 2, 3, 4})));
  EXPECT_TRUE(is_convex(graph, ids({2, 1})));
  EXPECT_TRUE(is_convex(graph, ids({3, 1, 2})));
  EXPECT_FALSE(is_convex(graph, ids({0, 1, 3})));
  EXPECT_FALSE(is_convex(graph, ids({4, 0})));
}

TEST(IsConvex, AgreesWithTheDefinitionOnRandomGraphs) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    const Graph graph = random_graph(seed, 8);
    for (unsigned set = 0; set < 256; ++set) {
      std::vector<OpId> ops;
      for (int i = 0; i < 8; ++i) {
        if ((set >> i) & 1U) ops.push_back(OpId(i));
      }
      ASSERT_EQ(is_convex(graph, ops), plainly_convex(graph, ops))
          << "seed " << seed << ", set " << set;
    }
  }
}

}  // namespace
}  // namespace graphpipe
