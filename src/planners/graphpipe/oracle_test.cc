// The search against plain enumeration, on every series-parallel graph of up to six
// operators. What is enumerated, and what a strategy costs, is written out here without
// the planner's code.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planners/graphpipe/graphpipe.h"
#include "planners/test_problems.h"

namespace graphpipe {
namespace {

constexpr int kDevices = 4;
const std::vector<int> kWidths = {1, 2, 4};

// --- Series-parallel shapes ---------------------------------------------------------

struct Shape {
  enum class Kind { kOp, kSeries, kParallel };
  Kind kind = Kind::kOp;
  std::vector<Shape> children;
  int op = -1;
};

// Lists of `count` shapes or more, of n operators in all, each from `pieces[size]`;
// unordered lists come once.
void extend(const std::vector<std::vector<Shape>>& pieces, int n, bool ordered,
            std::vector<Shape>& list, std::pair<int, std::size_t> least, Shape::Kind kind,
            std::vector<Shape>& found) {
  if (n == 0) {
    if (list.size() > 1) found.push_back({kind, list, -1});
    return;
  }
  for (int size = ordered ? 1 : least.first; size <= n; ++size) {
    const auto& choices = pieces[static_cast<std::size_t>(size)];
    const std::size_t first = !ordered && size == least.first ? least.second : 0;
    for (std::size_t i = first; i < choices.size(); ++i) {
      list.push_back(choices[i]);
      extend(pieces, n - size, ordered, list, {size, i}, kind, found);
      list.pop_back();
    }
  }
}

// [n]: all shapes of n operators, each once: a series has no series child, a parallel no
// parallel child and no order.
std::vector<std::vector<Shape>> all_shapes(int most) {
  std::vector<std::vector<Shape>> all(1);
  std::vector<std::vector<Shape>> not_series(1);
  std::vector<std::vector<Shape>> not_parallel(1);
  for (int n = 1; n <= most; ++n) {
    std::vector<Shape> series;
    std::vector<Shape> parallel;
    std::vector<Shape> list;
    // Children are smaller than n, so those known by now are enough.
    not_series.emplace_back();
    not_parallel.emplace_back();
    extend(not_series, n, true, list, {1, 0}, Shape::Kind::kSeries, series);
    extend(not_parallel, n, false, list, {1, 0}, Shape::Kind::kParallel, parallel);
    if (n == 1) {
      not_series[1].push_back({});
      not_parallel[1].push_back({});
      all.push_back({Shape{}});
      continue;
    }
    not_series.back() = parallel;
    not_parallel.back() = series;
    all.push_back(series);
    all.back().insert(all.back().end(), parallel.begin(), parallel.end());
  }
  return all;
}

struct Ends {
  std::vector<int> first;
  std::vector<int> last;
};

// Numbers the operators as they are met and joins a series' children through all ends.
Ends number_ops(Shape& shape, Dependencies& before) {
  if (shape.kind == Shape::Kind::kOp) {
    shape.op = static_cast<int>(before.size());
    before.emplace_back();
    return {{shape.op}, {shape.op}};
  }
  Ends ends;
  for (std::size_t c = 0; c < shape.children.size(); ++c) {
    const Ends child = number_ops(shape.children[c], before);
    if (shape.kind == Shape::Kind::kParallel) {
      ends.first.insert(ends.first.end(), child.first.begin(), child.first.end());
      ends.last.insert(ends.last.end(), child.last.begin(), child.last.end());
      continue;
    }
    for (const int v : child.first) {
      if (c > 0) before[static_cast<std::size_t>(v)] = ends.last;
    }
    if (c == 0) ends.first = child.first;
    ends.last = child.last;
  }
  return ends;
}

std::vector<int> ops_of(const Shape& shape) {
  if (shape.kind == Shape::Kind::kOp) return {shape.op};
  std::vector<int> ops;
  for (const Shape& child : shape.children) {
    const std::vector<int> below = ops_of(child);
    ops.insert(ops.end(), below.begin(), below.end());
  }
  return ops;
}

// --- Partitions into stages ---------------------------------------------------------

using Partition = std::vector<std::vector<int>>;  // stages of operators
using Use = std::function<void(const Partition&)>;

void each_partition(const Shape& shape, const Partition& so_far, const Use& use);

// A contiguous run of a series is one stage, or a child is partitioned by itself.
void each_series_partition(const Shape& shape, std::size_t from, const Partition& so_far,
                           const Use& use) {
  if (from == shape.children.size()) return use(so_far);
  std::vector<int> run;
  for (std::size_t to = from; to < shape.children.size(); ++to) {
    const std::vector<int> ops = ops_of(shape.children[to]);
    run.insert(run.end(), ops.begin(), ops.end());
    Partition longer = so_far;
    longer.push_back(run);
    each_series_partition(shape, to + 1, longer, use);
  }
  if (shape.children[from].kind == Shape::Kind::kOp) return;  // done as a run
  each_partition(shape.children[from], so_far, [&](const Partition& longer) {
    each_series_partition(shape, from + 1, longer, use);
  });
}

// Branches are put into groups: larger ones are one stage each, single ones partitioned.
void each_grouping(const Shape& shape, std::size_t branch,
                   std::vector<std::vector<std::size_t>>& groups, const Partition& so_far,
                   const Use& use) {
  if (branch == shape.children.size()) {
    std::function<void(std::size_t, const Partition&)> go = [&](std::size_t g,
                                                                const Partition& partition) {
      if (g == groups.size()) return use(partition);
      if (groups[g].size() == 1) {
        each_partition(shape.children[groups[g][0]], partition,
                       [&](const Partition& longer) { go(g + 1, longer); });
        return;
      }
      Partition longer = partition;
      longer.emplace_back();
      for (const std::size_t b : groups[g]) {
        const std::vector<int> ops = ops_of(shape.children[b]);
        longer.back().insert(longer.back().end(), ops.begin(), ops.end());
      }
      go(g + 1, longer);
    };
    return go(0, so_far);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].push_back(branch);
    each_grouping(shape, branch + 1, groups, so_far, use);
    groups[g].pop_back();
  }
  groups.push_back({branch});
  each_grouping(shape, branch + 1, groups, so_far, use);
  groups.pop_back();
}

void each_partition(const Shape& shape, const Partition& so_far, const Use& use) {
  switch (shape.kind) {
    case Shape::Kind::kOp: {
      Partition longer = so_far;
      longer.push_back({shape.op});
      return use(longer);
    }
    case Shape::Kind::kSeries:
      return each_series_partition(shape, 0, so_far, use);
    case Shape::Kind::kParallel: {
      std::vector<std::vector<std::size_t>> groups;
      return each_grouping(shape, 0, groups, so_far, use);
    }
  }
}

// Every partition at all whose stages can stand in an order (so each is convex).
void each_set_partition(int n, int op, Partition& partition, const Use& use) {
  if (op == n) return use(partition);
  for (std::size_t s = 0; s < partition.size(); ++s) {
    partition[s].push_back(op);
    each_set_partition(n, op + 1, partition, use);
    partition[s].pop_back();
  }
  partition.push_back({op});
  each_set_partition(n, op + 1, partition, use);
  partition.pop_back();
}

// --- What a strategy costs ----------------------------------------------------------

class Strategies {
 public:
  Strategies(const TestProblem& test, const Dependencies& before, std::int64_t micro_batch)
      : test_(test), before_(before), b_(micro_batch) {}

