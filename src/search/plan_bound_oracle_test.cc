// The lower bound against plain enumeration: no plan that the verifier passes is simulated
// to be faster, over all convex partitions of small random graphs into stages, device
// counts, kinds of replication, micro-batch sizes (each stage its own), k, in-flight counts,
// recomputation, schedules, and stages that share a device.
//
// GP_BOUND_PROBLEMS=200 runs so many problems (a few minutes); the default is a few seconds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "planners/test_problems.h"
#include "schedule/verify.h"
#include "search/plan_bound.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

constexpr int kDevices = 3;
const std::vector<std::int64_t> kSizes = {1, 2, 4};

Dependencies random_dependencies(const CounterRandom& random, std::uint64_t& drawn) {
  const auto ops = static_cast<std::size_t>(2 + random.below(drawn++, 3));
  Dependencies before(ops);
  for (std::size_t v = 1; v < ops; ++v) {
    for (std::size_t u = 0; u < v; ++u) {
      if (random.uniform(drawn++) < 0.45) before[v].push_back(static_cast<int>(u));
    }
  }
  return before;
}

class Enumeration {
 public:
  // Keeps one plan in so many, drawn by `random`.
  Enumeration(const TestProblem& test, double share, const CounterRandom& random)
      : test_(test), problem_(test.problem()), share_(share), random_(random) {}

  void run() {
    Plan plan = empty_plan(problem_, "enumeration");
    partition(plan, 0);
  }
  double fastest_s(bool halves) const { return fastest_s_[halves ? 1 : 0]; }
  int plans() const { return plans_; }

 private:
  void partition(Plan& plan, std::size_t op) {
    if (op == test_.graph.op_count()) {
      Plan ordered = plan;
      ordered.edges = data_edges(test_.graph, ordered.stages);
      try {  // a partition that is not convex or not acyclic has no order
        for (Stage& stage : ordered.stages) stage.devices = {DeviceId(0)};
        canonicalise(ordered, test_.graph);
        validate(ordered, test_.graph, test_.cluster, "plan");
      } catch (const InputError&) {
        return;
      } catch (const InternalError&) {
        return;
      }
      choose_stage(ordered, 0, 0);
      return;
    }
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      plan.stages[s].ops.push_back(OpId(op));
      partition(plan, op + 1);
      plan.stages[s].ops.pop_back();
    }
    plan.stages.emplace_back().ops = {OpId(op)};
    partition(plan, op + 1);
    plan.stages.pop_back();
  }

  // Devices, replication, micro-batch and k of stage s and those after it.
  void choose_stage(Plan& plan, std::size_t s, int used) {
    if (s == plan.stages.size()) return choose_rest(plan);
    Stage& stage = plan.stages[s];
    for (int width = 1; width <= kDevices; ++width) {
      // The last devices may be shared with the stage before.
      const int first = std::min(used, kDevices - width);
      stage.devices.clear();
      for (int d = 0; d < width; ++d) stage.devices.emplace_back(first + d);
      for (const std::int64_t b : kSizes) {
        stage.micro_batch = b;
        for (const Replication kind : {Replication::kSplit, Replication::kRoundRobin}) {
          if (width == 1 && kind == Replication::kRoundRobin) continue;
          if (kind == Replication::kSplit && width > b) continue;
          stage.replication = kind;
          for (const bool again : {false, true}) {
            if (again && !test_.options.recompute) continue;
            stage.recompute = again;
            if (random_.uniform(drawn_++) > 0.6) continue;
            choose_stage(plan, s + 1, std::min(kDevices, used + width));
          }
        }
      }
    }
  }

  void choose_rest(Plan& plan) {
    if (random_.uniform(drawn_++) > share_) return;
    for (const int k : {1, 2}) {
      for (Stage& stage : plan.stages) stage.kfkb = k;
      for (const ScheduleKind kind :
           {ScheduleKind::k1F1B, ScheduleKind::kGpipe, ScheduleKind::kZbH1}) {
        if (k > 1 && kind != ScheduleKind::k1F1B) continue;
        plan.schedule = kind;
        const std::vector<std::int64_t> least = least_in_flight(plan);
        for (const std::int64_t factor : {1, 2, 4}) {
          for (std::size_t s = 0; s < plan.stages.size(); ++s) {
            plan.stages[s].in_flight_samples = std::min(plan.mini_batch, factor * least[s]);
          }
          judge(plan);
        }
      }
    }
  }

  void judge(const Plan& plan) {
    if (!verify_plan(plan, test_.graph, test_.cluster, test_.costs).ok()) return;
    ++plans_;
    double& fastest_s = fastest_s_[plan.schedule == ScheduleKind::kZbH1 ? 1 : 0];
    fastest_s = std::min(fastest_s,
                         simulate_plan(plan, test_.graph, test_.cluster, test_.costs).iteration_s);
  }

  const TestProblem& test_;
  Problem problem_;
  double share_;
  const CounterRandom& random_;
  std::uint64_t drawn_ = 1'000'000;
  double fastest_s_[2] = {std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::infinity()};
  int plans_ = 0;
};

