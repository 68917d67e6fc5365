// The planners of other systems: every plan is valid and fits, and their partitions are what a
// plain search over all partitions finds.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/counter_random.h"
#include "base/numbers.h"
#include "plan/stage_memory.h"
#include "planners/blocks.h"
#include "planners/downsets.h"
#include "planners/latency_chain.h"
#include "planners/max_load/partition.h"
#include "planners/pipedream/partition.h"
#include "planners/piper/partition.h"
#include "planners/test_problems.h"

namespace graphpipe {
namespace {

const std::vector<std::string> kRivals = {"pipedream", "piper", "max-load", "dapple", "alpa"};

// Two branches of 3 and their join.
const Dependencies kForkJoin = {{}, {0}, {1}, {}, {3}, {4}, {2, 5}};

TEST(Rivals, EveryCandidateIsAValidChainThatFits) {
  for (const std::string& name : kRivals) {
    int plans = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      TestProblem test =
          random_problem(kForkJoin, 4, 5 + static_cast<std::int64_t>(seed), seed % 2 == 1, seed);
      test.options.data_parallel = seed % 3 != 0;
      test.cluster.types[0].memory_bytes += 20'000;
      for (const Plan& p : planner_named(name).plan(test.problem(), Budget()).candidates) {
        ++plans;
        EXPECT_NO_THROW(validate(p, test.graph, test.cluster, "plan")) << name << " seed " << seed;
        EXPECT_EQ(pipeline_depth(p), static_cast<int>(p.stages.size())) << name;
        for (std::size_t s = 0; s < p.stages.size(); ++s) {
          if (!test.options.data_parallel) {
            EXPECT_EQ(p.stages[s].devices.size(), 1U) << name;
          }
          EXPECT_LE(
              stage_memory(p, test.graph, test.costs, test.cluster.types[0], StageId(s)).total(),
              test.cluster.types[0].memory_bytes);
        }
      }
    }
    EXPECT_GT(plans, 50) << name;
  }
}

TEST(Rivals, SameProblemGivesTheSamePlans) {
  const TestProblem test = random_problem(kForkJoin, 4, 16, false, 1);
  for (const std::string& name : kRivals) {
    const PlanResult first = planner_named(name).plan(test.problem(), Budget());
    const PlanResult second = planner_named(name).plan(test.problem(), Budget());
    ASSERT_EQ(first.candidates.size(), second.candidates.size()) << name;
    for (std::size_t i = 0; i < first.candidates.size(); ++i) {
      EXPECT_EQ(plan_hash(first.candidates[i]), plan_hash(second.candidates[i])) << name;
    }
  }
}

TEST(Rivals, RecomputeWhereMemoryIsShort) {
  TestProblem test = even_problem({{}, {0}, {1}, {2}}, 4, 64);
  for (AffineCosts::Op& op : test.costs.ops) op.saved_bytes_per_sample = 1 << 20;
  test.cluster.types[0].memory_bytes = (5 << 20) / 2;
  test.options.micro_batches = {1};
  test.options.data_parallel = false;
  for (const std::string& name : kRivals) {
    EXPECT_EQ(planner_named(name).plan(test.problem(), Budget()).status, PlanStatus::kInfeasible)
        << name;
  }
  test.options.recompute = true;
  for (const std::string& name : kRivals) {
    EXPECT_EQ(planner_named(name).plan(test.problem(), Budget()).status, PlanStatus::kOk) << name;
  }
}

TEST(Rivals, PiperGivesUpOnManyBranchesWithTheCount) {
  Dependencies before = {{}};
  for (int branch = 0; branch < 16; ++branch) before.push_back({0});
  TestProblem test = even_problem(before, 32, 64);
  for (AffineCosts::Op& op : test.costs.ops) op.per_sample_s = 1;
  const PlanResult result = planner_named("piper").plan(test.problem(), Budget());
  EXPECT_EQ(result.status, PlanStatus::kGaveUp);
  EXPECT_EQ(result.reason, "more than 12,000 downsets of 17 blocks, which is the limit");
}

TEST(Downsets, AreThoseThatAPlainCountFinds) {
  const CounterRandom random(7);
  std::uint64_t drawn = 0;
  for (int round = 0; round < 30; ++round) {
    const int n = 3 + static_cast<int>(random.below(drawn++, 7));
    Successors successors(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) {
        if (random.below(drawn++, 3) == 0) successors[static_cast<std::size_t>(i)].push_back(j);
      }
    }
    std::vector<unsigned> sets;
    for (unsigned set = 0; set < 1U << n; ++set) {
      bool closed = true;
      for (int i = 0; i < n; ++i) {
        for (const int j : successors[static_cast<std::size_t>(i)]) {
          closed = closed && (((set >> j) & 1U) == 0 || ((set >> i) & 1U) != 0);
        }
      }
      if (closed) sets.push_back(set);
    }
    Downsets downsets(successors, 1000);
    ASSERT_TRUE(downsets.complete());
    ASSERT_EQ(downsets.count(), sets.size());
    std::vector<std::uint32_t> inside;
    for (std::size_t s = 0; s < downsets.count(); ++s) {
      downsets.inside(s, inside);
      const auto bits = static_cast<unsigned>(downsets.bits(s)[0]);
      const auto expected = std::ranges::count_if(
          sets, [&](unsigned other) { return other != bits && (other & ~bits) == 0; });
      EXPECT_EQ(static_cast<std::ptrdiff_t>(inside.size()), expected);
    }
    EXPECT_FALSE(Downsets(successors, sets.size() - 2).complete());
  }
}

