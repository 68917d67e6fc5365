#include "runtime/stage_runner.h"

#include <gtest/gtest.h>

#include "data/dataset.h"
#include "graph/builder.h"
#include "models/models.h"
#include "runtime/batch_reader.h"
#include "runtime/parameters.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kStageSamples = 6;

Plan one_stage(const Graph& graph) {
  Plan plan;
  plan.mini_batch = kStageSamples;
  Stage stage;
  for (std::size_t i = 0; i < graph.op_count(); ++i) stage.ops.emplace_back(i);
  stage.devices = {DeviceId(0)};
  stage.micro_batch = kStageSamples;
  plan.stages = {stage};
  canonicalise(plan, graph);
  return plan;
}

enum class Way { kWhole, kHalves, kRecomputed, kRecomputedHalves };

// Gradients of the parameters after two micro-batches of three samples.
std::vector<at::Tensor> gradients_by(Way way, const Graph& graph) {
  const Plan plan = one_stage(graph);
  std::vector<at::Tensor> params;
  for (const Parameter& param : graph.params) params.push_back(make_parameter(param, 3));
  const bool halves = way == Way::kHalves || way == Way::kRecomputedHalves;
  const bool again = way == Way::kRecomputed || way == Way::kRecomputedHalves;
  StageRunner runner(graph, plan, StageId(0), params, halves);
  const auto dataset = synthetic_dataset(graph, 20, 5);
  const BatchReader reader(graph, *dataset);
  for (const SampleRange samples : {SampleRange{0, 3}, SampleRange{3, 6}}) {
    const std::vector<std::int64_t> ids = {samples.lo + 7, samples.lo + 2, samples.lo};
    const OpContext context{true, 3, 11, ids};
    std::vector<at::Tensor> values;
    for (const StageInput& input : runner.inputs())
      values.push_back(reader.read(input.tensor, ids));
    runner.forward(samples, values, context,
                   again ? StageRunner::Keep::kInputs : StageRunner::Keep::kAll);
    if (again) {
      runner.drop_results(samples);
      runner.recompute(samples, context);
    }
    if (halves) {
      runner.backward_input(samples, {}, kStageSamples);
      runner.backward_weight(samples);
    } else {
      runner.backward(samples, {}, kStageSamples, {});
    }
    runner.free(samples);
  }
  EXPECT_FALSE(runner.holds_values());
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& param : params) gradients.push_back(param.grad());
  return gradients;
}

class StageRunnerWays : public testing::TestWithParam<std::string> {};

TEST_P(StageRunnerWays, AllGiveTheSameBits) {
  const Graph graph = load_model(GetParam());
  const std::vector<at::Tensor> expected = gradients_by(Way::kWhole, graph);
  for (const Way way : {Way::kHalves, Way::kRecomputed, Way::kRecomputedHalves}) {
    const std::vector<at::Tensor> got = gradients_by(way, graph);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(got[i].defined(), expected[i].defined()) << graph.params[i].name;
      if (!got[i].defined()) continue;
      EXPECT_TRUE(got[i].equal(expected[i]))
          << graph.params[i].name << ", way " << static_cast<int>(way);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, StageRunnerWays,
    testing::Values("movielens:users=40,films=60,dim=8,hidden=12,title_dim=8",
                    "two-branch:blocks=2,sequence=5,hidden=8,heads=2,ffn=12",
                    "transformer:layers=2,sequence=5,hidden=8,heads=2,ffn=12,outputs=3,dropout=100",
                    "digits:hidden=12,dropout=200"),
    [](const auto& model) {
      std::string name = model.param.substr(0, model.param.find(':'));
      std::erase(name, '-');
      return name;
    });

TEST(StageRunner, KeepsOnlyInputsOfAForwardThatRunsAgain) {
  GraphBuilder g("one");
  const TensorId x = g.input("x", {4});
  g.loss(g.mse_loss("loss", g.linear("fc", x, 4), x));
  const Graph graph = std::move(g).build();
  std::vector<at::Tensor> params;
  for (const Parameter& param : graph.params) params.push_back(make_parameter(param, 3));
  StageRunner runner(graph, one_stage(graph), StageId(0), params);
  const auto dataset = synthetic_dataset(graph, 20, 5);
  const BatchReader reader(graph, *dataset);
  const std::vector<std::int64_t> ids = {1, 2};
  runner.forward({0, 2}, {reader.read(runner.inputs()[0].tensor, ids)}, {true, 3, 0, ids},
                 StageRunner::Keep::kInputs);
  EXPECT_FALSE(runner.watched_value({0, 2}, 0).requires_grad());
  runner.recompute({0, 2}, {true, 3, 0, ids});
  EXPECT_TRUE(runner.watched_value({0, 2}, 0).requires_grad());
}

}  // namespace
}  // namespace graphpipe
