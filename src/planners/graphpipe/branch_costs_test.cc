#include "planners/graphpipe/branch_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "planners/graphpipe/target_search.h"
#include "planners/test_problems.h"

namespace graphpipe {
namespace {

// Single operators side by side, lighter than a device at a target of one second.
TestProblem branches_problem(const std::vector<double>& seconds) {
  TestProblem test = even_problem(Dependencies(seconds.size()), 16, 1);
  for (std::size_t op = 0; op < seconds.size(); ++op) {
    test.costs.ops[op] = {.per_sample_s = seconds[op] / 3};
  }
  return test;
}

std::vector<double> random_seconds(std::size_t n, std::uint64_t seed) {
  const CounterRandom random(seed);
  std::vector<double> seconds;
  for (std::uint64_t i = 0; i < n; ++i) seconds.push_back(0.05 + 0.6 * random.uniform(i));
  return seconds;
}

int devices_found(const TestProblem& test) {
  const Problem problem = test.problem();
  CostTable table(problem);
  const SearchRules rules;
  const Budget budget;
  SearchContext context(table, decompose_series_parallel(test.graph), rules, budget);
  return TargetSearch(context, 1).ways(1.0).back().devices;
}

// The fewest bins of size one, over all subsets.
int fewest_bins(const std::vector<double>& seconds) {
  struct Filled {
    int bins = 0;
    double last = 0;
    bool operator<(const Filled& other) const {
      return bins != other.bins ? bins < other.bins : last < other.last;
    }
  };
  std::vector<Filled> best(std::size_t{1} << seconds.size(), {1 << 20, 0});
  best[0] = {1, 0};
  for (std::size_t set = 0; set < best.size(); ++set) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      if ((set >> i) & 1U) continue;
      Filled next = best[set];
      next.last += seconds[i];
      if (next.last > 1) next = {next.bins + 1, seconds[i]};
      Filled& there = best[set | (std::size_t{1} << i)];
      there = std::min(there, next);
    }
  }
  return best.back().bins;
}

TEST(BranchCosts, GroupsAreExactUpToEightBranches) {
  for (std::size_t n = 2; n <= 8; ++n) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const std::vector<double> seconds = random_seconds(n, 100 * n + seed);
      EXPECT_EQ(devices_found(branches_problem(seconds)), fewest_bins(seconds))
          << n << " branches, seed " << seed;
    }
  }
}

TEST(BranchCosts, ManyEqualBranchesAreExactToo) {
  // Three of 0.3 s fit a device: sixteen need six.
  EXPECT_EQ(devices_found(branches_problem(std::vector<double>(16, 0.3))), 6);
  // Eight of each: a device takes 0.6 + 0.3, or three of 0.3.
  std::vector<double> seconds(8, 0.6);
  seconds.insert(seconds.end(), 8, 0.3);
  EXPECT_EQ(devices_found(branches_problem(seconds)), 8);
}

TEST(BranchCosts, FirstFitDecreasingIsNearTheExactGroupsOfNineToTwelveBranches) {
  int cases = 0;
  int worse = 0;
  int most = 0;
  double excess = 0;
  for (std::size_t n = 9; n <= 12; ++n) {
    for (std::uint64_t seed = 0; seed < 25; ++seed, ++cases) {
      const std::vector<double> seconds = random_seconds(n, 100 * n + seed);
      const int exact = fewest_bins(seconds);
      const int found = devices_found(branches_problem(seconds));
      EXPECT_GE(found, exact);
      worse += found > exact ? 1 : 0;
      most = std::max(most, found - exact);
      excess += static_cast<double>(found) / exact - 1;
    }
  }
  std::cout << "first-fit-decreasing needs more devices in " << worse << " of " << cases
            << " cases, " << most << " at most; mean excess " << 100 * excess / cases << " %\n";
  EXPECT_LE(excess / cases, 0.05);
  EXPECT_LE(most, 1);
}

}  // namespace
}  // namespace graphpipe
