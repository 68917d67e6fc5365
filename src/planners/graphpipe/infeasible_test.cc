// What is said where nothing fits: certain where it claims to be, and what would do does.

#include "planners/graphpipe/infeasible.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "planners/graphpipe/graphpipe.h"
#include "planners/test_problems.h"

namespace graphpipe {
namespace {

PlanResult try_plan(const TestProblem& test) { return plan_graphpipe(test.problem(), Budget()); }

Dependencies chain_of(int length) {
  Dependencies before(1);
  for (int i = 1; i < length; ++i) before.push_back({i - 1});
  return before;
}

TEST(WhyInfeasible, NamesTheOperatorThatFitsNoDevice) {
  TestProblem test = even_problem(chain_of(3), 4, 8);
  test.graph.params[1].shape = {100'000};  // 400 kB, as much again for gradients
  test.cluster.types[0].memory_bytes = 500'000;
  const PlanResult result = try_plan(test);
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_TRUE(
      result.reason.starts_with("operator op1 alone needs 781 KiB of memory or more at "
                                "micro-batch 1, 293 KiB more than the 488 KiB of a device "
                                "(device): no plan within the options fits"))
      << result.reason;
}

TEST(WhyInfeasible, SaysHowManyDevicesWouldDo) {
  TestProblem test = even_problem(chain_of(8), 2, 8);
  for (Parameter& param : test.graph.params) param.shape = {100'000};  // 800 kB with gradients
  test.cluster.types[0].memory_bytes = 2'000'000;
  const PlanResult result = try_plan(test);
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_TRUE(
      result.reason.starts_with("weights, gradients and optimiser state take 6.10 MiB, "
                                "2.29 MiB more than the 3.81 MiB of 2 devices: no plan "
                                "fits"))
      << result.reason;
  EXPECT_NE(result.reason.find("; 4 devices at micro-batch 1 would do"), std::string::npos)
      << result.reason;
  test.cluster = test_cluster(4);
  test.cluster.types[0].memory_bytes = 2'000'000;
  EXPECT_EQ(try_plan(test).status, PlanStatus::kOk);
}

TEST(WhyInfeasible, SaysWhichSmallerMicroBatchWouldDo) {
  TestProblem test = even_problem(chain_of(3), 3, 64);
  for (AffineCosts::Op& op : test.costs.ops) op.saved_bytes_per_sample = 1000;
  test.cluster.types[0].memory_bytes = 40'000;
  test.options.data_parallel = false;
  test.options.micro_batches = {32};
  const PlanResult result = try_plan(test);
  EXPECT_EQ(result.status, PlanStatus::kInfeasible);
  EXPECT_NE(result.reason.find("micro-batch 8 would do on 3 devices"), std::string::npos)
      << result.reason;
  test.options.micro_batches = {8};
  EXPECT_EQ(try_plan(test).status, PlanStatus::kOk);
}

// The number before a phrase; 0 where it is not there.
std::int64_t number_in(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? std::stoll(match[1]) : 0;
}

TEST(WhyInfeasible, WhatWouldDoDoes) {
  int certain = 0;
  int reasons = 0;
  int counts = 0;
  const Dependencies before = {{}, {0}, {0}, {1}, {2}, {3, 4}, {5}};
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    TestProblem test = random_problem(before, 3, 16, true, seed);
    test.options.recompute = seed % 3 == 0;
    // From too little for one operator to nearly enough.
    test.cluster.types[0].memory_bytes /= static_cast<std::int64_t>(1 + seed % 4);
    const PlanResult result = try_plan(test);
    if (result.status != PlanStatus::kInfeasible) continue;
    ++reasons;
    const std::string& why = result.reason;
    certain += why.find("no plan within the options fits") != std::string::npos ||
                       why.find("no plan fits") != std::string::npos
                   ? 1
                   : 0;
    const std::int64_t devices = number_in(why, "; ([0-9]+) devices at micro-batch");
    if (devices == 0) continue;
    ++counts;
    TestProblem larger = test;
    larger.cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
    larger.cluster.levels.back().group_size = static_cast<int>(devices);
    larger.options.micro_batches = {number_in(why, "devices at micro-batch ([0-9]+) would do")};
    EXPECT_EQ(try_plan(larger).status, PlanStatus::kOk) << "seed " << seed << ": " << why;
  }
  EXPECT_GT(reasons, 20);
  EXPECT_GT(certain, 3);
  EXPECT_GT(counts, 5);
}

}  // namespace
}  // namespace graphpipe
