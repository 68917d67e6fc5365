#include "runtime/stage_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/presets.h"
#include "cost/linear_costs.h"
#include "graph/builder.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

using ::testing::ElementsAre;

// Two linears and a loss; operator i takes 1 + i seconds a sample forward, twice that
// backward.
struct ReportCase {
  Graph graph;
  Plan plan;
  Cluster cluster = preset_cluster("summit:2");
  LinearCosts costs{"by hand", {{1, 2, 0}, {2, 4, 0}, {3, 6, 0}}};

  ReportCase() {
    GraphBuilder g("chain");
    const TensorId h = g.linear("fc0", g.input("x", {4}), 4);
    const TensorId y = g.linear("fc1", h, 4);
    g.loss(g.mse_loss("loss", y, g.input("target", {4})));
    graph = std::move(g).build();
    plan.graph_hash = graph_hash(graph);
    plan.mini_batch = 7;  // 2 + 2 + 2 + 1
    plan.stages.resize(2);
    plan.stages[0].ops = {OpId(0)};
    plan.stages[1].ops = {OpId(1), OpId(2)};
    for (std::size_t s = 0; s < 2; ++s) {
      plan.stages[s].devices = {DeviceId(1 - s)};  // rank 1 runs stage 0
      plan.stages[s].micro_batch = 2;
    }
    canonicalise(plan, graph);
    plan.stages[0].in_flight_samples = 4;
    plan.stages[1].in_flight_samples = 2;
    plan.estimate.iteration_s = 77;
  }
};

TEST(PredictedCompute, SumsOverMicroBatchesTheShortOneIncluded) {
  const ReportCase c;
  EXPECT_THAT(predicted_compute_s(c.plan, c.graph, c.cluster, c.costs),
              ElementsAre(7 * (1 + 2), 7 * (2 + 4 + 3 + 6)));
}

TEST(PredictedPeak, IsWhatTheVerifierCounts) {
  const ReportCase c;
  const Verification verification = verify_plan(c.plan, c.graph, c.cluster, c.costs);
  ASSERT_TRUE(verification.ok());
  EXPECT_THAT(predicted_peak_bytes(c.plan, c.graph, c.cluster, c.costs),
              ElementsAre(verification.memory[1].peak_bytes, verification.memory[0].peak_bytes));
}

TEST(ReportMeasurements, GivesEachStageWhatItsRankMeasured) {
  const ReportCase c;
  IterationTotals rank_0;
  rank_0.iterations = 2;
  rank_0.wall_s = 40;
  rank_0.compute_s = 24;
  rank_0.compute_cpu_s = 20;
  rank_0.step_cpu_s = 1;
  rank_0.total_cpu_s = 23;
  rank_0.actions = 10;
  rank_0.peak_bytes = 1000;
  rank_0.bytes_sent = 600;
  IterationTotals rank_1 = rank_0;
  rank_1.wall_s = 42;
  rank_1.compute_s = 12;
  rank_1.compute_cpu_s = 10;
  rank_1.total_cpu_s = 17;
  rank_1.actions = 6;
  rank_1.peak_bytes = 3000;
  rank_1.bytes_sent = 400;
  DoneLine line;
  report_measurements(c.plan, c.graph, c.cluster, c.costs, {rank_0, rank_1}, line);
  EXPECT_EQ(line.predicted_iteration_s, 77);
  EXPECT_EQ(line.measured_iteration_s, 21);
  EXPECT_DOUBLE_EQ(line.executor_overhead, (2.0 + 6.0) / 40);
  EXPECT_DOUBLE_EQ(line.action_s, (2.0 + 6.0) / 16);
  EXPECT_EQ(line.ranks, 2);
  ASSERT_EQ(line.stages.size(), 2);
  EXPECT_EQ(line.stages[0].stage, 0);
  EXPECT_EQ(line.stages[0].measured_s, 5);
  EXPECT_EQ(line.stages[0].measured_wall_s, 6);
  EXPECT_EQ(line.stages[0].predicted_s, 21);
  EXPECT_EQ(line.stages[0].measured_peak_bytes, 3000);
  EXPECT_EQ(line.stages[0].bytes_sent, 200);
  EXPECT_EQ(line.stages[1].stage, 1);
  EXPECT_EQ(line.stages[1].measured_s, 10);
  EXPECT_EQ(line.stages[1].predicted_s, 105);
  EXPECT_EQ(line.stages[1].measured_peak_bytes, 1000);
  EXPECT_EQ(line.stages[1].bytes_sent, 300);
}

}  // namespace
}  // namespace graphpipe
