#include "planners/graphpipe/graphpipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "plan/plan_json.h"
#include "plan/stage_memory.h"
#include "planners/stage_tps.h"
#include "planners/test_problems.h"

namespace graphpipe {
namespace {

Dependencies chain(int n) {
  Dependencies before(static_cast<std::size_t>(n));
  for (int v = 1; v < n; ++v) before[static_cast<std::size_t>(v)] = {v - 1};
  return before;
}

// Branches of `length` operators each, joined by one operator.
Dependencies joined_branches(int branches, int length) {
  Dependencies before;
  std::vector<int> ends;
  for (int branch = 0; branch < branches; ++branch) {
    for (int i = 0; i < length; ++i) {
      before.emplace_back();
      if (i > 0) before.back() = {static_cast<int>(before.size()) - 2};
    }
    ends.push_back(static_cast<int>(before.size()) - 1);
  }
  before.push_back(ends);
  return before;
}

// Any graph, with several sources and sinks.
Dependencies random_dependencies(int n, std::uint64_t seed) {
  const CounterRandom random(seed);
  Dependencies before(static_cast<std::size_t>(n));
  for (int v = 1; v < n; ++v) {
    for (int u = std::max(0, v - 4); u < v; ++u) {
      if (random.uniform(static_cast<std::uint64_t>(u * n + v)) < 0.35) {
        before[static_cast<std::size_t>(v)].push_back(u);
      }
    }
  }
  return before;
}

// The least of the largest sums over cuts of a chain, by plain dynamic programming.
double least_largest_run(const std::vector<double>& seconds, int runs) {
  std::vector<double> best(seconds.size() + 1, std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (int k = 0; k < runs; ++k) {
    std::vector<double> next(best.size(), std::numeric_limits<double>::infinity());
    for (std::size_t from = 0; from < seconds.size(); ++from) {
      double sum = 0;
      for (std::size_t to = from; to < seconds.size(); ++to) {
        sum += seconds[to];
        next[to + 1] = std::min(next[to + 1], std::max(best[from], sum));
      }
    }
    for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], next[i]);
  }
  return best.back();
}

PlanResult plan(const TestProblem& test) { return plan_graphpipe(test.problem(), Budget()); }

TEST(Graphpipe, SequentialModelIsCutLikeAChain) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    TestProblem test = random_problem(chain(24), 5, 32, false, seed);
    test.options.data_parallel = false;
    test.options.micro_batches = {4};
    std::vector<double> seconds;
    for (const AffineCosts::Op& op : test.costs.ops) {
      seconds.push_back(3 * (op.fixed_s + 4 * op.per_sample_s) / 4);
    }
    const double expected = least_largest_run(seconds, 5);
    EXPECT_NEAR(least_target_s(test.problem(), 4, SearchRules()).value(), expected, 1e-9 * expected)
        << "seed " << seed;
    const PlanResult result = plan(test);
    ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
    for (const Plan& p : result.candidates) {
      EXPECT_EQ(pipeline_depth(p), static_cast<int>(p.stages.size()));
    }
  }
}

TEST(Graphpipe, BranchesBecomeParallelStages) {
  // Four branches of 8 on 16 devices: 4 stages a branch, and the join rides with the end of
  // one. A sequential pipeline would be 16 deep.
  TestProblem test = even_problem(joined_branches(4, 8), 16, 64);
  test.costs.ops.back().per_sample_s = 1e-5;
  test.options.data_parallel = false;
  test.options.micro_batches = {4};
  const PlanResult result = plan(test);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  const Plan& best = result.candidates.front();
  EXPECT_EQ(best.stages.size(), 16U);
  EXPECT_EQ(pipeline_depth(best), 5);
  const auto join = std::ranges::find_if(
      best.stages, [](const Stage& stage) { return stage.ops.back() == OpId(32); });
  ASSERT_NE(join, best.stages.end());
  EXPECT_EQ(join->ops, (std::vector<OpId>{OpId(30), OpId(31), OpId(32)}));
  EXPECT_EQ(join->in_flight_samples, 4);
}

