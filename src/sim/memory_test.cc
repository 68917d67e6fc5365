// Memory over time: the verifier's rule, with the times at which it changes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "plan/stage_memory.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/verify.h"
#include "sim/simulator.h"
#include "sim/test_pipelines.h"

namespace graphpipe {
namespace {

// Linear costs of which tasks take workspace and save something beside their tensors.
class CostsWithMemory : public LinearCosts {
 public:
  explicit CostsWithMemory(const LinearCosts& costs) : LinearCosts(costs) {}
  OpCost op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                 const DeviceType& device, Phase phase) const override {
    OpCost cost = LinearCosts::op_cost(graph, op, samples, tensor_degree, device, phase);
    cost.workspace_bytes = samples > 0 ? 1000 + 10 * samples : 0;
    if (phase == Phase::kForward) cost.saved_bytes = 100 * samples;
    return cost;
  }
};

// "0 12, 1 44": times and bytes of a rank.
std::string over_time(const Trace& trace, int rank) {
  std::string text;
  for (const MemorySample& sample : trace.memory) {
    if (sample.rank.value != rank) continue;
    text += fmt::format("{}{:g} {}", text.empty() ? "" : ", ", sample.time_s, sample.bytes);
  }
  return text;
}

TEST(Memory, RisesAndFallsWithWhatIsSaved) {
  // One stage: a weight and a bias of 4 bytes with their gradients; a sample saves its
  // input, its target, the prediction and the loss, 4 bytes each. Its backward works with the
  // gradients of the loss and of the prediction, and leaves nothing.
  const Pipeline p = make_pipeline({"", {2}, 2});
  const Trace trace = simulate_plan(p.plan, p.graph, p.cluster, p.costs, {.events = true});
  EXPECT_EQ(over_time(trace, 0), "0 16, 0 32, 1 48, 2 56, 4 32, 4 40, 6 16");
}

TEST(Memory, CountsMessagesFromPostToFreeAndFromStartToWait) {
  // 0 sends one sample and has its gradient back; latency 1 s there and back.
  Pipeline p = make_pipeline({"0>1", {1, 1}, 1});
  p.cluster.levels[0].link.latency_s = 1;
  const std::int64_t there = message_bytes(p.graph, p.plan.edges[0], 1, false);
  const std::int64_t back = message_bytes(p.graph, p.plan.edges[0], 1, true);
  const Trace trace = simulate_plan(p.plan, p.graph, p.cluster, p.costs, {.events = true});
  // Rank 0: posts the gradient; saves its input and output at the forward; sends at 1,
  // and the copy is waited for at the end; the gradient is freed after the backward, at 8.
  EXPECT_EQ(over_time(trace, 0),
            fmt::format("0 16, 0 {}, 0 {}, 1 {}, 8 {}, 8 {}, 8 16", 16 + back, 16 + back + 8,
                        16 + back + 8 + there, 16 + back + there, 16 + there));
  // Rank 1: the message is among what is saved once its forward has
  // run, at 2, but for its ids and header, and ends with the backward, from 3 to 5, which leaves
  // the gradient of the input; its own message leaves at 5.
  EXPECT_EQ(over_time(trace, 1),
            fmt::format("0 16, 0 {}, 2 {}, 3 {}, 5 20, 5 {}, 5 {}, 5 16", 16 + there,
                        16 + there + 12, 16 + there + 12 + 8, 20 + back, 16 + back));
}

TEST(Memory, AStageThatRecomputesHoldsItsInputsUntilItsForwardRunsAgain) {
  // One stage: a sample's input and target are kept, its prediction and loss are not.
  const Pipeline p =
      make_pipeline({.edges = "", .in_flight = {2}, .samples = 2, .recompute = true});
  const Trace trace = simulate_plan(p.plan, p.graph, p.cluster, p.costs, {.events = true});
  EXPECT_EQ(over_time(trace, 0),
            "0 16, 0 32, 1 24, 1 40, 2 32, 2 40, 3 48, 5 24, 5 32, 6 40, 8 16");
}

TEST(Memory, WorkspaceLastsAsLongAsItsTask) {
  const Pipeline p = make_pipeline({"", {1}, 1});
  const Trace trace =
      simulate_plan(p.plan, p.graph, p.cluster, CostsWithMemory(p.costs), {.events = true});
  // Two operators, each with 100 bytes saved beside the 16 of tensors; workspace 1,010. While the
  // loss's backward runs there is its seed.
  EXPECT_EQ(over_time(trace, 0), "0 16, 0 1242, 1 232, 1 1246, 3 16");
}

TEST(Memory, PeaksAreTheVerifiersOnRandomPipelines) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Pipeline p = random_pipeline(seed, seed >= 100);
    if (seed % 2 == 0) p.plan.optimizer = OptimizerKind::kAdam;
    if (seed % 3 == 0) p.plan.schedule = ScheduleKind::kZbH1;
    const CostsWithMemory costs(p.costs);
    const Schedule lowered =
        lower(build_schedule(p.plan, p.graph, p.plan.mini_batch), p.plan, p.graph);
    const Verification proof = verify(lowered, p.plan, p.graph, p.cluster, costs);
    ASSERT_TRUE(proof.ok()) << "seed " << seed << ": " << proof.faults[0].message;
    const Trace trace = simulate(lowered, p.plan, p.graph, p.cluster, costs, {.events = true});
    std::map<RankId, std::int64_t> peak;
    std::map<RankId, std::int64_t> last;
    double time_s = 0;
    for (const MemorySample& sample : trace.memory) {
      EXPECT_LE(time_s, sample.time_s);
      time_s = sample.time_s;
      peak[sample.rank] = std::max(peak[sample.rank], sample.bytes);
      last[sample.rank] = sample.bytes;
    }
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
      const std::string about = fmt::format("seed {}, rank {}", seed, r);
      EXPECT_EQ(trace.ranks[r].peak_memory_bytes, proof.memory[r].peak_bytes) << about;
      EXPECT_EQ(peak[RankId(r)], proof.memory[r].peak_bytes) << about;
      EXPECT_EQ(last[RankId(r)], proof.memory[r].static_bytes) << about;
    }
  }
}

TEST(Memory, OfAnEvaluationIsWeightsAndOneMicroBatch) {
  const Pipeline p = make_pipeline({"", {2}, 2});
  const Schedule lowered = lower(build_forward_schedule(p.plan, p.graph, 2), p.plan, p.graph);
  const Trace trace = simulate(lowered, p.plan, p.graph, p.cluster, p.costs, {.events = true});
  EXPECT_EQ(over_time(trace, 0), "0 8, 0 24, 1 8, 1 24, 2 8");
}

}  // namespace
}  // namespace graphpipe