// Every way to cut a chain of n into stages with replicas.
void for_chains(int n, int devices,
                const std::function<void(const std::vector<PipedreamStage>&)>& use,
                std::vector<PipedreamStage> stages = {}, int begin = 0) {
  if (begin == n) return use(stages);
  for (int end = begin; end < n; ++end) {
    for (int m = 1; m <= devices; ++m) {
      stages.push_back({begin, end, m});
      for_chains(n, devices - m, use, stages, end + 1);
      stages.pop_back();
    }
  }
}

TEST(PipedreamPartition, IsTheBestOfAllChains) {
  const CounterRandom random(11);
  std::uint64_t drawn = 0;
  for (int round = 0; round < 20; ++round) {
    PipedreamStates states;
    const int n = 5;
    double compute = 0, params = 0;
    for (int i = 0; i < n; ++i) {
      states.compute_s.push_back(compute += random.uniform(drawn++));
      states.parameter_bytes.push_back(params += random.uniform(drawn++));
      states.activation_bytes.push_back(0);
      states.cut_bytes.push_back(random.uniform(drawn++));
      states.before.emplace_back();
    }
    const auto part = [](const std::vector<double>& sums, const PipedreamStage& s) {
      return sums[static_cast<std::size_t>(s.last)] -
             (s.first > 0 ? sums[static_cast<std::size_t>(s.first - 1)] : 0);
    };
    const double bandwidth = 2;
    double best = kInfinity;
    for_chains(n, 4, [&](const std::vector<PipedreamStage>& stages) {
      int machines = 0;
      double slowest = 0;
      for (const PipedreamStage& s : stages) {
        machines += s.replicas;
        const double sync =
            4.0 * (s.replicas - 1) * part(states.parameter_bytes, s) / (bandwidth * s.replicas);
        slowest = std::max(slowest, std::max(part(states.compute_s, s), sync) / s.replicas);
        if (s.first > 0) {
          slowest = std::max(slowest, 2 * states.cut_bytes[static_cast<std::size_t>(s.first - 1)] /
                                          (bandwidth * s.replicas));
        }
      }
      if (machines == 4) best = std::min(best, slowest);
    });
    const PipedreamPartition partition = partition_pipedream(states, {{4, bandwidth}}, {});
    EXPECT_NEAR(partition.bottleneck_s, best, 1e-12) << "round " << round;
  }
}