TEST(Graphpipe, StagesOfABranchSitInOneNode) {
  TestProblem test = even_problem(joined_branches(4, 8), 16, 64);
  test.costs.ops.back().per_sample_s = 1e-5;
  test.options.data_parallel = false;
  const Plan best = plan(test).candidates.front();
  for (const StageEdge& edge : best.edges) {
    const Stage& from = best.stage(edge.from);
    const Stage& to = best.stage(edge.to);
    if (to.ops.back() == OpId(32) && from.ops.back() != OpId(29)) continue;  // to the join
    EXPECT_EQ(from.devices[0].value / 4, to.devices[0].value / 4);
  }
}

TEST(Graphpipe, LightBranchesShareADevice) {
  // Two branches of 4 and four of 1: on three devices the light ones go together.
  Dependencies before = joined_branches(2, 4);
  before.pop_back();
  before.insert(before.end(), {{}, {}, {}, {}});
  before.push_back({3, 7, 8, 9, 10, 11});
  TestProblem test = even_problem(before, 3, 32);
  test.costs.ops.back().per_sample_s = 1e-5;
  test.options.data_parallel = false;
  EXPECT_NEAR(least_target_s(test.problem(), 4, SearchRules()).value(), 4 * 3e-3 + 3e-5, 1e-9);
}

TEST(Graphpipe, RefinementSplitsABranchOverOthersDevices) {
  // Three branches of 4 on two devices: whole branches make 8 | 4, a split one 6 | 6.
  TestProblem test = even_problem(joined_branches(3, 4), 2, 32);
  test.costs.ops.back().per_sample_s = 1e-5;
  test.options.data_parallel = false;
  EXPECT_NEAR(least_target_s(test.problem(), 4, SearchRules()).value(), 8 * 3e-3, 1e-9);
  EXPECT_NEAR(least_refined_target_s(test.problem(), 4, SearchRules()).value(), 6 * 3e-3 + 3e-5,
              1e-9);
}

TEST(Graphpipe, OneHeavyOperatorIsReplicated) {
  TestProblem test = even_problem(chain(3), 4, 32);
  test.costs.ops[1].per_sample_s = 2e-3;
  test.options.micro_batches = {8};
  // 1, 2, 1 over four devices, the middle on two of them.
  EXPECT_NEAR(least_target_s(test.problem(), 8, SearchRules()).value(), 3e-3, 1e-9);
  test.options.data_parallel = false;
  EXPECT_NEAR(least_target_s(test.problem(), 8, SearchRules()).value(), 6e-3, 1e-9);
  for (const Plan& p : plan(test).candidates) {
    for (const Stage& stage : p.stages) EXPECT_EQ(stage.devices.size(), 1U);
  }
}

// Twelve samples on three devices, four each, and a fourth for the operator whose parameters are
// dear to reduce: halves of a micro-batch would be as many, but not thirds.
TEST(Graphpipe, ReplicasTakeTurnsWhereThatIsEvener) {
  TestProblem test = even_problem(chain(2), 4, 12);
  test.costs.ops[0].per_sample_s = 3e-3;
  test.graph.params[1].shape = {1'000'000};
  for (Level& level : test.cluster.levels) level.link.bandwidth_bytes_per_s = 1e8;
  const auto turns = [](const Plan& plan) {
    return plan.stages.size() == 2 && plan.stages[0].devices.size() == 3 &&
           plan.stages[0].replication == Replication::kRoundRobin;
  };
  EXPECT_TRUE(std::ranges::any_of(plan(test).candidates, turns));
  test.options.data_parallel = false;
  EXPECT_FALSE(std::ranges::any_of(plan(test).candidates, turns));
}

TEST(Graphpipe, ResidualsAreCutInside) {
  // 0 -> 1 -> 2 -> 3 with a skip 0 -> 3: two stages cut it in the middle.
  TestProblem test = even_problem({{}, {0}, {1}, {0, 2}}, 2, 32);
  test.options.data_parallel = false;
  EXPECT_NEAR(least_target_s(test.problem(), 4, SearchRules()).value(), 2 * 3e-3, 1e-9);
}

