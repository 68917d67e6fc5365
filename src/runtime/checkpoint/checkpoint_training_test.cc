// Training that ends and is resumed: the losses and weights that come out are those of a run that
// was not stopped, to the last bit under the same plan, and by norm under another. Ranks are
// threads.

#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "graph/builder.h"
#include "job/checkpoint/checkpoint_folder.h"
#include "job/test_folder.h"
#include "runtime/thread_ranks.h"
#include "runtime/train_loop.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 100;  // 80 to train on: 7 mini-batches of 12, the last of 8
constexpr std::int64_t kSaveEvery = 5;
constexpr std::int64_t kLastS = 20;

// Two branches that meet, with dropout.
Graph two_branches(bool with_batch_norm) {
  GraphBuilder g("two branches");
  TensorId a = g.linear("a.fc", g.input("left", {8}), 16);
  if (with_batch_norm) a = g.batch_norm("a.norm", a);
  a = g.dropout("a.drop", g.relu("a.relu", a), 0.3);
  const TensorId b =
      g.dropout("b.drop", g.relu("b.relu", g.linear("b.fc", g.input("right", {8}), 16)), 0.3);
  const TensorId y = g.linear("top", g.concat("join", {a, b}, -1), 4);
  g.loss(g.mse_loss("loss", y, g.input("target", {4})));
  return std::move(g).build();
}

// The stages' operators by the start of their names; each on so many devices.
struct Cut {
  std::vector<std::string> prefixes;
  int devices = 1;
};

Plan cut(const Graph& graph, const std::vector<Cut>& cuts, std::int64_t micro_batch) {
  Plan plan;
  plan.model = "two branches";
  plan.planner = "by hand";
  plan.cluster = "local:4";
  plan.options = "none";
  plan.graph_hash = graph_hash(graph);
  plan.mini_batch = 12;
  std::size_t device = 0;
  for (const Cut& part : cuts) {
    Stage& stage = plan.stages.emplace_back();
    for (std::size_t op = 0; op < graph.op_count(); ++op) {
      for (const std::string& prefix : part.prefixes) {
        if (graph.ops[op].name.starts_with(prefix)) stage.ops.emplace_back(op);
      }
    }
    for (int d = 0; d < part.devices; ++d) stage.devices.emplace_back(device++);
    stage.micro_batch = micro_batch;
  }
  canonicalise(plan, graph);
  const std::vector<std::int64_t> in_flight = least_in_flight(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].in_flight_samples = in_flight[s];
  }
  return plan;
}

Plan graph_plan(const Graph& graph) {
  return cut(graph, {{{"a."}, 2}, {{"b."}, 1}, {{"join", "top", "loss"}, 1}}, 4);
}

class Training {
 public:
  explicit Training(bool with_batch_norm = false)
      : graph(two_branches(with_batch_norm)), plan(graph_plan(graph)) {
    options.seed = 5;
    options.optimizer = OptimizerKind::kAdam;
    options.learning_rate = 0.01;
    options.iterations = 26;
    options.clip = 1;
    options.rate_schedule = parse_rate_schedule("cosine:40,5", "");
    options.eval_every = 4;
  }

  // Loss, norm and rate of each logged iteration, as they were printed; weights at the end.
  struct Outcome {
    std::map<std::int64_t, std::string> lines;
    std::map<std::int64_t, double> losses;
    std::string done;
    std::map<std::string, at::Tensor> weights;
  };