// A random graph of `n` operators as all planners of downsets see it.
struct RandomGraph {
  Successors successors;
  std::vector<std::pair<int, int>> edges;
};
RandomGraph random_graph(int n, std::uint64_t seed) {
  const CounterRandom random(seed);
  RandomGraph graph;
  graph.successors.resize(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) {
      if (random.below(static_cast<std::uint64_t>(i * n + j), 3) != 0) continue;
      graph.successors[static_cast<std::size_t>(i)].push_back(j);
      graph.edges.emplace_back(i, j);
    }
  }
  return graph;
}

// Every chain of nested downsets, as the number of each operator's stage.
void for_partitions(const RandomGraph& graph, int most,
                    const std::function<void(const std::vector<int>&, int)>& use) {
  const auto n = graph.successors.size();
  std::vector<int> stage(n, 0);
  while (true) {
    const int last = *std::ranges::max_element(stage);
    bool valid = std::ranges::all_of(graph.edges, [&](const auto& e) {
      return stage[static_cast<std::size_t>(e.first)] <= stage[static_cast<std::size_t>(e.second)];
    });
    for (int s = 0; s <= last && valid; ++s) valid = std::ranges::count(stage, s) > 0;
    if (valid) use(stage, last + 1);
    std::size_t i = 0;
    while (i < n && ++stage[i] == most) stage[i++] = 0;
    if (i == n) return;
  }
}

TEST(MaxLoadPartition, IsTheBestOfAllNestedDownsets) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const RandomGraph graph = random_graph(6, seed);
    const CounterRandom random(seed + 100);
    MaxLoadInstance instance;
    instance.accelerators = 3;
    instance.accelerator_bytes = 4;
    instance.successors = graph.successors;
    for (std::uint64_t i = 0; i < 6; ++i) {
      instance.ops.push_back({random.uniform(3 * i), 0, 0.3 + random.uniform(3 * i + 1), true});
      if (graph.successors[i].empty()) continue;
      std::vector<int> ops = graph.successors[i];
      ops.push_back(static_cast<int>(i));
      instance.tensors.push_back({ops, 0.3 * random.uniform(3 * i + 2)});
    }
    double best = kInfinity;
    for_partitions(graph, 3, [&](const std::vector<int>& stage, int stages) {
      double slowest = 0;
      for (int s = 0; s < stages; ++s) {
        double load = 0, bytes = 0;
        for (std::size_t i = 0; i < 6; ++i) {
          if (stage[i] != s) continue;
          load += instance.ops[i].accelerator_s;
          bytes += instance.ops[i].bytes;
        }
        for (const MaxLoadTensor& tensor : instance.tensors) {
          const auto inside = std::ranges::count_if(
              tensor.ops, [&](int op) { return stage[static_cast<std::size_t>(op)] == s; });
          if (inside > 0 && inside < static_cast<std::ptrdiff_t>(tensor.ops.size()))
            load += tensor.seconds;
        }
        slowest = std::max(slowest, bytes > instance.accelerator_bytes ? kInfinity : load);
      }
      best = std::min(best, slowest);
    });
    const MaxLoadPartition partition = partition_max_load(instance, {});
    ASSERT_EQ(partition.outcome == MaxLoadOutcome::kFound, best < kInfinity) << "seed " << seed;
    if (best < kInfinity) {
      EXPECT_NEAR(partition.load_s, best, 1e-9) << "seed " << seed;
    }
  }
}

// All degrees of every stage of every partition, without recomputation.
double best_piper(const PiperInstance& in, const RandomGraph& graph) {
  double best = kInfinity;
  for_partitions(graph, in.devices, [&](const std::vector<int>& stage, int stages) {
    std::vector<int> degree(static_cast<std::size_t>(stages), 1);
    while (true) {
      int devices = 0;
      bool fits = true;
      double slowest = 0;
      for (int s = stages - 1; s >= 0 && fits; --s) {
        const int d = degree[static_cast<std::size_t>(s)];
        devices += d;
        fits = in.micro_batches % d == 0 && devices <= in.devices;
        double p = 0, w = 0, a = 0, b = 0, bytes = 0;
        for (std::size_t i = 0; i < in.ops.size(); ++i) {
          if (stage[i] != s) continue;
          p += in.ops[i][0].seconds;
          w += in.ops[i][0].parameter_bytes;
          a += in.ops[i][0].a_bytes;
          b += in.ops[i][0].b_bytes;
        }
        for (const PiperLink& link : in.links) {
          const bool from = stage[static_cast<std::size_t>(link.from)] == s;
          const bool to = stage[static_cast<std::size_t>(link.to)] == s;
          if (from != to) bytes += link.bytes;
        }
        const int y = (devices + d - 1) / d;
        fits = fits && a * y + b <= in.memory_bytes;
        slowest =
            std::max(slowest, p / d + (2 * bytes / d + 4.0 * (d - 1) / d * w /
                                                           static_cast<double>(in.micro_batches)) /
                                          in.bandwidth_bytes_per_s);
      }
      if (fits) best = std::min(best, slowest);
      std::size_t i = 0;
      while (i < degree.size() && ++degree[i] > in.devices) degree[i++] = 1;
      if (i == degree.size()) return;
    }
  });
  return best;
}

