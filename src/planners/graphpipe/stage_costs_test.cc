#include "planners/graphpipe/stage_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "plan/stage_memory.h"
#include "planners/graphpipe/placement.h"
#include "planners/graphpipe/plan_memory.h"
#include "planners/stage_tps.h"
#include "planners/test_problems.h"

namespace graphpipe {
namespace {

// Any graph of n operators: each reads up to three earlier ones.
Dependencies random_reads(int n, std::uint64_t seed) {
  const CounterRandom random(seed);
  Dependencies before(static_cast<std::size_t>(n));
  std::uint64_t drawn = 0;
  for (int v = 1; v < n; ++v) {
    std::vector<int>& reads = before[static_cast<std::size_t>(v)];
    for (std::uint64_t k = random.below(drawn++, 4); k > 0; --k) {
      reads.push_back(static_cast<int>(random.below(drawn++, static_cast<std::uint64_t>(v))));
    }
    std::ranges::sort(reads);
    const auto repeats = std::ranges::unique(reads);
    reads.erase(repeats.begin(), repeats.end());
  }
  return before;
}

// Runs of operators, so the stage graph has no cycle; widths that the micro-batch allows,
// and in-flight counts from the least to beyond.
Plan random_plan(const TestProblem& test, std::int64_t micro_batch, std::uint64_t seed) {
  const CounterRandom random(seed);
  std::uint64_t drawn = 0;
  Plan plan = empty_plan(test.problem(), "random");
  std::vector<int> widths;
  int left = test.cluster.device_count();
  for (std::size_t op = 0; op < test.graph.op_count(); ++op) {
    if (plan.stages.empty() || (left > 0 && random.below(drawn++, 3) == 0)) {
      plan.stages.emplace_back();
      const int most = static_cast<int>(std::min<std::int64_t>(std::min(left, 4), micro_batch));
      widths.push_back(1 +
                       static_cast<int>(random.below(drawn++, static_cast<std::uint64_t>(most))));
      left -= widths.back();
    }
    plan.stages.back().ops.push_back(OpId(op));
    plan.stages.back().micro_batch = micro_batch;
  }
  const auto devices = place_stages(test.cluster, widths);
  for (std::size_t s = 0; s < widths.size(); ++s) plan.stages[s].devices = devices[s];
  plan.edges = data_edges(test.graph, plan.stages);
  const std::vector<std::int64_t> least = least_in_flight(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto more = static_cast<std::int64_t>(random.below(drawn++, 3));
    plan.stages[s].in_flight_samples = std::min(plan.mini_batch, least[s] + more * micro_batch);
    plan.stages[s].recompute = test.options.recompute && random.below(drawn++, 2) == 0;
  }
  return plan;
}

TEST(StageCosts, MemoryBoundIsNeverBelowStageMemory) {
  int stages = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Dependencies before = random_reads(4 + static_cast<int>(seed % 9), seed);
    TestProblem test =
        random_problem(before, 8, 3 + static_cast<std::int64_t>(seed % 30), true, seed);
    for (AffineCosts::Op& op : test.costs.ops) op.workspace_bytes_per_sample = 100;
    test.options.recompute = seed % 2 == 0;
    const Problem problem = test.problem();
    CostTable table(problem);
    const std::int64_t b = 1 + static_cast<std::int64_t>(seed % 5) % test.mini_batch;
    SearchRules rules;
    rules.widths = {1, 2, 3, 4, 8};
    const Budget budget;
    SearchContext context(table, decompose_series_parallel(test.graph), rules, budget);
    const StageCosts costs(context.columns, b, rules);
    std::vector<int> position(test.graph.op_count());
    for (std::size_t p = 0; p < position.size(); ++p) {
      position[context.pieces.positions[p].op.index()] = static_cast<int>(p);
    }
    const Plan plan = random_plan(test, b, seed);
    std::int64_t window = 8;
    for (const Stage& stage : plan.stages) {
      window = std::max(window, (stage.in_flight_samples + b - 1) / b);
    }
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const Stage& stage = plan.stages[s];
      std::vector<Span> spans;
      context.accumulator.clear();
      for (const OpId op : stage.ops) {
        spans.push_back({position[op.index()], position[op.index()] + 1});
        context.accumulator.add(spans.back());
      }
      int width = 0;  // a width that gives a task the same samples
      const auto samples = [&](std::int64_t d) { return (b + d - 1) / d; };
      while (samples(costs.width(width)) !=
             samples(static_cast<std::int64_t>(stage.devices.size()))) {
        ++width;
      }
      const std::int64_t bound =
          costs.memory_bound_bytes(context.accumulator.sums(), spans, width,
                                   (stage.in_flight_samples + b - 1) / b, window, stage.recompute);
      // Of widths that give a task the same samples the least is planned with.
      Plan narrow = plan;
      narrow.stages[s].devices.resize(static_cast<std::size_t>(costs.width(width)));
      const std::int64_t exact =
          stage_memory(narrow, test.graph, test.costs, table.device(), StageId(s)).total();
      EXPECT_GE(bound, exact) << "seed " << seed << ", stage " << s;
      ++stages;
    }
  }
  EXPECT_GT(stages, 500);
}