  // Until the end, or until some rank comes to iteration `dies_at`.
  Outcome run(std::int64_t dies_at = -1) const {
    Outcome outcome;
    std::mutex mutex;
    const auto dataset = synthetic_dataset(graph, kSamples, 3);
    auto transports = connect_threads(devices_used(plan), kLastS);
    try {
      run_thread_ranks(transports, [&](Transport& transport) {
        RankTrainerOptions trainer_options;
        trainer_options.train = options;
        trainer_options.on_action = [&](const Action& action, std::int64_t iteration, std::int64_t,
                                        const char*) {
          if (iteration == dies_at && transport.rank() == 1 &&
              action.kind == ActionKind::kBackward) {
            throw RunError("the end");
          }
        };
        RankTrainer trainer(plan, graph, cluster_, *dataset, transport, trainer_options);
        run_training({.options = options,
                      .plan = plan,
                      .graph = graph,
                      .cluster = cluster_,
                      .costs = costs_,
                      .dataset = *dataset,
                      .transport = transport,
                      .trainer = trainer},
                     [&](const std::string& line) { note(line, outcome); });
        const std::lock_guard lock(mutex);
        for (const auto& [name, values] : trainer.parameters()) {
          outcome.weights[fmt::format("{} on rank {}", name, transport.rank())] = values;
        }
      });
    } catch (const RunError&) {
      EXPECT_GE(dies_at, 0);
    }
    return outcome;
  }

  void checkpoint_in(const std::string& folder) {
    options.checkpoint.folder = folder;
    options.checkpoint.every = kSaveEvery;
  }
  std::int64_t resume() {
    options.checkpoint.resume = newest_checkpoint(options.checkpoint.folder, "--resume");
    return read_manifest(options.checkpoint.resume).progress.iteration;
  }

  Graph graph;
  Plan plan;
  TrainOptions options;

 private:
  static void note(const std::string& line, Outcome& outcome) {
    constexpr std::string_view kStart = "{\"iteration\":";
    if (line.find("\"done\":true") != std::string::npos) {
      outcome.done = line.substr(0, line.find("\"elapsed_s\""));
    }
    if (!line.starts_with(kStart)) return;
    const std::int64_t iteration = std::strtoll(line.c_str() + kStart.size(), nullptr, 10);
    outcome.lines[iteration] = line.substr(0, line.find("\"samples_per_s\""));
    outcome.losses[iteration] = std::strtod(line.c_str() + line.find("\"loss\":") + 7, nullptr);
  }

  Cluster cluster_ = preset_cluster("local:4");
  AnalyticCosts costs_;
};

// What `training` gives when it dies at iteration 12, and is resumed as `now`.
void expect_same_when_resumed(Training training) {
  const TestFolder folder;
  const Training::Outcome whole = training.run();
  training.checkpoint_in(folder.path() + "/K");
  const Training::Outcome before = training.run(12);
  const std::int64_t from = training.resume();
  EXPECT_TRUE(from == 5 || from == 10 || from == 6 || from == 12) << from;
  const Training::Outcome after = training.run();
  ASSERT_FALSE(after.lines.empty());
  EXPECT_GE(after.lines.begin()->first, from);
  for (const auto& [iteration, line] : before.lines) EXPECT_EQ(line, whole.lines.at(iteration));
  for (const auto& [iteration, line] : whole.lines) {
    if (iteration < from) continue;
    ASSERT_TRUE(after.lines.contains(iteration)) << iteration;
    EXPECT_EQ(after.lines.at(iteration), line);
  }
  EXPECT_EQ(after.done, whole.done);
  for (const auto& [name, values] : whole.weights) {
    EXPECT_TRUE(at::equal(after.weights.at(name), values)) << name;
  }
}

TEST(Resume, UnderTheSamePlanIsBitwiseWithAdam) { expect_same_when_resumed(Training()); }

TEST(Resume, UnderTheSamePlanIsBitwiseWithMomentum) {
  Training training;
  training.options.optimizer = OptimizerKind::kSgdMomentum;
  training.options.momentum = 0.9;
  training.options.weight_decay = 1e-3;
  training.options.clip = 0;
  training.options.log_every = 3;
  expect_same_when_resumed(training);
}