  // Keeps the least of the largest stage times over all widths of the partition.
  void consider(const Partition& partition) {
    if (partition.size() > kDevices) return;
    const std::optional<std::vector<int>> levels = levels_of(partition);
    if (!levels) return;
    choose_width(partition, *levels, 0, kDevices, 0);
  }
  std::optional<double> least() const { return least_; }

 private:
  // One more than the highest successor; none where stages wait in a circle.
  std::optional<std::vector<int>> levels_of(const Partition& partition) const {
    std::vector<std::size_t> stage(before_.size());
    for (std::size_t s = 0; s < partition.size(); ++s) {
      for (const int op : partition[s]) stage[static_cast<std::size_t>(op)] = s;
    }
    std::vector<int> levels(partition.size(), 1);
    for (std::size_t round = 0; round <= partition.size(); ++round) {
      bool changed = false;
      for (std::size_t v = 0; v < before_.size(); ++v) {
        for (const int u : before_[v]) {
          const std::size_t from = stage[static_cast<std::size_t>(u)];
          if (from == stage[v] || levels[from] > levels[stage[v]]) continue;
          levels[from] = levels[stage[v]] + 1;
          changed = true;
        }
      }
      if (!changed) return levels;
    }
    return std::nullopt;
  }

  void choose_width(const Partition& partition, const std::vector<int>& levels, std::size_t s,
                    int devices, double largest) {
    if (least_ && largest >= *least_) return;
    if (s == partition.size()) {
      least_ = largest;
      return;
    }
    for (const int width : kWidths) {
      if (width > devices || width > b_) continue;
      if (!fits(partition[s], width, levels[s])) continue;
      choose_width(partition, levels, s + 1, devices - width,
                   std::max(largest, tps_s(partition[s], width)));
    }
  }