TestProblem drawn_problem(std::uint64_t seed, const CounterRandom& random) {
  std::uint64_t drawn = 0;
  const Dependencies before = random_dependencies(random, drawn);
  const auto mini_batch = static_cast<std::int64_t>(3 + random.below(drawn++, 7));
  TestProblem test = random_problem(before, kDevices, mini_batch, seed % 2 == 1, seed);
  test.options.micro_batches.clear();
  for (const std::int64_t b : kSizes) {
    if (b <= mini_batch) test.options.micro_batches.push_back(b);
  }
  test.options.recompute = seed % 4 == 3;
  test.options.optimizer = seed % 3 == 0 ? OptimizerKind::kAdam : OptimizerKind::kSgd;
  if (seed % 5 == 0) test.cluster.cores_per_node = 1;
  if (seed % 3 == 1) {  // gradients that take long to sum
    for (Parameter& param : test.graph.params) param.shape[0] *= 20;
    test.cluster.types[0].memory_bytes *= seed % 2 == 1 ? 20 : 1;
    for (Level& level : test.cluster.levels) level.link.bandwidth_bytes_per_s = 1e7;
  }
  return test;
}

TEST(PlanLowerBound, IsBelowEveryPlanOfAnEnumeration) {
  const char* asked = std::getenv("GP_BOUND_PROBLEMS");
#ifdef __SANITIZE_ADDRESS__  // all of it takes a minute
  constexpr std::uint64_t kProblems = 8;
#else
  constexpr std::uint64_t kProblems = 24;
#endif
  const std::uint64_t problems = asked == nullptr ? kProblems : std::strtoull(asked, nullptr, 10);
  const double share = asked == nullptr ? 0.01 : 0.05;
  int plans = 0;
  int feasible = 0;
  double nearness = 0;
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    const CounterRandom random(seed);
    const TestProblem test = drawn_problem(seed, random);
    Enumeration all(test, share, random);
    all.run();
    plans += all.plans();
    const double fastest_s = all.fastest_s(false);
    const double least_s = plan_lower_bound(test.problem(), ScheduleKind::k1F1B).seconds;
    const double halved_s = plan_lower_bound(test.problem(), ScheduleKind::kZbH1).seconds;
    EXPECT_LE(least_s, fastest_s) << "seed " << seed;
    EXPECT_LE(halved_s, std::min(fastest_s, all.fastest_s(true))) << "seed " << seed;
    EXPECT_LE(halved_s, least_s) << "seed " << seed;
    if (fastest_s == std::numeric_limits<double>::infinity()) continue;
    ++feasible;
    nearness += least_s / fastest_s;
  }
  std::cout << plans << " plans of " << feasible << " problems; the bound is on average "
            << nearness / feasible << " of the fastest\n";
  EXPECT_GT(plans, 40 * static_cast<int>(problems));
  EXPECT_GT(nearness / feasible, 0.6);  // a bound of zero would pass the above
}

}  // namespace
}  // namespace graphpipe
