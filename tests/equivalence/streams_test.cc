// An asynchronous pipeline, ranks as threads, trains what one device trains with the same delays:
// every loss and every weight to the last bit, in float64; where replicas split a micro-batch, or
// add up several before they sum, nearly so.

#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "graph/builder.h"
#include "models/models.h"
#include "runtime/reference.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 128;
constexpr std::int64_t kMicroBatch = 3;

// Of a value, where sums are taken in another order.
constexpr double kWithin = 1e-10;

constexpr WeightPolicy kPolicies[] = {WeightPolicy::kStash, WeightPolicy::kVerticalSync,
                                      WeightPolicy::k2bw, WeightPolicy::kNaive};

struct Streams {
  std::vector<std::vector<double>> losses;  // [stream][mini-batch]
  std::map<std::string, at::Tensor> parameters;
};

struct Case {
  Graph graph;
  Plan plan = {};
  TrainOptions options = {};
};

// Two streams with short last mini-batches, one shorter than the pipeline is deep.
std::vector<std::vector<std::int64_t>> streams_of(const Plan& plan) {
  std::vector<std::vector<std::int64_t>> streams;
  for (const std::int64_t size : {2 * plan.mini_batch + 9 * kMicroBatch + 1, kMicroBatch + 2}) {
    streams.emplace_back();
    for (std::int64_t i = 0; i < size; ++i) streams.back().push_back((7 + 5 * i) % kSamples);
  }
  return streams;
}

// train(ids, first iteration) -> losses.
template <typename Train>
std::vector<std::vector<double>> train_all(const Plan& plan, Train train) {
  std::vector<std::vector<double>> losses;
  std::int64_t first = 0;
  for (const std::vector<std::int64_t>& ids : streams_of(plan)) {
    losses.push_back(train(ids, first));
    first += static_cast<std::int64_t>(losses.back().size());
  }
  return losses;
}

Streams by_plan(const Case& c, const Dataset& dataset) {
  RankTrainerOptions options;
  options.train = c.options;
  Streams result;
  std::mutex mutex;
  run_ranks(c.plan, c.graph, dataset, options, [&](RankTrainer& trainer, int rank) {
    auto losses = train_all(c.plan, [&](const std::vector<std::int64_t>& ids, std::int64_t first) {
      std::vector<double> of_stream = trainer.train_stream(ids, first);
      trainer.evaluate({1, 2, 3, 4, 5});  // which changes nothing
      return of_stream;
    });
    const std::lock_guard lock(mutex);
    for (auto& [name, values] : trainer.parameters()) result.parameters[name] = values;
    if (rank == 0) result.losses = std::move(losses);
  });
  return result;
}

Streams on_one_device(const Case& c, const Dataset& dataset) {
  DelayedReference reference(c.plan, c.graph, dataset, c.options);
  Streams result;
  result.losses = train_all(c.plan, [&](const std::vector<std::int64_t>& ids, std::int64_t first) {
    return reference.train_stream(ids, first);
  });
  result.parameters = reference.parameters();
  return result;
}

// In flight by the rule, or twice that: then weights are older.
Plan stream_plan(Plan plan, WeightPolicy policy, std::int64_t scale) {
  plan.weights = policy;
  plan.mini_batch = kMicroBatch;
  std::int64_t most = 0;
  const std::vector<std::int64_t> least = least_in_flight(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].in_flight_samples = scale * least[s];
    most = std::max(most, scale * least[s]);
  }
  if (policy == WeightPolicy::k2bw) plan.mini_batch = most;
  return plan;
}

Plan cut(const Graph& graph, int stages, std::uint64_t seed) {
  return cut_graph(
      graph,
      {.stages = stages, .seed = seed, .mini_batch = kMicroBatch, .micro_batch = kMicroBatch});
}

void use(OptimizerKind kind, TrainOptions& options) {
  options.optimizer = kind;
  options.learning_rate = kind == OptimizerKind::kAdam ? 0.01 : 0.02;
  options.momentum = kind == OptimizerKind::kSgdMomentum ? 0.9 : 0;
}