  static bool has(const std::vector<int>& ops, int op) {
    return std::ranges::find(ops, op) != ops.end();
  }
  std::int64_t tensor_bytes_of(int op, std::int64_t samples) const {
    return tensor_bytes(
        test_.graph.tensor(test_.graph.ops[static_cast<std::size_t>(op)].outputs[0]), samples);
  }
  // Operators outside whose output the stage reads.
  std::vector<int> read_from_outside(const std::vector<int>& ops) const {
    std::vector<int> outside;
    for (const int op : ops) {
      for (const int u : before_[static_cast<std::size_t>(op)]) {
        if (!has(ops, u) && !has(outside, u)) outside.push_back(u);
      }
    }
    return outside;
  }
  bool read_outside(const std::vector<int>& ops, int op) const {
    for (std::size_t v = 0; v < before_.size(); ++v) {
      if (!has(ops, static_cast<int>(v)) && has(before_[v], op)) return true;
    }
    return false;
  }

  // Every operator has a parameter and a loss behind it, so gradients answer every tensor.
  double tps_s(const std::vector<int>& ops, int width) const {
    const std::int64_t share = (b_ + width - 1) / width;
    double compute_s = 0;
    std::int64_t bytes = 0;  // either way: what comes in answers what goes out
    for (const int op : ops) {
      const AffineCosts::Op& cost = test_.costs.ops[static_cast<std::size_t>(op)];
      compute_s += 3 * (cost.fixed_s + static_cast<double>(share) * cost.per_sample_s);
      if (read_outside(ops, op)) bytes += tensor_bytes_of(op, share);
    }
    for (const int op : read_from_outside(ops)) bytes += tensor_bytes_of(op, share);
    const Link& link = test_.cluster.levels.back().link;  // stages may be in two nodes
    const double link_s =
        bytes == 0 ? 0 : static_cast<double>(bytes) / link.bandwidth_bytes_per_s + link.latency_s;
    return std::max(compute_s, link_s) / static_cast<double>(b_);
  }

  bool fits(const std::vector<int>& ops, int width, int level) const {
    const std::int64_t share = (b_ + width - 1) / width;
    const std::int64_t micro_batches = (test_.mini_batch + b_ - 1) / b_;
    std::int64_t kept = 0;
    std::int64_t saved = 0;
    std::int64_t gradient = 0;  // of the largest output, while its operator's backward runs
    for (const int op : ops) {
      const auto i = static_cast<std::size_t>(op);
      gradient = std::max(gradient, tensor_bytes_of(op, share));
      kept += 2 * param_bytes(test_.graph.params[i]);  // weight and gradient
      saved += tensor_bytes_of(op, share) + share * test_.costs.ops[i].saved_bytes_per_sample;
      if (before_[i].empty())
        saved += tensor_bytes(test_.graph.tensor(test_.graph.ops[i].inputs[0]), share);
    }
    for (const int op : read_from_outside(ops)) saved += tensor_bytes_of(op, share);
    return kept + std::min<std::int64_t>(level, micro_batches) * saved + gradient <=
           test_.cluster.types[0].memory_bytes;
  }

