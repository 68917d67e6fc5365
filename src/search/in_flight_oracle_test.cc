// The rule for in-flight counts against every choice of counts, where messages take no time and
// all stages take the same a sample: no choice is faster.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planners/in_flight.h"
#include "planners/test_problems.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

constexpr int kMiniBatch = 16;
constexpr std::int64_t kMostTried = 12;  // samples in flight; beyond, all of them

struct StageGraph {
  std::string name;
  Dependencies before;  // [stage]
};

const std::vector<StageGraph> kStageGraphs = {
    {"chain of two", {{}, {0}}},
    {"chain of three", {{}, {0}, {1}}},
    {"join of two", {{}, {}, {0, 1}}},
    {"fork into two", {{}, {0}, {0}}},
    {"chain of three with a skip", {{}, {0}, {0, 1}}},
    {"chain of four", {{}, {0}, {1}, {2}}},
    {"join of three", {{}, {}, {}, {0, 1, 2}}},
    {"fork into three", {{}, {0}, {0}, {0}}},
    {"diamond", {{}, {0}, {0}, {1, 2}}},
    {"chain of four with a skip over one", {{}, {0}, {1}, {0, 2}}},
    {"chain of four with a skip over two", {{}, {0}, {1}, {2, 0}}},
};

// A second a sample forward, two backward: each stage does its static order as soon as it can.
class Pipeline {
 public:
  Pipeline(const Dependencies& before, std::vector<int> sizes)
      : before_(before), sizes_(std::move(sizes)), after_(before.size()) {
    for (std::size_t s = 0; s < before.size(); ++s) {
      for (const int from : before[s]) after_[index(from)].push_back(static_cast<int>(s));
    }
  }

  int iteration_s(const std::vector<std::int64_t>& in_flight) {
    forward_end_.assign(before_.size(), {});
    backward_end_.assign(before_.size(), {});
    std::vector<int> now(before_.size(), 0);
    for (bool any = true; any;) {
      any = false;
      for (std::size_t s = 0; s < before_.size(); ++s) {
        while (run_next(s, in_flight[s] / sizes_[s], now[s])) any = true;
      }
    }
    for (std::size_t s = 0; s < before_.size(); ++s) {
      const bool done = static_cast<int>(backward_end_[s].size()) == kMiniBatch / sizes_[s];
      if (!done) return INT32_MAX;  // stages wait for one another
    }
    return *std::ranges::max_element(now);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  bool run_next(std::size_t s, std::int64_t warm_up, int& now) {
    const int tasks = kMiniBatch / sizes_[s];
    const auto forwards = static_cast<int>(forward_end_[s].size());
    const auto backwards = static_cast<int>(backward_end_[s].size());
    if (backwards == tasks) return false;
    const bool forward = forwards < tasks && forwards - backwards < warm_up;
    const int end = ((forward ? forwards : backwards) + 1) * sizes_[s];
    int start = now;
    for (const int other : forward ? before_[s] : after_[s]) {
      const std::vector<int>& ends = (forward ? forward_end_ : backward_end_)[index(other)];
      const std::size_t needed = index((end + sizes_[index(other)] - 1) / sizes_[index(other)]) - 1;
      if (needed >= ends.size()) return false;
      start = std::max(start, ends[needed]);
    }
    now = start + sizes_[s] * (forward ? 1 : 2);
    (forward ? forward_end_ : backward_end_)[s].push_back(now);
    return true;
  }

  const Dependencies& before_;
  std::vector<int> sizes_;
  Dependencies after_;
  std::vector<std::vector<int>> forward_end_;  // [stage][task]
  std::vector<std::vector<int>> backward_end_;
};

// Counts of a stage worth trying, up to all.
std::vector<std::int64_t> counts_of(int size) {
  std::vector<std::int64_t> counts;
  for (std::int64_t n = size; n <= kMostTried; n += size) counts.push_back(n);
  counts.push_back(kMiniBatch);
  return counts;
}

int best_of_all_counts_s(const Dependencies& before, const std::vector<int>& sizes) {
  Pipeline pipeline(before, sizes);
  std::vector<std::vector<std::int64_t>> choices;
  for (const int size : sizes) choices.push_back(counts_of(size));
  std::vector<std::size_t> chosen(sizes.size(), 0);
  int best_s = INT32_MAX;
  while (true) {
    std::vector<std::int64_t> counts;
    for (std::size_t s = 0; s < sizes.size(); ++s) counts.push_back(choices[s][chosen[s]]);
    best_s = std::min(best_s, pipeline.iteration_s(counts));
    std::size_t s = 0;
    while (s < sizes.size() && ++chosen[s] == choices[s].size()) chosen[s++] = 0;
    if (s == sizes.size()) return best_s;
  }
}

// One operator and one device a stage; counts by the rule.
Plan plan_of(const TestProblem& test, const std::vector<int>& sizes) {
  Plan plan = empty_plan(test.problem(), "test");
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    Stage stage;
    stage.ops = {OpId(s)};
    stage.devices = {DeviceId(s)};
    stage.micro_batch = sizes[s];
    plan.stages.push_back(std::move(stage));
  }
  canonicalise(plan, test.graph);
  set_in_flight(plan, least_in_flight(plan));
  return plan;
}

std::vector<std::vector<int>> all_sizes(std::size_t stages) {
  std::vector<std::vector<int>> all = {{}};
  for (std::size_t s = 0; s < stages; ++s) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& sizes : all) {
      for (const int size : {1, 2, 4}) {
        longer.push_back(sizes);
        longer.back().push_back(size);
      }
    }
    all = std::move(longer);
  }
  return all;
}

TEST(LeastInFlight, NoOtherCountsAreFasterOnGraphsOfUpToFourStages) {
  int cases = 0;
  for (const auto& [name, before] : kStageGraphs) {
    TestProblem test = even_problem(before, static_cast<int>(before.size()), kMiniBatch);
    for (AffineCosts::Op& op : test.costs.ops) op.per_sample_s = 1;
    for (Level& level : test.cluster.levels) level.link = {.bandwidth_bytes_per_s = 1e30};
    for (const std::vector<int>& sizes : all_sizes(before.size())) {
      const Plan plan = plan_of(test, sizes);
      std::vector<std::int64_t> counts(sizes.size());
      for (const Stage& stage : plan.stages) {
        counts[stage.ops[0].index()] = stage.in_flight_samples;
      }
      const int rule_s = Pipeline(before, sizes).iteration_s(counts);
      const std::string where = fmt::format("{}, sizes {}", name, fmt::join(sizes, ","));
      EXPECT_EQ(rule_s, best_of_all_counts_s(before, sizes)) << where;
      const double simulated_s =
          simulate_plan(plan, test.graph, test.cluster, test.costs).iteration_s;
      EXPECT_NEAR(simulated_s, rule_s, 1e-6) << where;
      ++cases;
    }
  }
  EXPECT_EQ(cases, 9 + 4 * 27 + 6 * 81);
}

}  // namespace
}  // namespace graphpipe