// Within a share of each value; 0: to the last bit.
void expect_equal(const Case& c, const std::string& where, double within = 0) {
  const auto dataset = synthetic_dataset(c.graph, kSamples, 5);
  const Streams expected = on_one_device(c, *dataset);
  const Streams got = by_plan(c, *dataset);
  ASSERT_EQ(got.losses.size(), expected.losses.size()) << where;
  for (std::size_t s = 0; s < expected.losses.size(); ++s) {
    ASSERT_EQ(got.losses[s].size(), expected.losses[s].size()) << where;
    for (std::size_t i = 0; i < expected.losses[s].size(); ++i) {
      const double loss = expected.losses[s][i];
      EXPECT_NEAR(got.losses[s][i], loss, within * std::abs(loss)) << where << ", " << i;
    }
  }
  ASSERT_EQ(got.parameters.size(), expected.parameters.size()) << where;
  for (const auto& [name, values] : expected.parameters) {
    const at::Tensor& found = got.parameters.at(name);
    EXPECT_TRUE(within == 0 ? at::equal(found, values)
                            : at::allclose(found, values, within, within))
        << where << ", " << name;
  }
}

class StreamsEqual : public testing::TestWithParam<WeightPolicy> {};

// Straight pipelines of a Transformer with dropout.
TEST_P(StreamsEqual, ChainsOfTwoToSixStages) {
  for (int stages = 2; stages <= 6; ++stages) {
    Case c{.graph = load_model("transformer:layers=2,hidden=8,heads=2,sequence=3,dropout=100",
                               DType::kFloat64)};
    c.plan = stream_plan(cut(c.graph, stages, 3), GetParam(), stages % 2 == 0 ? 1 : 2);
    use(stages % 2 == 0 ? OptimizerKind::kAdam : OptimizerKind::kSgdMomentum, c.options);
    expect_equal(c, fmt::format("{} stages", stages));
  }
}

TEST_P(StreamsEqual, BranchesThatForkAndJoin) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    Case c{.graph = load_model("candle-uno:branches=3,layers=2,hidden=8,features=6,top_layers=1",
                               DType::kFloat64)};
    c.plan = stream_plan(cut(c.graph, 5, seed), GetParam(), 1);
    use(seed == 2 ? OptimizerKind::kAdam : OptimizerKind::kSgdMomentum, c.options);
    c.options.weight_decay = 0.01;
    expect_equal(c, fmt::format("seed {}", seed));
  }
}

// A skip past a branch, branches of unlike lengths, one that ends in a loss of its own. No tensor
// has three readers: their gradients would be summed in another order than on one device.
TEST_P(StreamsEqual, AnUnevenGraph) {
  GraphBuilder g("uneven", DType::kFloat64);
  const TensorId x = g.input("x", {6});
  const TensorId target = g.input("target", {6});
  const TensorId trunk = g.gelu("trunk", g.linear("fc", x, 6));
  const TensorId a = g.tanh("a3", g.linear("a2", g.relu("a1", g.linear("a0", trunk, 6)), 6));
  const TensorId b = g.linear("b0", x, 6);
  const TensorId joined = g.add("joined", {a, b, trunk});
  g.loss(g.mse_loss("end", g.linear("out", joined, 6), target));
  g.loss(g.mse_loss("side", g.linear("side.fc", b, 6), target), 0.3, Normaliser::kSum);
  Case c{.graph = std::move(g).build()};
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    c.plan = stream_plan(cut(c.graph, 2 + static_cast<int>(seed), seed), GetParam(),
                         1 + static_cast<std::int64_t>(seed % 2));
    use(seed % 2 == 0 ? OptimizerKind::kAdam : OptimizerKind::kSgdMomentum, c.options);
    expect_equal(c, fmt::format("seed {}", seed));
  }
}