TEST(Resume, UnderTheSamePlanIsBitwiseWithAccumulationAndSavesStageByStage) {
  Training training;
  training.options.accumulate = 2;
  training.options.checkpoint.mode = CheckpointMode::kPerStage;
  expect_same_when_resumed(training);
}

// Replicas of a batch norm have running statistics of their own.
TEST(Resume, KeepsTheBestWeightsAndTheStatisticsOfEveryReplica) {
  Training training(true);
  training.options.iterations = 0;
  training.options.epochs = 4;
  training.options.patience = 3;
  training.options.learning_rate = 0.05;
  expect_same_when_resumed(training);
}

// The next 20 losses, under `plan` instead, by norm.
void expect_near_under(const std::function<Plan(const Graph&)>& other) {
  const TestFolder folder;
  Training training;
  const Training::Outcome whole = training.run();
  training.checkpoint_in(folder.path() + "/K");
  training.run(7);
  const std::int64_t from = training.resume();
  training.plan = other(training.graph);
  const Training::Outcome after = training.run();
  double squares = 0;
  double difference = 0;
  int losses = 0;
  for (const auto& [iteration, loss] : whole.losses) {
    if (iteration < from || ++losses > 20) continue;
    squares += loss * loss;
    difference += std::pow(after.losses.at(iteration) - loss, 2);
  }
  EXPECT_GE(losses, 20);
  EXPECT_LE(std::sqrt(difference / squares), 1e-5);
  EXPECT_GT(squares, 0);
}

TEST(Resume, UnderOtherPlansIsTheSameByNorm) {
  expect_near_under([](const Graph& graph) {  // one rank
    return cut(graph, {{{"a.", "b.", "join", "top", "loss"}, 1}}, 12);
  });
  expect_near_under([](const Graph& graph) {  // a chain, of other widths and micro-batches
    return cut(graph, {{{"a.", "b."}, 1}, {{"join", "top", "loss"}, 3}}, 6);
  });
  expect_near_under([](const Graph& graph) {  // whole micro-batches in turn
    Plan plan = cut(graph, {{{"a."}, 1}, {{"b."}, 2}, {{"join", "top", "loss"}, 1}}, 2);
    plan.stages[1].replication = Replication::kRoundRobin;
    canonicalise(plan, graph);
    const std::vector<std::int64_t> in_flight = least_in_flight(plan);
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      plan.stages[s].in_flight_samples = in_flight[s];
    }
    return plan;
  });
}

TEST(Resume, AfterTheLastIterationThereIsNothingToDo) {
  const TestFolder folder;
  Training training;
  training.options.iterations = 3;
  training.checkpoint_in(folder.path() + "/K");
  const Training::Outcome whole = training.run();
  EXPECT_EQ(training.resume(), 3);
  const Training::Outcome after = training.run();
  EXPECT_TRUE(after.lines.empty());
  EXPECT_EQ(after.done, whole.done);
}

// A step whose gradients are no numbers: all ranks skip it, and go on as if it had not been.
TEST(OnNan, SkippedStepsLeaveNoTrace) {
  Training training(true);
  training.options.iterations = 6;
  training.options.on_nan = OnNan::kSkip;
  training.options.eval_every = 0;
  training.options.clip = 0;
  const Training::Outcome none = training.run();
  EXPECT_THAT(none.done, ::testing::HasSubstr("\"skipped_steps\":0"));
  training.options.learning_rate = 1e38;  // from the second step on nothing is a number
  training.options.optimizer = OptimizerKind::kSgd;
  training.options.log_every = 100;
  const Training::Outcome some = training.run();
  EXPECT_THAT(some.done, ::testing::Not(::testing::HasSubstr("\"skipped_steps\":0")));
  EXPECT_THAT(some.lines.at(4), ::testing::HasSubstr("\"loss\":null"));
  for (const auto& [name, values] : some.weights) {
    EXPECT_TRUE(values.isfinite().all().item<bool>()) << name;
  }
}

}  // namespace
}  // namespace graphpipe