  const TestProblem& test_;
  const Dependencies& before_;
  std::int64_t b_;
  std::optional<double> least_;
};

struct Case {
  Shape shape;
  Dependencies before;
};

std::vector<Case> all_cases(int most) {
  std::vector<Case> cases;
  for (const std::vector<Shape>& shapes : all_shapes(most)) {
    for (const Shape& shape : shapes) {
      cases.push_back({shape, {}});
      number_ops(cases.back().shape, cases.back().before);
    }
  }
  return cases;
}

constexpr std::int64_t kMicroBatch = 4;
constexpr std::int64_t kMiniBatch = 24;

TEST(SeriesParallelShapes, AreAsManyAsThereAreSeriesParallelOrders) {
  // Unlabelled series-parallel posets: sequence A003430.
  std::vector<std::size_t> counts;
  for (const std::vector<Shape>& shapes : all_shapes(6)) counts.push_back(shapes.size());
  EXPECT_EQ(counts, (std::vector<std::size_t>{0, 1, 2, 5, 15, 48, 167}));
}

TEST(LeastTarget, IsThatOfPlainEnumerationOnAllSmallSeriesParallelGraphs) {
  SearchRules rules;
  rules.seams = false;
  rules.message_buffers = false;
  rules.widths = kWidths;
  int infeasible = 0;
  int memory_binds = 0;
  std::uint64_t seed = 0;
  for (const Case& c : all_cases(6)) {
    for (int round = 0; round < 6; ++round, ++seed) {
      const bool tight = round >= 2;
      TestProblem test = random_problem(c.before, kDevices, kMiniBatch, tight, seed);
      Strategies strategies(test, c.before, kMicroBatch);
      each_partition(c.shape, {}, [&](const Partition& p) { strategies.consider(p); });
      const std::optional<double> found = least_target_s(test.problem(), kMicroBatch, rules);
      ASSERT_EQ(found.has_value(), strategies.least().has_value()) << "seed " << seed;
      infeasible += found ? 0 : 1;
      if (!found) continue;
      EXPECT_NEAR(*found, *strategies.least(), 1e-9 * *found) << "seed " << seed;
      test.cluster.types[0].memory_bytes = std::int64_t{1} << 40;
      Strategies unbound(test, c.before, kMicroBatch);
      each_partition(c.shape, {}, [&](const Partition& p) { unbound.consider(p); });
      if (*unbound.least() < *found * (1 - 1e-9)) ++memory_binds;
    }
  }
  // The cases are of all kinds.
  EXPECT_GT(infeasible, 50);
  EXPECT_GT(memory_binds, 50);
  EXPECT_LT(infeasible + memory_binds, 1000);
}

// What the search leaves out even so: stages that no single step leads to.
TEST(LeastRefinedTarget, IsNearThatOfAllConvexPartitions) {
  SearchRules rules;
  rules.message_buffers = false;
  rules.widths = kWidths;
  int cases = 0;
  int worse = 0;
  int not_found = 0;
  double sum = 0;
  double most = 0;
  std::uint64_t seed = 0;
  for (const Case& c : all_cases(6)) {
    for (int round = 0; round < 4; ++round, ++seed) {
      const TestProblem test = random_problem(c.before, kDevices, kMiniBatch, round >= 2, seed);
      Strategies all(test, c.before, kMicroBatch);
      Partition partition;
      each_set_partition(static_cast<int>(c.before.size()), 0, partition,
                         [&](const Partition& p) { all.consider(p); });
      const auto found = least_refined_target_s(test.problem(), kMicroBatch, rules);
      if (!all.least()) {
        EXPECT_FALSE(found) << "seed " << seed;
        continue;
      }
      ++cases;
      if (!found) {
        ++not_found;
        continue;
      }
      const double excess = *found / *all.least() - 1;
      EXPECT_GE(excess, -1e-9) << "seed " << seed << ": better than enumeration";
      if (excess > 1e-9) ++worse;
      sum += excess;
      most = std::max(most, excess);
    }
  }
  const double mean = sum / cases;
  std::cout << "of " << cases << " cases, convex partitions beat the search in " << worse
            << ": mean excess " << 100 * mean << " %, most " << 100 * most << " %; in " << not_found
            << " the search finds none that fits\n";
  EXPECT_LE(mean, 0.03) << "runs, groups, seams and single moves leave too much out";
  EXPECT_LE(not_found, cases / 50) << "memory binds too early";
}

}  // namespace
}  // namespace graphpipe