TEST(Graphpipe, SlowLinksRaiseInFlightCounts) {
  TestProblem test = even_problem(chain(4), 4, 64);
  test.options.data_parallel = false;
  test.options.micro_batches = {4};
  const auto counts = [&] {
    std::vector<std::vector<std::int64_t>> all;
    for (const Plan& p : plan(test).candidates) {
      if (p.stages.size() < 4) continue;
      all.emplace_back();
      for (const Stage& stage : p.stages) all.back().push_back(stage.in_flight_samples / 4);
    }
    return all;
  };
  EXPECT_EQ(counts(), (std::vector<std::vector<std::int64_t>>{{4, 3, 2, 1}}));
  for (Level& level : test.cluster.levels) level.link.latency_s = 1e-3;  // a task takes 12 ms
  EXPECT_EQ(counts(), (std::vector<std::vector<std::int64_t>>{
                          {4, 3, 2, 1}, {7, 5, 3, 1}, {10, 7, 4, 1}, {8, 6, 4, 2}}));
}

TEST(Graphpipe, MemoryCapsInFlightCounts) {
  TestProblem test = even_problem(chain(4), 4, 64);
  test.options.data_parallel = false;
  test.options.micro_batches = {4};
  for (Level& level : test.cluster.levels) level.link.latency_s = 1e-3;
  for (AffineCosts::Op& op : test.costs.ops) op.saved_bytes_per_sample = 10'000;
  test.cluster.types[0].memory_bytes = 250'000;  // six micro-batches
  std::vector<std::vector<std::int64_t>> all;
  for (const Plan& p : plan(test).candidates) {
    if (p.stages.size() < 4) continue;
    all.emplace_back();
    for (const Stage& stage : p.stages) all.back().push_back(stage.in_flight_samples / 4);
  }
  EXPECT_EQ(all, (std::vector<std::vector<std::int64_t>>{
                     {4, 3, 2, 1}, {6, 5, 3, 1}, {6, 5, 4, 1}, {6, 5, 4, 2}}));
}

TEST(Graphpipe, EveryCandidateIsValidAndFits) {
  int plans = 0;
  int infeasible = 0;
  int recompute = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const int n = 3 + static_cast<int>(seed % 14);
    TestProblem test =
        random_problem(random_dependencies(n, seed), 4, 7 + static_cast<std::int64_t>(seed % 20),
                       seed % 2 == 1, seed);
    // Room for messages too, and not always enough.
    if (seed % 2 == 1) test.cluster.types[0].memory_bytes += static_cast<std::int64_t>(seed) * 100;
    test.options.data_parallel = seed % 3 != 0;
    test.options.recompute = seed % 4 == 3;
    const PlanResult result = plan(test);
    infeasible += result.status == PlanStatus::kInfeasible ? 1 : 0;
    EXPECT_EQ(result.status == PlanStatus::kOk, !result.candidates.empty()) << "seed " << seed;
    for (const Plan& p : result.candidates) {
      ++plans;
      for (const Stage& stage : p.stages) recompute += stage.recompute ? 1 : 0;
      EXPECT_NO_THROW(validate(p, test.graph, test.cluster, "plan")) << "seed " << seed;
      for (std::size_t s = 0; s < p.stages.size(); ++s) {
        EXPECT_LE(
            stage_memory(p, test.graph, test.costs, test.cluster.types[0], StageId(s)).total(),
            test.cluster.types[0].memory_bytes)
            << "seed " << seed;
      }
      for (const StageEdge& edge : p.edges) {  // or the successor waits for ever
        EXPECT_GE(p.stage(edge.from).in_flight_samples, p.stage(edge.to).in_flight_samples)
            << "seed " << seed;
      }
    }
  }
  EXPECT_GT(plans, 500);
  EXPECT_GT(recompute, 2);
  EXPECT_GT(infeasible, 2);
  EXPECT_LT(infeasible, 60);
}

