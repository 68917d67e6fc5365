#include "plan/stage_memory.h"

#include <gtest/gtest.h>

#include "cluster/presets.h"
#include "cost/analytic.h"
#include "cost/task_memory.h"
#include "plan/test_plans.h"

namespace graphpipe {
namespace {

DeviceType v100() { return preset_cluster("summit:1").types[0]; }

StageEdge edge_with(const std::vector<std::string>& tensors) {
  return {StageId(0), StageId(1), EdgeKind::kData, tensors_named(two_branches(), tensors), true};
}

// Stages of a chain; only sizes matter.
Plan sizes_plan(const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes,
                std::int64_t mini_batch = 1024) {
  Plan plan;
  plan.mini_batch = mini_batch;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    Stage stage;
    stage.devices = {DeviceId(s)};
    stage.micro_batch = sizes[s].first;
    stage.in_flight_samples = sizes[s].second;
    plan.stages.push_back(stage);
    if (s > 0) plan.edges.push_back({StageId(s - 1), StageId(s), EdgeKind::kData, {}, true});
  }
  return plan;
}

std::int64_t window(const Plan& plan, int from, int to) {
  return channel_window_samples(plan, {StageId(from), StageId(to), EdgeKind::kData, {}, true});
}

TEST(StageParams, ATiedParameterCountsOnce) {
  GraphBuilder g("tied");
  const TensorId x = g.input("x", {4});
  const ParamId weight = g.param("w", {4, 4}, {InitKind::kUniform, 0.5});
  const std::vector<TensorId> a = g.add_op("a", OpKind::kLinear, {x}, {weight}, {});
  g.add_op("b", OpKind::kLinear, a, {weight}, {});
  const Graph tied = std::move(g).build();
  EXPECT_EQ(stage_params(tied, {OpId(0), OpId(1)}), std::vector<ParamId>{weight});
  EXPECT_EQ(stage_static_memory(tied, {OpId(0), OpId(1)}, OptimizerKind::kSgd).weights_bytes,
            4 * 4 * 4);
}

TEST(StageStaticMemory, CountsBytesAParameterByOptimizer) {
  const std::vector<OpId> ops = ops_named(two_branches(), {"a"});
  const std::int64_t params = 6 * 4 + 4;  // weight and bias, float32
  EXPECT_EQ(stage_static_memory(two_branches(), ops, OptimizerKind::kSgd).static_bytes(),
            8 * params);
  EXPECT_EQ(stage_static_memory(two_branches(), ops, OptimizerKind::kSgdMomentum).static_bytes(),
            12 * params);
  EXPECT_EQ(stage_static_memory(two_branches(), ops, OptimizerKind::kAdam).static_bytes(),
            16 * params);
}

TEST(StageStaticMemory, AdamsStepNeedsTheLargestParameterTwice) {
  const std::vector<OpId> ops = ops_named(two_branches(), {"a"});
  EXPECT_EQ(stage_static_memory(two_branches(), ops, OptimizerKind::kSgdMomentum).step_bytes, 0);
  EXPECT_EQ(stage_static_memory(two_branches(), ops, OptimizerKind::kAdam).step_bytes,
            2 * 4 * 6 * 4 + 64);
}

TEST(StageMemory, TheStepNeedsItsTemporariesWhenNothingIsSaved) {
  StageMemory memory{.weights_bytes = 1, .gradients_bytes = 2, .optimizer_bytes = 4};
  memory.saved_bytes = 10;
  memory.workspace_bytes = 5;
  memory.buffers_bytes = 100;
  memory.step_bytes = 14;
  EXPECT_EQ(memory.total(), 7 + 100 + 15);
  memory.step_bytes = 16;
  EXPECT_EQ(memory.total(), 7 + 100 + 16);
}

TEST(StageStaticMemory, AParameterThatIsNotTrainedHasNoGradient) {
  GraphBuilder g("frozen");
  const TensorId x = g.input("x", {4});
  const ParamId weight = g.param("w", {4, 4}, {InitKind::kUniform, 0.5}, false);
  g.add_op("a", OpKind::kLinear, {x}, {weight}, {});
  const Graph frozen = std::move(g).build();
  const StageMemory memory = stage_static_memory(frozen, {OpId(0)}, OptimizerKind::kAdam);
  EXPECT_EQ(memory.weights_bytes, 64);
  EXPECT_EQ(memory.gradients_bytes, 0);
  EXPECT_EQ(memory.optimizer_bytes, 0);
}

TEST(MessageBytes, TensorsArePaddedAndIdsAndHeaderAdded) {
  // a: 4 float32 a sample. 3 samples are 48 bytes, padded to 64.
  EXPECT_EQ(message_bytes(two_branches(), edge_with({"a"}), 3, false), 128 + 3 * 8 + 64);
  EXPECT_EQ(message_bytes(two_branches(), edge_with({"a"}), 5, false), 128 + 5 * 8 + 128);
  EXPECT_EQ(message_bytes(two_branches(), edge_with({"a", "b"}), 3, false), 128 + 3 * 8 + 2 * 64);
}

TEST(MessageBytes, AnOrderEdgeCarriesHeaderAndIds) {
  const StageEdge edge{StageId(0), StageId(1), EdgeKind::kOrder, {}, true};
  EXPECT_EQ(message_bytes(two_branches(), edge, 3, false), 128 + 3 * 8);
  EXPECT_EQ(message_bytes(two_branches(), edge, 3, true), 128 + 3 * 8);
}

TEST(MessageBytes, OnlyTensorsWithAGradientGoBack) {
  // score: what the metric computes; no loss depends on it.
  const StageEdge edge = edge_with({"a", "score"});
  EXPECT_EQ(message_bytes(two_branches(), edge, 3, false), 128 + 3 * 8 + 2 * 64);
  EXPECT_EQ(message_bytes(two_branches(), edge, 3, true), 128 + 3 * 8 + 64);
  const std::vector<bool> needs = needs_gradient(two_branches());
  EXPECT_EQ(message_bytes(two_branches(), needs, edge, 3, true), 128 + 3 * 8 + 64);
}

TEST(ChannelWindow, IsTwoMessagesBetweenNeighbours) {
  const Plan plan = sizes_plan({{4, 8}, {4, 4}});
  EXPECT_EQ(window(plan, 0, 1), 8);
}

TEST(ChannelWindow, ASkipHoldsWhatTheProducerMayRunAhead) {
  // In flight 4, 3, 2, 1 micro-batches of 2: the first may be 3 ahead of the last, and a task.
  Plan plan = sizes_plan({{2, 8}, {2, 6}, {2, 4}, {2, 2}});
  EXPECT_EQ(window(plan, 0, 3), 8);
  plan.stages[0].in_flight_samples = 20;
  EXPECT_EQ(window(plan, 0, 3), 20);
}

TEST(ChannelWindow, WhereAllIsInFlightASkipHoldsTheHops) {
  Plan plan = sizes_plan({{2, 64}, {2, 64}, {2, 64}, {2, 64}}, 64);
  plan.schedule = ScheduleKind::kGpipe;
  EXPECT_EQ(window(plan, 0, 1), 4);
  EXPECT_EQ(window(plan, 0, 3), 8);
  // A large task on the way can only start when all its samples have left the first stage.
  plan.stages[1].micro_batch = 16;
  EXPECT_EQ(window(plan, 0, 3), 2 + 16 + 2 + 2);
}

TEST(ChannelWindow, StagesOnSharedDevicesMayRunAheadByAllInFlight) {
  Plan plan = sizes_plan({{2, 8}, {2, 8}, {2, 8}});
  EXPECT_EQ(window(plan, 0, 1), 4);
  plan.stages[2].devices = plan.stages[0].devices;
  EXPECT_EQ(window(plan, 0, 1), 8 + 2);
}

TEST(ChannelWindow, IsWholeMessagesOfTheConsumerAndAtMostTheMiniBatch) {
  EXPECT_EQ(window(sizes_plan({{2, 10}, {4, 4}}), 0, 1), 8);
  EXPECT_EQ(window(sizes_plan({{3, 9}, {4, 4}}), 0, 1), 8);
  EXPECT_EQ(window(sizes_plan({{3, 12}, {4, 4}}), 0, 1), 12);
  EXPECT_EQ(window(sizes_plan({{4, 64}, {4, 4}}, 10), 0, 1), 12);
}

TEST(ChannelWindow, CountsTheRoundOfAStageThatTakesTurns) {
  Plan plan = sizes_plan({{1, 9}, {1, 6}});
  plan.stages[1].devices = {DeviceId(1), DeviceId(2), DeviceId(3)};
  plan.stages[1].replication = Replication::kRoundRobin;
  EXPECT_EQ(window(plan, 0, 1), 6);
}

TEST(StageMemory, AddsUpThePartsOfAMiddleStage) {
  Plan plan = chain_plan(two_branches(), {{"a"}, {"b", "c", "join"}, {"head", "loss", "score"}});
  for (Stage& stage : plan.stages) stage.in_flight_samples = 4;
  const AnalyticCosts costs;
  const StageMemory memory = stage_memory(plan, two_branches(), costs, v100(), StageId(1));
  EXPECT_EQ(memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes, 0);
  // Two tasks of 2 samples, each with a, b, c and join of 16 bytes a sample; a came in a
  // message, with ids.
  EXPECT_EQ(memory.saved_bytes, 2 * 2 * 4 * 16 + 2 * (128 + 2 * 8 + 64));
  // Each way and on each side 2 messages of 2 samples; one more before a task.
  EXPECT_EQ(memory.buffers_bytes, (4 * 2 + 1) * (128 + 2 * 8 + 64));
  const TaskMemory task =
      task_memory(costs, two_branches(), needs_gradient(two_branches()), plan.stages[1].ops,
                  leaving_tensors(plan, StageId(1)), 2, v100());
  EXPECT_GT(task.backward_bytes, task.forward_bytes);
  EXPECT_EQ(memory.workspace_bytes, task.backward_bytes);
  EXPECT_EQ(memory.total(), memory.saved_bytes + memory.buffers_bytes + memory.workspace_bytes);
}

TEST(StageMemory, ASplitReplicaHoldsItsShare) {
  Plan plan = chain_plan(two_branches(), {{"a", "b", "c", "join", "head", "loss", "score"}});
  const AnalyticCosts costs;
  plan.stages[0].in_flight_samples = 8;
  const auto saved = [&] {
    return stage_memory(plan, two_branches(), costs, v100(), StageId(0)).saved_bytes;
  };
  const std::int64_t alone = saved();
  plan.stages[0].devices = {DeviceId(0), DeviceId(1)};
  EXPECT_EQ(2 * saved(), alone);
  plan.stages[0].replication = Replication::kRoundRobin;
  EXPECT_EQ(2 * saved(), alone);
  plan.stages[0].in_flight_samples = 2;  // one of the two holds it
  EXPECT_EQ(4 * saved(), alone);
}

TEST(StageMemory, GpipeHoldsTheWholeMiniBatch) {
  Plan plan = chain_plan(two_branches(), {{"a", "b", "c", "join", "head", "loss", "score"}});
  const AnalyticCosts costs;
  const std::int64_t all =
      stage_memory(plan, two_branches(), costs, v100(), StageId(0)).saved_bytes;
  plan.stages[0].in_flight_samples = 2;
  EXPECT_EQ(4 * stage_memory(plan, two_branches(), costs, v100(), StageId(0)).saved_bytes, all);
  plan.schedule = ScheduleKind::kGpipe;
  EXPECT_EQ(stage_memory(plan, two_branches(), costs, v100(), StageId(0)).saved_bytes, all);
}

TEST(StageMemory, AStageThatRecomputesKeepsItsInputsAndOnceTheRest) {
  Plan plan = chain_plan(two_branches(), {{"a"}, {"b", "c", "join"}, {"head", "loss"}, {"score"}});
  const AnalyticCosts costs;
  const auto saved = [&](int stage) {
    return stage_memory(plan, two_branches(), costs, v100(), StageId(stage)).saved_bytes;
  };
  const std::int64_t without_backward = saved(3);
  // Four tasks of 2 samples; a, b, c and join have 16 bytes a sample each, and a came in a
  // message.
  const std::int64_t message = 128 + 2 * 8 + 64;
  EXPECT_EQ(saved(1), 4 * 2 * 4 * 16 + 4 * message);
  for (Stage& stage : plan.stages) stage.recompute = true;
  EXPECT_EQ(saved(1), 4 * 2 * 16 + 4 * message + 2 * 3 * 16);
  EXPECT_EQ(saved(3), without_backward);
}

TEST(StageMemory, AStageWithoutABackwardKeepsNothing) {
  const Plan plan =
      chain_plan(two_branches(), {{"a", "b", "c", "join", "head", "loss"}, {"score"}});
  const AnalyticCosts costs;
  // One task: logits of 3 float32 out of a message, a label of 8 bytes and the score of 4, 2
  // samples.
  EXPECT_EQ(stage_memory(plan, two_branches(), costs, v100(), StageId(1)).saved_bytes,
            2 * (12 + 8 + 4) + (128 + 2 * 8 + 64));
}

}  // namespace
}  // namespace graphpipe