TEST(StageCosts, TpsOfARunIsThatOfItsOperators) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    TestProblem test = random_problem(random_reads(9, seed), 4, 24, true, seed);
    test.options.recompute = true;
    const Problem problem = test.problem();
    CostTable table(problem);
    const SearchRules rules;
    const Budget budget;
    SearchContext context(table, decompose_series_parallel(test.graph), rules, budget);
    const StageCosts costs(context.columns, 6, rules);
    for (int begin = 0; begin < 9; ++begin) {
      for (int end = begin + 1; end <= 9; ++end) {
        const Span spans[] = {{begin, end}};
        context.accumulator.clear();
        context.accumulator.add(spans[0]);
        std::vector<OpId> ops;
        for (int p = begin; p < end; ++p) {
          ops.push_back(context.pieces.positions[static_cast<std::size_t>(p)].op);
        }
        std::ranges::sort(ops);
        for (int i = 0; i < costs.width_count(); ++i) {
          for (const bool again : {false, true}) {
            const double expected = stage_tps_s(table, ops, 6, costs.width(i), again);
            EXPECT_NEAR(costs.tps_s(context.accumulator.sums(), spans, i, again), expected,
                        1e-9 * expected)
                << "seed " << seed << ", positions " << begin << " to " << end;
          }
        }
      }
    }
  }
}

// Six micro-batches of two samples, 6 ms each: of four replicas one has two of them, as of three.
TEST(StageCosts, ReplicasInTurnsTakeWholeMicroBatches) {
  TestProblem test = even_problem({{}}, 4, 12);
  test.costs.ops[0].saved_bytes_per_sample = 1000;
  const Problem problem = test.problem();
  CostTable table(problem);
  SearchRules rules;
  rules.turns = true;
  rules.message_buffers = false;
  const Budget budget;
  SearchContext context(table, decompose_series_parallel(test.graph), rules, budget);
  const StageCosts costs(context.columns, 2, rules);
  ASSERT_EQ(costs.width_count(), 3);
  EXPECT_EQ(costs.width(2), 3);
  const Span spans[] = {{0, 1}};
  context.accumulator.add(spans[0]);
  const StageSums& sums = context.accumulator.sums();
  EXPECT_NEAR(costs.tps_s(sums, spans, 0), 3e-3, 1e-9);
  EXPECT_NEAR(costs.tps_s(sums, spans, 2), 1e-3, 1e-9);
  EXPECT_EQ(costs.level_above(0, 2), 3);
  EXPECT_EQ(costs.level_above(1, 2), 6);
  EXPECT_EQ(costs.level_above(3, 2), 6);
  const auto held = [&](std::int64_t level) { return costs.memory_bytes(sums, spans, 2, level); };
  EXPECT_EQ(held(6), held(4));                        // two micro-batches in the fullest replica
  EXPECT_EQ(held(6) - held(3), 2 * (1000 + 2 * 64));  // two samples, and tensors of 64 bytes
  EXPECT_EQ(costs.least_width(sums, spans, 3, 1e-3), -1);  // of stages that may not be replicated
}