// Gives the stages so many devices, which take turns, or split each micro-batch.
void widen(Plan& plan, const std::vector<int>& widths, Replication replication) {
  int next = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    Stage& stage = plan.stages[s];
    stage.devices.clear();
    for (int d = 0; d < widths[s % widths.size()]; ++d) stage.devices.emplace_back(next++);
    if (stage.devices.size() > 1) stage.replication = replication;
  }
}

// PipeDream's 1F1B-RR, on straight pipelines and on a fork and join. Gradients are summed in the
// order of the micro-batches, so that not even the last bit differs.
TEST_P(StreamsEqual, ReplicasThatTakeTurns) {
  struct Shape {
    const char* model;
    std::vector<int> widths;
    std::int64_t scale;
  };
  const char* chain = "transformer:layers=1,hidden=8,heads=2,sequence=3,dropout=100";
  const char* branches = "candle-uno:branches=3,layers=2,hidden=8,features=6,top_layers=1";
  int drawn = 0;
  // Of 2BW each replica first adds up its own.
  const double within = GetParam() == WeightPolicy::k2bw ? kWithin : 0;
  for (const Shape& shape : {Shape{chain, {2, 1}, 1}, Shape{chain, {1, 2}, 2},
                             Shape{chain, {2, 3, 1}, 1}, Shape{branches, {2, 1, 1, 2}, 1}}) {
    Case c{.graph = load_model(shape.model, DType::kFloat64)};
    Plan plan = cut(c.graph, static_cast<int>(shape.widths.size()), 3);
    widen(plan, shape.widths, Replication::kRoundRobin);
    c.plan = stream_plan(plan, GetParam(), shape.scale);
    // A gradient that is zero but for rounding, as that of the keys' bias, moves Adam by its sign.
    const bool adam = ++drawn % 2 == 0 && (within == 0 || shape.model == branches);
    use(adam ? OptimizerKind::kAdam : OptimizerKind::kSgdMomentum, c.options);
    c.options.weight_decay = 0.01;
    expect_equal(c, fmt::format("case {}", drawn), within);
  }
}

TEST_P(StreamsEqual, ReplicasThatSplitEachMicroBatch) {
  Case c{.graph = load_model("candle-uno:branches=2,layers=2,hidden=8,features=6,top_layers=1",
                             DType::kFloat64)};
  Plan plan = cut(c.graph, 3, 3);
  widen(plan, {2, 1, 3}, Replication::kSplit);
  c.plan = stream_plan(plan, GetParam(), 1);
  use(OptimizerKind::kSgdMomentum, c.options);
  expect_equal(c, "split", kWithin);
}

INSTANTIATE_TEST_SUITE_P(Each, StreamsEqual, testing::ValuesIn(kPolicies), [](const auto& p) {
  std::string name(weight_policy_name(p.param));
  std::erase(name, '-');
  return name;
});

// Delays matter: what the policies train is not the same.
TEST(Streams, PoliciesDiffer) {
  Case c{.graph = load_model("two-branch:blocks=1,hidden=8,heads=2,sequence=3", DType::kFloat64)};
  use(OptimizerKind::kSgd, c.options);
  const auto dataset = synthetic_dataset(c.graph, kSamples, 5);
  std::vector<std::vector<std::vector<double>>> losses;
  for (const WeightPolicy policy : kPolicies) {
    c.plan = stream_plan(cut(c.graph, 4, 1), policy, 1);
    losses.push_back(by_plan(c, *dataset).losses);
    for (std::size_t i = 0; i + 1 < losses.size(); ++i) EXPECT_NE(losses[i], losses.back());
  }
}

TEST(Streams, AreNotClipped) {
  Case c{.graph = load_model("two-branch:blocks=1,hidden=8,heads=2,sequence=3", DType::kFloat64)};
  c.plan = stream_plan(cut(c.graph, 2, 1), WeightPolicy::kStash, 1);
  c.options.clip = 1;
  const auto dataset = synthetic_dataset(c.graph, kSamples, 5);
  EXPECT_THROW(by_plan(c, *dataset), std::runtime_error);
}

}  // namespace
}  // namespace graphpipe
