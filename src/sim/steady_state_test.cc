// Counting repetitions instead of running them changes nothing.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "schedule/build.h"
#include "schedule/lower.h"
#include "sim/engine.h"
#include "sim/simulator.h"
#include "sim/test_pipelines.h"

namespace graphpipe {
namespace {

struct Run {
  Programs programs;
  std::unique_ptr<Engine> engine;
};

std::unique_ptr<Run> run(const Pipeline& p, bool skip_repeats) {
  const Schedule lowered =
      lower(build_schedule(p.plan, p.graph, p.plan.mini_batch), p.plan, p.graph);
  auto result = std::make_unique<Run>();
  result->programs = compile(lowered, p.plan, p.graph, p.cluster, p.costs);
  result->engine = std::make_unique<Engine>(result->programs, nullptr);
  EXPECT_TRUE(result->engine->run(skip_repeats)) << "a stall";
  return result;
}

// Repetitions that were skipped. The rest of the two runs must be the same.
std::int64_t expect_same(const Pipeline& p, const std::string& about) {
  const auto full = run(p, false);
  const auto skipping = run(p, true);
  EXPECT_EQ(full->engine->skipped_repeats(), 0);
  EXPECT_EQ(full->engine->iteration_s(), skipping->engine->iteration_s()) << about;
  for (int r = 0; r < static_cast<int>(full->programs.ranks.size()); ++r) {
    EXPECT_EQ(full->engine->busy_s(r), skipping->engine->busy_s(r)) << about;
    EXPECT_EQ(full->engine->peak_memory_bytes(r), skipping->engine->peak_memory_bytes(r)) << about;
    EXPECT_EQ(full->engine->position(r), skipping->engine->position(r)) << about;
  }
  return skipping->engine->skipped_repeats();
}

TEST(SteadyState, OfAChainIsSkippedButForAFewRepetitions) {
  const Pipeline p = make_pipeline({"0>1 1>2 2>3", {4, 3, 2, 1}, 1000});
  EXPECT_GT(expect_same(p, "chain"), 980);
  EXPECT_DOUBLE_EQ(simulate_plan(p.plan, p.graph, p.cluster, p.costs, {}, true).iteration_s,
                   3 * 1003);
}

TEST(SteadyState, WithTransfersIsSkippedToo) {
  Pipeline p = make_pipeline({"0>2 1>2 2>3 1>3", {7, 7, 4, 1}, 1000});
  p.cluster.levels[0].link = {.bandwidth_bytes_per_s = 1000, .latency_s = 0.25};
  EXPECT_GT(expect_same(p, "skip edge"), 900);
}

// The long branch is faster, so it governs the first 60 micro-batches or so; a line
// through two shorter runs would be far off.
TEST(SteadyState, OfASlowShortBranchIsFoundThoughItComesLate) {
  const Pipeline p = make_pipeline({.edges = "0>1 1>2 2>3 3>4 4>5 5>6 6>8 7>8",
                                    .in_flight = {9, 8, 7, 6, 5, 4, 3, 3, 1},
                                    .samples = 2000,
                                    .forward_s = {1, 1, 1, 1, 1, 1, 1, 1.125, 1}});
  EXPECT_GT(expect_same(p, "slow short branch"), 1000);
}

TEST(SteadyState, ThatIsNeverReachedIsRunInFull) {
  // Two pipelines that do not meet, with periods of 3 s and 2.9999 s.
  const Pipeline p = make_pipeline({.edges = "0>2 1>3",
                                    .in_flight = {2, 2, 1, 1},
                                    .samples = 200,
                                    .forward_s = {1, 0.99997, 1, 0.99997}});
  EXPECT_EQ(expect_same(p, "two speeds"), 0);
}

TEST(SteadyState, SkippedGivesWhatTheFullRunGivesOnRandomPipelines) {
  int skipped = 0;
  constexpr int kCases = 500;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    const std::string about = fmt::format("seed {}", seed);
    if (expect_same(random_pipeline(seed), about) > 0) ++skipped;
  }
  EXPECT_GT(skipped, kCases / 2) << "too few cases repeat to say anything";
}

}  // namespace
}  // namespace graphpipe