// 1 MB to sum between four devices at 1 GB/s takes 1.5 ms, of which a backward hides all but a
// quarter or what outlasts it.
TEST(StageCosts, CountTheReductionWhereAskedTo) {
  TestProblem test = even_problem({{}}, 4, 12);
  test.graph.params[0].shape = {250'000};
  for (Level& level : test.cluster.levels) level.link.bandwidth_bytes_per_s = 1e9;
  const Problem problem = test.problem();
  const Budget budget;
  const auto tps_s = [&](bool reduction, double seconds) {
    test.costs.ops[0].per_sample_s = seconds;
    CostTable table(problem);
    SearchRules rules;
    rules.reduction = reduction;
    rules.widths = {4};
    SearchContext context(table, decompose_series_parallel(test.graph), rules, budget);
    const StageCosts costs(context.columns, 4, rules);
    const Span spans[] = {{0, 1}};
    context.accumulator.add(spans[0]);
    return costs.tps_s(context.accumulator.sums(), spans, 0);
  };
  const double all_s = problem.costs->reduce_s(1'000'000, 4, test.cluster.levels[0].link);
  EXPECT_NEAR(all_s, 1.5e-3, 1e-4);
  EXPECT_NEAR((tps_s(true, 1e-2) - tps_s(false, 1e-2)) * 12, all_s / 4, 1e-9);
  EXPECT_NEAR((tps_s(true, 1e-5) - tps_s(false, 1e-5)) * 12, all_s - 2e-5, 1e-9);
}

TEST(StageAccumulator, DoesNotDependOnTheOrder) {
  const TestProblem test = random_problem(random_reads(12, 7), 4, 24, true, 7);
  const Problem problem = test.problem();
  CostTable table(problem);
  const Pieces pieces = make_pieces(table, decompose_series_parallel(test.graph), true);
  StageAccumulator forward(pieces);
  StageAccumulator backward(pieces);
  for (int p = 2; p < 9; ++p) {
    forward.add(p);
    backward.add(10 - p);
  }
  EXPECT_EQ(forward.sums().in.of(3), backward.sums().in.of(3));
  EXPECT_EQ(forward.sums().out.of(3), backward.sums().out.of(3));
  EXPECT_EQ(forward.sums().saved.of(3), backward.sums().saved.of(3));
  EXPECT_EQ(forward.sums().crossing, backward.sums().crossing);
  EXPECT_EQ(forward.sums().message_count, backward.sums().message_count);
  EXPECT_EQ(forward.sums().static_bytes, backward.sums().static_bytes);
  forward.clear();
  forward.add(Span{2, 9});
  EXPECT_EQ(forward.sums().in.of(3), backward.sums().in.of(3));
}

TEST(StageCosts, OfWidthsThatGiveATaskTheSameSamplesTheLeastIsTried) {
  const TestProblem test = even_problem({{}}, 32, 64);
  const Problem problem = test.problem();
  CostTable table(problem);
  const SearchRules rules;
  const Budget budget;
  SearchContext context(table, decompose_series_parallel(test.graph), rules, budget);
  const auto widths = [&](std::int64_t b) {
    const StageCosts costs(context.columns, b, rules);
    std::vector<int> found;
    for (int i = 0; i < costs.width_count(); ++i) found.push_back(costs.width(i));
    return found;
  };
  EXPECT_EQ(widths(1), (std::vector<int>{1}));
  EXPECT_EQ(widths(8), (std::vector<int>{1, 2, 3, 4, 8}));
  EXPECT_EQ(widths(64), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32}));
}

std::string text(const std::vector<std::vector<DeviceId>>& placement) {
  std::string text;
  for (const std::vector<DeviceId>& devices : placement) {
    for (const DeviceId device : devices) text += std::to_string(device.value) + " ";
    text += "| ";
  }
  return text;
}

TEST(Placement, NeighboursShareNodesAndReplicasStayInOne) {
  const Cluster cluster = test_cluster(12, 4);
  EXPECT_EQ(text(place_stages(cluster, {1, 1, 1, 1, 2})), "0 | 1 | 2 | 3 | 4 5 | ");
  // The stage of 4 goes to a node of its own, and the next one back beside its neighbour.
  EXPECT_EQ(text(place_stages(cluster, {3, 4, 1, 4})), "0 1 2 | 4 5 6 7 | 8 | 3 9 10 11 | ");
  EXPECT_EQ(text(place_stages(cluster, {2, 3, 2})), "0 1 | 4 5 6 | 8 9 | ");
  EXPECT_EQ(text(place_stages(cluster, {6, 6})), "0 1 2 3 4 5 | 6 7 8 9 10 11 | ");
}

}  // namespace
}  // namespace graphpipe
