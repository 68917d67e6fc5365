// Random models by random plans: nothing stalls, gradients are those of one device, and memory
// is within the verifier's bound.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cost/analytic.h"
#include "data/dataset.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "equivalence/random_cases.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 64;
constexpr std::uint64_t kCases = 500;
constexpr double kTolerance = 1e-9;  // float64; sums of gradients that nearly cancel included

// What tensors are made of beside operators' values: a few numbers, losses and norms to be
// added up over ranks.
constexpr std::int64_t kSmallTensorsBytes = 256;

// Programs that would wait for each other are refused before anything runs: with sizes and k
// drawn freely there are some.
Verification verification_of(const RandomCase& c) {
  const Graph graph = graph_of(c);
  const Plan plan = plan_of(c, graph);
  return verify_plan(plan, graph, test_cluster(devices_used(plan)), AnalyticCosts());
}

bool reduces_within_a_backward(const RandomCase& c) {
  const Graph graph = graph_of(c);
  const Plan plan = plan_of(c, graph);
  const Schedule lowered = lower(build_schedule(plan, graph, plan.mini_batch), plan, graph);
  return std::ranges::any_of(lowered.ranks, [](const RankProgram& program) {
    return std::ranges::any_of(program.prologue, &OpId::valid, &Action::after) ||
           std::ranges::any_of(program.epilogue, &OpId::valid, &Action::after);
  });
}

// Mini-batches are never larger than the plan's, for which memory is verified.
std::string memory_fault(const Verification& verification, const Outcome& got) {
  for (std::size_t r = 0; r < got.peak_bytes.size(); ++r) {
    const RankMemory& memory = verification.memory[r];
    if (got.peak_bytes[r] <= memory.peak_bytes + kSmallTensorsBytes) continue;
    return fmt::format("rank {} takes {} bytes, not the {} of {}", r, got.peak_bytes[r],
                       memory.peak_bytes, memory.peak_at);
  }
  return "";
}

std::string fault_of(const RandomCase& c) {
  const Graph graph = graph_of(c);
  const Plan plan = plan_of(c, graph);
  const Verification verification = verification_of(c);
  if (!verification.ok()) return "";
  const auto dataset = synthetic_dataset(graph, kSamples, 7);
  const Lesson lesson = lesson_of(c, kSamples);
  try {
    const Outcome got = train_by_plan(plan, graph, *dataset, lesson);
    if (!got.holders_differ.empty()) return got.holders_differ;
    if (std::string fault = memory_fault(verification, got); !fault.empty()) return fault;
    const Outcome expected = train_on_one_device(graph, *dataset, lesson, c.mini_batch);
    const Difference difference = largest_difference(expected, got);
    if (difference.relative > kTolerance) {
      return fmt::format("{} differs by {:.3g}", difference.where, difference.relative);
    }
    for (const auto& [name, value] : expected.metrics) {
      if (std::abs(got.metrics.at(name) - value) > 1e-9 * (1 + std::abs(value))) {
        return fmt::format("{} of the evaluation: {}, not {}", name, got.metrics.at(name), value);
      }
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(RandomPlans, TrainAsOneDeviceDoes) {
  std::uint64_t trained = 0;
  std::uint64_t within = 0;
  for (std::uint64_t seed = 1; seed <= kCases; ++seed) {
    const RandomCase c = random_case(seed);
    const std::string fault = fault_of(c);
    const bool ok = verification_of(c).ok();
    trained += ok ? 1 : 0;
    within += ok && reduces_within_a_backward(c) ? 1 : 0;
    if (fault.empty()) continue;
    const RandomCase small = shrink(c, fault_of);
    FAIL() << "seed " << seed << ": " << fault << "\n  " << to_text(c)
           << "\nsmallest: " << fault_of(small) << "\n  " << to_text(small);
  }
  EXPECT_GE(trained, kCases * 3 / 4) << "of " << kCases;
  EXPECT_GE(within, kCases / 50) << "of " << kCases;
}

}  // namespace
}  // namespace graphpipe
