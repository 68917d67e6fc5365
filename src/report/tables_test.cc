#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cost/linear_costs.h"
#include "graph/builder.h"
#include "report/text_report.h"
#include "report/text_table.h"

namespace graphpipe {
namespace {

struct Example {
  Graph graph;
  Cluster cluster;
  LinearCosts costs{"by hand", {}};
  Plan plan;
};

// Two towers and a top: 0 and 1 feed 2.
Example example() {
  GraphBuilder builder("towers");
  const TensorId user =
      builder.relu("user.relu", builder.linear("user.fc", builder.input("user", {16}), 32));
  const TensorId film = builder.linear("film.fc", builder.input("film", {8}), 32);
  const TensorId top = builder.linear("top", builder.add("join", {user, film}), 1);
  builder.loss(builder.mse_loss("loss", top, builder.input("rating", {1})));
  Example result;
  result.graph = std::move(builder).build();
  std::vector<LinearOpCost> costs(result.graph.op_count(), {1e-3, 2e-3, 64});
  result.costs = LinearCosts("by hand", costs);
  result.cluster.name = "test";
  result.cluster.types = {{.name = "device", .memory_bytes = 1 << 20}};
  result.cluster.device_type.assign(8, 0);
  result.cluster.levels = {{.name = "node", .group_size = 8, .link = {1e9, 1e-6}}};
  Plan& plan = result.plan;
  plan.model = "towers";
  plan.planner = "graphpipe";
  plan.cluster = "test:8";
  plan.costs = "by hand";
  plan.mini_batch = 32;
  plan.stages = {{.ops = {OpId(0), OpId(1)}, .devices = {DeviceId(0)}},
                 {.ops = {OpId(2)}, .devices = {DeviceId(1), DeviceId(2), DeviceId(4)}},
                 {.ops = {OpId(3), OpId(4), OpId(5)}, .devices = {DeviceId(5), DeviceId(6)}}};
  plan.stages[2].replication = Replication::kRoundRobin;
  for (Stage& stage : plan.stages) {
    stage.micro_batch = 4;
    stage.in_flight_samples = 8;
  }
  plan.edges = data_edges(result.graph, plan.stages);
  return result;
}

TEST(SampleMixingNote, SaysOverHowManySamplesAStageNormalises) {
  Example e = example();
  EXPECT_EQ(sample_mixing_note(e.graph), "");
  EXPECT_EQ(sample_mixing_note(e.graph, e.plan), "");

  GraphBuilder builder("norms");
  TensorId x = builder.input("x", {4});
  for (const char* name : {"a", "b"}) {
    x = builder.batch_norm(std::string(name) + ".norm", builder.linear(name, x, 4));
  }
  const Graph graph = std::move(builder).build();
  EXPECT_EQ(sample_mixing_note(graph),
            "batch_norm normalises over the samples of a stage's micro-batch (ceil(b/d) on d "
            "devices); the result depends on the plan");
  Plan plan;
  plan.stages = {{.ops = {OpId(0), OpId(1)}, .devices = {DeviceId(0), DeviceId(1)}},
                 {.ops = {OpId(2), OpId(3)}, .devices = {DeviceId(2)}}};
  for (Stage& stage : plan.stages) stage.micro_batch = 5;
  EXPECT_EQ(sample_mixing_note(graph, plan),
            "batch_norm normalises over the samples of a stage's micro-batch, here 3 to 5 "
            "(ceil(b/d) on d devices); the result depends on it");
  plan.stages[0].replication = Replication::kRoundRobin;
  EXPECT_EQ(sample_mixing_note(graph, plan),
            "batch_norm normalises over the samples of a stage's micro-batch, here 5 (ceil(b/d) on "
            "d devices); the result depends on it");
  plan.stages.erase(plan.stages.begin());
  plan.stages[0].ops = {OpId(2)};
  EXPECT_EQ(sample_mixing_note(graph, plan), "");
}

TEST(PlanTable, ShowsStagesMemoryAndEdges) {
  Example e = example();
  add_chain_order(e.plan);
  e.plan.estimate.iteration_s = 0.25;
  e.plan.estimate.throughput_samples_per_s = 128;
  e.plan.estimate.bubble_fraction = 0.125;
  e.plan.estimate.lower_bound_s = 0.2;
  e.plan.estimate.search_s = 0.012;
  EXPECT_EQ("\n" + plan_table(e.plan, e.graph, e.cluster, e.costs), R"(
towers by graphpipe for test:8: 3 stages on 6 of 8 devices, depth 3
mini-batch 32, schedule 1f1b, optimiser sgd, costs: by hand
iteration 250 ms (128 samples/s), bubble 12.5 %, 25.0 % above the lower bound of 200 ms
searched in 12.0 ms

stage  operators                 devices      b  in flight  time/sample
    0  user.fc .. user.relu (2)  0            4          8      6.00 ms
    1  film.fc                   1-2,4 split  4          8      1.50 ms
    2  join .. loss (3)          5-6 in turn  4          8      4.50 ms

memory on the stage's fullest device
stage   weights  gradients  optimiser  in flight   buffers  workspace    update   at most  device has
    0  2.12 KiB   2.12 KiB          -   3.50 KiB  17.6 KiB      768 B         -  26.1 KiB    1.00 MiB
    1  1.12 KiB   1.12 KiB          -      896 B  8.62 KiB      256 B  2.54 KiB  14.1 KiB    1.00 MiB
    2     132 B      132 B          -   2.73 KiB  12.6 KiB       16 B     606 B  16.2 KiB    1.00 MiB

edges, with bytes a sample: 0 -> 1 (order only), 0 -> 2 (128 B), 1 -> 2 (128 B)
)");
}

TEST(PlanTable, SaysWhichStagesRecompute) {
  Example e = example();
  e.plan.stages[1].recompute = true;
  const std::string text = plan_table(e.plan, e.graph, e.cluster, e.costs);
  const std::size_t begin = text.find("stage ");
  EXPECT_EQ("\n" + text.substr(begin, text.find("\n\n", begin) - begin), R"(
stage  operators                 devices      b  in flight  time/sample  recompute
    0  user.fc .. user.relu (2)  0            4          8      6.00 ms  -
    1  film.fc                   1-2,4 split  4          8      2.00 ms  yes
    2  join .. loss (3)          5-6 in turn  4          8      4.50 ms  -)");
}

TEST(PlanTable, OfAPlanThatWasNotJudgedHasNoEstimate) {
  Example e = example();
  e.plan.edges.clear();
  const std::string text = plan_table(e.plan, e.graph, e.cluster, e.costs);
  EXPECT_EQ(text.substr(0, text.find("stage ")),
            R"(towers by graphpipe for test:8: 3 stages on 6 of 8 devices, depth 1
mini-batch 32, schedule 1f1b, optimiser sgd, costs: by hand

)");
}

// A tower of 19 stages that pass 16 numbers on, each with 2 fewer in flight than the one before;
// the 10th takes twice the time, the last is the loss.
Example tower() {
  GraphBuilder builder("tower");
  TensorId x = builder.input("x", {16});
  for (int layer = 0; layer < 18; ++layer) x = builder.linear(fmt::format("fc{}", layer), x, 16);
  builder.loss(builder.mse_loss("loss", x, builder.input("y", {16})));
  Example result = example();
  result.graph = std::move(builder).build();
  std::vector<LinearOpCost> costs(result.graph.op_count(), {1e-3, 2e-3, 64});
  costs[9] = {2e-3, 4e-3, 64};
  result.costs = LinearCosts("by hand", costs);
  result.cluster.device_type.assign(19, 0);
  result.cluster.levels[0].group_size = 19;
  result.plan.stages.clear();
  for (int s = 0; s < 19; ++s) {
    result.plan.stages.push_back({.ops = {OpId(s)}, .devices = {DeviceId(s)}});
    result.plan.stages.back().micro_batch = 2;
    result.plan.stages.back().in_flight_samples = 2 * (19 - s);
  }
  result.plan.edges = data_edges(result.graph, result.plan.stages);
  return result;
}

TEST(PlanTable, PutsLikeStagesOfALargePlanTogether) {
  const Example e = tower();
  EXPECT_EQ(plan_table(e.plan, e.graph, e.cluster, e.costs),
            R"(towers by graphpipe for test:8: 19 stages on 19 of 19 devices, depth 19
mini-batch 32, schedule 1f1b, optimiser sgd, costs: by hand

stage  operators             devices  b  in flight  time/sample
  0-8  fc0 .. fc8 (9 x 1)    0-8      2     38..22      3.00 ms
    9  fc9                   9        2         20      6.00 ms
10-17  fc10 .. fc17 (8 x 1)  10-17    2      18..4      3.00 ms
   18  loss                  18       2          2      3.00 ms

memory on the stages' fullest device
stage   weights  gradients  optimiser  in flight   buffers  workspace  update   at most  device has
  0-8  1.06 KiB   1.06 KiB          -   9.25 KiB  2.39 KiB          -       -  13.8 KiB    1.00 MiB
    9  1.06 KiB   1.06 KiB          -   5.78 KiB  2.39 KiB          -       -  10.3 KiB    1.00 MiB
10-17  1.06 KiB   1.06 KiB          -   5.20 KiB  2.39 KiB          -       -  9.72 KiB    1.00 MiB
   18         -          -          -      600 B  1.33 KiB        8 B       -  1.92 KiB    1.00 MiB

edges, with bytes a sample: 0 -> .. -> 8 (64 B each), 8 -> 9 (64 B), 9 -> 10 (64 B),
  10 -> .. -> 17 (64 B each), 17 -> 18 (64 B)
)");
}

TEST(PlanTable, ShowsEveryStageIfAsked) {
  const Example e = tower();
  const std::string text = plan_table(e.plan, e.graph, e.cluster, e.costs, true);
  EXPECT_NE(text.find("\n   17  fc17 "), std::string::npos) << text;
  EXPECT_NE(text.find("16 -> 17 (64 B), 17 -> 18 (64 B)\n"), std::string::npos) << text;
}

TEST(PlanTable, IsNoWiderThanAPage) {
  GraphBuilder builder("long names");
  TensorId x = builder.input("x", {4});
  Example e = example();
  e.plan.stages.clear();
  for (int s = 0; s < 8; ++s) {
    Stage stage;
    stage.devices = {DeviceId(s)};
    for (int i = 0; i < 2; ++i) {
      stage.ops.push_back(OpId(builder.graph().op_count()));
      x = builder.linear(fmt::format("a.name.that.is.very.very.long.indeed.layer{}.{}", s, i), x,
                         4);
    }
    e.plan.stages.push_back(stage);
  }
  e.graph = std::move(builder).build();
  e.costs = LinearCosts("by hand", std::vector<LinearOpCost>(16, {1e-3, 2e-3, 0}));
  e.plan.edges = data_edges(e.graph, e.plan.stages);
  std::size_t longest = 0;
  std::size_t begin = 0;
  const std::string text = plan_table(e.plan, e.graph, e.cluster, e.costs);
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    longest = std::max(longest, end - begin);
  }
  EXPECT_LE(longest, 100U) << text;
  EXPECT_GT(longest, 90U) << text;
}

ComparedPlan compared(const std::string& planner, double iteration_s, std::int64_t last_size) {
  ComparedPlan row{planner, "ok", "", example().plan};
  row.plan.stages[2].micro_batch = last_size;
  PlanEstimate& estimate = row.plan.estimate;
  estimate.iteration_s = iteration_s;
  estimate.throughput_samples_per_s = 500 / iteration_s;
  estimate.bubble_fraction = 0.25;
  estimate.lower_bound_s = 0.1;
  estimate.stage_memory_bytes = {1 << 20, 3 << 20, 2 << 20};
  return row;
}

TEST(CompareTable, ShowsWhoWonAndWhyOthersHaveNoPlan) {
  EXPECT_EQ("\n" + compare_table({compared("graphpipe", 0.2, 4),
                                  compared("gpipe", 0.3, 8),
                                  {"data-parallel", "infeasible", "a replica needs 2.00 GiB", {}},
                                  {"piper", "gave_up", "1,000,000 downsets", {}}}),
            R"(
planner        status      depth    b  iteration  samples/s  speed-up  bubble      peak      gap
graphpipe      ok              2    4     200 ms      2,500     1.50x  25.0 %  3.00 MiB  100.0 %
gpipe          ok              2  4-8     300 ms      1,667     1.00x  25.0 %  3.00 MiB  200.0 %
data-parallel  infeasible      -    -          -          -         -       -         -        -
piper          gave_up         -    -          -          -         -       -         -        -
data-parallel: a replica needs 2.00 GiB
piper: 1,000,000 downsets
)");
}

TEST(MeasuredTable, NamesTheStageThatDepartsMost) {
  EXPECT_EQ("\n" + measured_table({{0, 0.010, 0.0105, 1000000, 990000, 1000},
                                   {1, 0.020, 0.0300, 2000000, 1900000, 2000},
                                   {2, 0.020, 0.0230, 2000000, 1900000, 0}}),
            R"(
stage  predicted  measured  ratio  predicted peak  measured peak  ratio      sent
    0    10.0 ms   10.5 ms   1.05         977 KiB        967 KiB   0.99    1000 B
    1    20.0 ms   30.0 ms   1.50        1.91 MiB       1.81 MiB   0.95  1.95 KiB
    2    20.0 ms   23.0 ms   1.15        1.91 MiB       1.81 MiB   0.95       0 B
likely culprit: operators 1.50x slower than predicted on stage 1
)");
}

// The last line.
std::string culprit(const std::vector<MeasuredStage>& stages, const MeasuredRun& run = {}) {
  const std::string text = measured_table(stages, run);
  return text.substr(text.rfind('\n', text.size() - 2) + 1);
}

TEST(MeasuredTable, NamesTheMachineWhereAllStagesDepartAlike) {
  const std::vector<MeasuredStage> stages = {{0, 0.01, 0.019, 1, 1, 0}, {1, 0.02, 0.040, 1, 1, 0}};
  EXPECT_EQ(culprit(stages),
            "likely culprit: all stages up to 2.00x slower than predicted: the machine is not as "
            "it was profiled\n");
  EXPECT_EQ(culprit(stages, {.ranks = 4, .cores = 2}),
            "likely culprit: ranks share cores (4 on 2): all stages up to 2.00x slower than "
            "predicted\n");
}

TEST(MeasuredTable, NamesMemoryWhereItDepartsMost) {
  EXPECT_EQ(culprit({{0, 0.01, 0.011, 100, 100, 0}, {1, 0.02, 0.02, 100, 150, 0}}),
            "likely culprit: memory of stage 1: 1.50 of what was predicted\n");
}

TEST(MeasuredTable, NamesMessagesWhereOnlyTheIterationIsLonger) {
  EXPECT_EQ(culprit({{0, 0.01, 0.01, 1, 1, 0}},
                    {.predicted_iteration_s = 0.1, .measured_iteration_s = 0.15}),
            "likely culprit: waiting for messages: stages computed as predicted, the iteration "
            "took 1.50 of its prediction\n");
}

TEST(MeasuredTable, SaysThatNothingDeparts) {
  EXPECT_EQ(culprit({{0, 0.01, 0.0105, 100, 95, 0}}),
            "nothing departs from its prediction by more than 10 %\n");
  EXPECT_EQ(measured_table({}), "");
}

TEST(TextTable, AlignsCellsAndLeavesNoBlanksAtLineEnds) {
  TextTable table({{"name", Align::kLeft}, {"n"}, {"note", Align::kLeft}});
  table.add_row({"a", "10", "long enough"});
  table.add_row({"longer", "9", ""});
  EXPECT_EQ(table.text(),
            "name     n  note\n"
            "a       10  long enough\n"
            "longer   9\n");
}

TEST(RankLines, PutsLikeRanksTogetherWhereThereAreMany) {
  EXPECT_EQ(rank_lines({"a", "a"}), "  rank 0: a\n  rank 1: a\n");
  std::vector<std::string> many(17, "a");
  many[3] = "b";
  EXPECT_EQ(rank_lines(many), "  rank 0-2: a\n  rank 3: b\n  rank 4-16: a\n");
}

TEST(Shortened, KeepsTheEnd) {
  EXPECT_EQ(shortened("branch0.layer1", 14), "branch0.layer1");
  EXPECT_EQ(shortened("branch0.layer1", 8), "~.layer1");
}

}  // namespace
}  // namespace graphpipe