TEST(PiperPartition, IsTheBestOfAllNestedDownsetsAndDegrees) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const RandomGraph graph = random_graph(5, seed);
    const CounterRandom random(seed + 200);
    PiperInstance instance;
    instance.devices = 4;
    instance.memory_bytes = 3 + 3 * random.uniform(999);
    instance.micro_batches = 6;
    instance.degrees = {1};
    for (std::uint64_t i = 0; i < 5; ++i) {
      PiperCost cost{random.uniform(4 * i),
                     random.uniform(4 * i + 1),
                     random.uniform(4 * i + 2),
                     0.3,
                     0,
                     0,
                     0};
      cost.recompute_seconds = cost.seconds;
      cost.recompute_a_bytes = cost.a_bytes;
      cost.recompute_b_bytes = cost.b_bytes;
      instance.ops.push_back({cost});
    }
    for (const auto& [from, to] : graph.edges) {
      instance.links.push_back({from, to, 0.1, {0}, {0}});
    }
    const double best = best_piper(instance, graph);
    const PiperPartition partition = partition_piper(instance, {});
    ASSERT_EQ(partition.outcome == PiperOutcome::kFound, best < kInfinity) << "seed " << seed;
    if (best == kInfinity) continue;
    ++found;
    EXPECT_NEAR(partition.tps_s, best, 2e-6 * best) << "seed " << seed;
  }
  EXPECT_GT(found, 4);
}

TEST(ShortestChains, TradesStagesAgainstTheSlowest) {
  LatencyChain chain;
  chain.blocks = 4;
  chain.devices = 4;
  chain.widths = {1};
  chain.stage = [](int i, int j, int) {
    LatencyChain::Stage stage;
    stage.forward_s = j - i;
    stage.backward_s = 2 * (j - i);
    stage.transfer_s = i > 0 ? 1.5 : 0;
    return stage;
  };
  chain.micro_batches = 1;  // nothing to overlap: one stage
  EXPECT_EQ(shortest_chains(chain, 50).front().stages.size(), 1U);
  EXPECT_DOUBLE_EQ(shortest_chains(chain, 50).front().latency_s, 12);
  chain.micro_batches = 100;
  EXPECT_EQ(shortest_chains(chain, 50).front().stages.size(), 4U);
  EXPECT_DOUBLE_EQ(shortest_chains(chain, 50).front().latency_s, 12 + 4.5 + 99 * 4.5);
}

TEST(Blocks, JoinTheLightestWhereNoOtherPathGoesRound) {
  const TestProblem test = even_problem({{}, {0}, {0, 1}, {2}}, 2, 4);
  const Blocks blocks = coarse_blocks(test.graph, {1, 1, 1, 5}, 3, 2);
  // 0 -> 2 may only go with 1.
  ASSERT_EQ(blocks.ops.size(), 2U);
  EXPECT_EQ(blocks.ops[0], (std::vector<OpId>{OpId(0), OpId(1), OpId(2)}));
  EXPECT_EQ(blocks.tensors.size(), 1U);
  EXPECT_EQ(run_blocks(test.graph, {1, 1, 1, 5}, 2).ops.size(), 3U);
}

}  // namespace
}  // namespace graphpipe
