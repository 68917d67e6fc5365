// The estimate of stages against the simulation of ranks.

#include "search/stage_estimate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "planners/in_flight.h"
#include "planners/test_problems.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

// Random operators, a stage each, on one or two devices; sizes and rounds differ.
struct Case {
  TestProblem test;
  Plan plan;
};

Case random_case(std::uint64_t seed, bool free_links) {
  const CounterRandom random(seed + 7919);
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t n) { return random.below(drawn++, n); };
  Dependencies before(2 + below(5));
  for (std::size_t op = 1; op < before.size(); ++op) {
    for (std::size_t from = 0; from < op; ++from) {
      if (from + 1 == op ? below(4) != 0 : below(4) == 0) {
        before[op].push_back(static_cast<int>(from));
      }
    }
  }
  Case c;
  c.test = random_problem(before, 2 * static_cast<int>(before.size()), 0, false, seed);
  c.test.mini_batch = static_cast<std::int64_t>(20 + below(200));
  for (Level& level : c.test.cluster.levels) {
    level.link = free_links ? Link{.bandwidth_bytes_per_s = 1e30}
                            : Link{.bandwidth_bytes_per_s = 1e6, .latency_s = 2e-4};
  }
  c.plan = empty_plan(c.test.problem(), "test");
  int device = 0;
  const bool alike = below(2) == 0;
  for (std::size_t op = 0; op < before.size(); ++op) {
    Stage stage;
    stage.ops = {OpId(op)};
    stage.micro_batch = alike ? 2 : std::int64_t{1} << below(3);
    stage.kfkb = alike ? 1 : 1 + static_cast<int>(below(2));
    const int width =
        !free_links && stage.micro_batch % 2 == 0 ? 1 + static_cast<int>(below(2)) : 1;
    for (int d = 0; d < width; ++d) stage.devices.push_back(DeviceId(device++));
    c.plan.stages.push_back(std::move(stage));
  }
  canonicalise(c.plan, c.test.graph);
  set_in_flight(c.plan, in_flight_by_hops(c.plan, 1 + static_cast<std::int64_t>(below(2))));
  return c;
}

double ratio(const Case& c, bool extrapolate = false) {
  const Problem problem = c.test.problem();
  CostTable table(problem);
  const double exact_s =
      simulate_plan(c.plan, c.test.graph, c.test.cluster, c.test.costs, {}, extrapolate)
          .iteration_s;
  return StageEstimator(table).iteration_s(c.plan) / exact_s;
}

TEST(StageEstimate, IsTheSimulatedIterationWhereLinksCostNothing) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    EXPECT_NEAR(ratio(random_case(seed, true)), 1, 1e-6) << "seed " << seed;
  }
}

// Some of these come to their period late.
TEST(StageEstimate, OfManyMicroBatchesIsExtrapolated) {
  constexpr int kCases = 100;
  int exact = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    Case c = random_case(seed, true);
    c.plan.mini_batch = c.test.mini_batch = 20'000 + static_cast<std::int64_t>(seed);
    set_in_flight(c.plan, least_in_flight(c.plan));
    const double r = ratio(c, true);
    EXPECT_NEAR(r, 1, 0.08) << "seed " << seed;
    if (std::abs(r - 1) < 1e-6) ++exact;
  }
  EXPECT_GE(exact, kCases * 9 / 10);
}

TEST(StageEstimate, IsNearTheSimulatedIterationWhereMessagesTakeLong) {
  constexpr int kCases = 200;
  double off = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    off += std::abs(ratio(random_case(seed, false)) - 1);
  }
  EXPECT_LT(off / kCases, 0.03);
}

TEST(StageEstimate, DoesNotKnowPlansThatTakeTurns) {
  Case c = random_case(3, true);
  c.plan.stages[0].replication = Replication::kRoundRobin;
  const Problem problem = c.test.problem();
  CostTable table(problem);
  EXPECT_EQ(StageEstimator(table).iteration_s(c.plan), 0);
}

}  // namespace
}  // namespace graphpipe