// A chain of four equal operators on four devices. A sample saves 10,000 bytes on each, so that
// the first, with four in flight, does not fit into 25,000, nor does the second.
TEST(Graphpipe, RecomputesWhereMemoryDoesNotSuffice) {
  TestProblem test = even_problem(chain(4), 4, 64);
  for (AffineCosts::Op& op : test.costs.ops) op.saved_bytes_per_sample = 10'000;
  test.cluster.types[0].memory_bytes = 25'000;
  test.options.data_parallel = false;
  test.options.micro_batches = {1};
  EXPECT_EQ(plan(test).status, PlanStatus::kInfeasible);
  test.options.recompute = true;
  const PlanResult result = plan(test);
  ASSERT_EQ(result.status, PlanStatus::kOk) << result.reason;
  std::vector<bool> recompute;
  for (const Stage& stage : result.candidates.front().stages) recompute.push_back(stage.recompute);
  EXPECT_EQ(recompute, (std::vector<bool>{true, true, false, false}));
}

TEST(Graphpipe, DoesNotRecomputeWhereMemorySuffices) {
  TestProblem test = even_problem(joined_branches(2, 3), 4, 64);
  for (AffineCosts::Op& op : test.costs.ops) op.saved_bytes_per_sample = 10'000;
  const PlanResult kept = plan(test);
  test.options.recompute = true;
  const PlanResult result = plan(test);
  ASSERT_EQ(result.candidates.size(), kept.candidates.size());
  for (std::size_t i = 0; i < kept.candidates.size(); ++i) {
    EXPECT_EQ(plan_hash(result.candidates[i]), plan_hash(kept.candidates[i]));
  }
}

TEST(Graphpipe, SameProblemGivesTheSamePlans) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const TestProblem test = random_problem(random_dependencies(20, seed), 6, 32, false, seed);
    const PlanResult first = plan(test);
    const PlanResult second = plan(test);
    ASSERT_EQ(first.candidates.size(), second.candidates.size());
    EXPECT_EQ(first.work, second.work);
    for (std::size_t i = 0; i < first.candidates.size(); ++i) {
      EXPECT_EQ(to_json(first.candidates[i], test.graph),
                to_json(second.candidates[i], test.graph));
    }
  }
}

TEST(Graphpipe, NoTwoCandidatesAreEqual) {
  const TestProblem test = random_problem(joined_branches(3, 4), 6, 32, false, 3);
  std::vector<std::uint64_t> hashes;
  for (const Plan& p : plan(test).candidates) hashes.push_back(plan_hash(p));
  EXPECT_GT(hashes.size(), 3U);
  std::ranges::sort(hashes);
  EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end());
}

TEST(Graphpipe, VeryLongChainsAreCutCoarsely) {
  // 5,000 operators: items of several, and still within a hundredth of an even cut.
  TestProblem test = even_problem(chain(5000), 8, 64);
  test.options.data_parallel = false;
  test.options.micro_batches = {4};
  EXPECT_NEAR(least_target_s(test.problem(), 4, SearchRules()).value(), 5000 * 3e-3 / 8, 0.02);
  EXPECT_EQ(plan(test).candidates.front().stages.size(), 8U);
}

TEST(Graphpipe, StopsWhenAsked) {
  TestProblem test = even_problem(joined_branches(4, 8), 16, 64);
  Budget budget;
  budget.should_stop = [] { return true; };
  PlanResult result = plan_graphpipe(test.problem(), budget);
  ASSERT_EQ(result.status, PlanStatus::kOk);
  for (const Plan& p : result.candidates) EXPECT_EQ(p.stages.size(), 1U);  // needs no search
  test.cluster.types[0].memory_bytes = 3000;  // less than all parameters
  result = plan_graphpipe(test.problem(), budget);
  EXPECT_EQ(result.status, PlanStatus::kGaveUp);
  EXPECT_EQ(result.reason, "stopped before a plan was found");
}

TEST(Graphpipe, RefusesAGraphWithoutOperators) {
  TestProblem test = even_problem({}, 2, 8);
  const PlanResult result = plan(test);
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_EQ(result.reason, "the graph has no operators");
}

}  // namespace
}  // namespace graphpipe
