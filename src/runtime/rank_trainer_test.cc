#include "runtime/rank_trainer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "graph/builder.h"
#include "plan/stage_memory.h"
#include "runtime/counting_allocator.h"
#include "runtime/test_transport.h"
#include "runtime/thread_ranks.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kMiniBatch = 8;
constexpr double kWaitS = 20;

Cluster cluster_of(int devices) {
  Cluster cluster;
  cluster.types = {{.name = "rank",
                    .peak_flops_per_s = 1e9,
                    .memory_bandwidth_bytes_per_s = 1e9,
                    .memory_bytes = 1 << 30}};
  cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
  cluster.levels = {{.name = "node", .group_size = devices, .link = {1e9, 1e-6}}};
  return cluster;
}

// x -> fc0 -> relu | fc1 -> loss: two stages, four micro-batches of two.
struct Chain {
  Chain() {
    GraphBuilder g("chain");
    const TensorId h = g.relu("relu", g.linear("fc0", g.input("x", {8}), 16));
    const TensorId d = g.dropout("dropout", h, 0.2);
    const TensorId y = g.linear("fc1", d, 2);
    const TensorId loss = g.mse_loss("loss", y, g.input("target", {2}));
    g.loss(loss);
    g.metric("rmse", "root_mean", loss);
    graph = std::move(g).build();
    dataset = synthetic_dataset(graph, 40, 3);
    plan.graph_hash = graph_hash(graph);
    plan.mini_batch = kMiniBatch;
    plan.stages.resize(2);
    plan.stages[0].ops = {OpId(0), OpId(1), OpId(2)};
    plan.stages[1].ops = {OpId(3), OpId(4)};
    for (std::size_t s = 0; s < 2; ++s) {
      plan.stages[s].devices = {DeviceId(s)};
      plan.stages[s].micro_batch = 2;
    }
    canonicalise(plan, graph);
    const std::vector<std::int64_t> in_flight = least_in_flight(plan);
    for (std::size_t s = 0; s < 2; ++s) plan.stages[s].in_flight_samples = in_flight[s];
    options.train.learning_rate = 0.05;
  }

  using Body = std::function<void(RankTrainer&, int rank)>;
  void run(const Body& body) const { run_on(connect_threads(2, kWaitS), body); }
  void run_on(std::vector<std::unique_ptr<Transport>> transports, const Body& body) const {
    const Cluster cluster = cluster_of(static_cast<int>(transports.size()));
    run_thread_ranks(transports, [&](Transport& transport) {
      RankTrainerOptions own = options;
      if (adjust) adjust(own, transport.rank());
      RankTrainer trainer(plan, graph, cluster, *dataset, transport, own);
      body(trainer, transport.rank());
    });
  }

  Graph graph;
  Plan plan;
  std::unique_ptr<Dataset> dataset;
  RankTrainerOptions options;
  std::function<void(RankTrainerOptions&, int rank)> adjust;
};

std::vector<std::int64_t> ids(std::int64_t lo, std::int64_t hi) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(hi - lo));
  std::iota(result.begin(), result.end(), lo);
  return result;
}

using Weights = std::map<std::string, at::Tensor>;

void expect_equal(const Weights& a, const Weights& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
}

// The weights of both ranks after `body`.
Weights weights_after(const Chain& chain, const Chain::Body& body) {
  Weights weights;
  std::mutex mutex;
  chain.run([&](RankTrainer& trainer, int rank) {
    body(trainer, rank);
    const std::lock_guard lock(mutex);
    weights.merge(trainer.parameters());
  });
  return weights;
}

void train_twice(RankTrainer& trainer, int) {
  trainer.train(ids(0, 8), 0, false);
  trainer.train(ids(8, 16), 1, false);
}

TEST(RankTrainer, IsRepeatableBySeed) {
  Chain chain;
  const Weights first = weights_after(chain, train_twice);
  expect_equal(first, weights_after(chain, train_twice));
  chain.options.train.seed = 2;
  EXPECT_FALSE(first.at("fc0.weight").equal(weights_after(chain, train_twice).at("fc0.weight")));
}

TEST(RankTrainer, EvaluationTouchesNoTrainingState) {
  const Chain chain;
  const Weights with = weights_after(chain, [](RankTrainer& trainer, int) {
    trainer.evaluate(ids(20, 33));
    trainer.train(ids(0, 8), 0, false);
    trainer.evaluate(ids(20, 40));
    trainer.train(ids(8, 16), 1, false);
    trainer.evaluate(ids(20, 21));
  });
  expect_equal(weights_after(chain, train_twice), with);
}

TEST(RankTrainer, EvaluationIsTheSameOnEveryRankAndHasEachLossAndMetric) {
  const Chain chain;
  std::vector<std::map<std::string, double>> values(2);
  chain.run([&](RankTrainer& trainer, int rank) {
    values[static_cast<std::size_t>(rank)] = trainer.evaluate(ids(0, 13));
  });
  EXPECT_EQ(values[0], values[1]);
  ASSERT_EQ(values[0].size(), 2U);
  EXPECT_EQ(values[0].at("rmse"), std::sqrt(values[0].at("loss")));
}

TEST(RankTrainer, MetricsAreTheSameOnEveryRank) {
  const Chain chain;
  std::vector<IterationResult> results(2);
  chain.run([&](RankTrainer& trainer, int rank) {
    results[static_cast<std::size_t>(rank)] = trainer.train(ids(0, 8), 0, true);
  });
  EXPECT_GT(results[0].loss, 0);
  EXPECT_GT(results[0].grad_norm, 0);
  EXPECT_EQ(results[0].loss, results[1].loss);
  EXPECT_EQ(results[0].grad_norm, results[1].grad_norm);
}

TEST(RankTrainer, SavedWeightsComeBack) {
  const Chain chain;
  const Weights at_start = weights_after(chain, [](RankTrainer&, int) {});
  expect_equal(at_start, weights_after(chain, [](RankTrainer& trainer, int rank) {
                 trainer.save_weights();
                 train_twice(trainer, rank);
                 trainer.restore_weights();
               }));
}

TEST(RankTrainer, MeasuresWhatItDid) {
  install_counting_allocator();
  const Chain chain;
  const std::int64_t message = message_bytes(chain.graph, chain.plan.edges[0], 2, false);
  chain.run([&](RankTrainer& trainer, int rank) {
    trainer.train(ids(0, 8), 0, false);
    trainer.reset_measurements();
    trainer.train(ids(8, 16), 1, false);
    trainer.evaluate(ids(0, 8));  // not counted
    const RankMeasurement measured = trainer.measurement();
    EXPECT_EQ(measured.iterations, 1);
    EXPECT_EQ(measured.bytes_sent, 4 * message) << rank;  // both ways carry the same tensor
    EXPECT_GT(measured.compute_s, 0);
    EXPECT_GT(measured.compute_cpu_s, 0);
    EXPECT_LT(measured.compute_cpu_s + measured.step_cpu_s, measured.total_cpu_s);
    // Of each micro-batch: two computes, a message sent (start, wait), one received (post,
    // wait), two frees. And a step.
    EXPECT_EQ(measured.actions, 4 * (2 + 2 + 2 + 2) + 1);
    std::int64_t weights = 0;
    for (const auto& [name, tensor] : trainer.parameters()) weights += 4 * tensor.numel();
    EXPECT_GE(measured.peak_bytes, 2 * weights);  // and gradients
  });
}

TEST(RankTrainer, PeakMemoryDoesNotGrowWithMicroBatches) {
  install_counting_allocator();
  const auto peak = [](std::int64_t mini_batch) {
    Chain chain;
    chain.plan.mini_batch = mini_batch;
    std::int64_t bytes = 0;
    // Over Gloo every send has a buffer of its own, whoever comes first.
    chain.run_on(connect_threads(2, kWaitS, TransportKind::kGloo),
                 [&](RankTrainer& trainer, int rank) {
                   trainer.train(ids(0, mini_batch), 0, false);
                   trainer.reset_measurements();
                   trainer.train(ids(0, mini_batch), 1, false);
                   if (rank == 0) bytes = trainer.measurement().peak_bytes;
                 });
    return bytes;
  };
  const std::int64_t few = peak(8);
  EXPECT_GT(few, 0);
  EXPECT_EQ(peak(40), few);
}

TEST(RankTrainer, TraceHasTheActionsInTheirOrder) {
  Chain chain;
  chain.options.trace = true;
  chain.run([&](RankTrainer& trainer, int rank) {
    trainer.train(ids(0, 8), 0, false);
    const Trace& trace = trainer.trace();
    EXPECT_EQ(trace.samples, 8);
    int forwards = 0;
    int backwards = 0;
    double last_end_s = 0;
    for (const TraceEvent& event : trace.events) {
      EXPECT_EQ(event.rank, RankId(rank));
      EXPECT_GE(event.start_s, last_end_s);
      EXPECT_GE(event.end_s, event.start_s);
      last_end_s = event.end_s;
      forwards += event.action.kind == ActionKind::kForward;
      backwards += event.action.kind == ActionKind::kBackward;
    }
    EXPECT_LE(last_end_s, trace.iteration_s);
    EXPECT_EQ(forwards, 4);
    EXPECT_EQ(backwards, 4);
    EXPECT_GT(trace.ranks[static_cast<std::size_t>(rank)].busy_s, 0);
  });
}

// What run() throws, as "TYPE: what()".
std::string failure(const Chain& chain, const Chain::Body& body,
                    std::vector<std::unique_ptr<Transport>> transports) {
  try {
    chain.run_on(std::move(transports), body);
  } catch (const InputError& error) {
    return std::string("InputError: ") + error.what();
  } catch (const ActionError& error) {
    return std::string("ActionError: ") + error.what();
  } catch (const RunError& error) {
    return std::string("RunError: ") + error.what();
  }
  return "";
}

std::string failure(const Chain& chain, const Chain::Body& body = train_twice) {
  return failure(chain, body, connect_threads(2, kWaitS));
}

TEST(RankTrainerRefuses, ProgramsThatWaitForEachOther) {
  Chain chain;  // the second stage wants two micro-batches before it sends a gradient
  chain.plan.stages[0].in_flight_samples = 2;
  chain.plan.stages[1].in_flight_samples = 4;
  EXPECT_EQ(failure(chain),
            "InputError: plan: a mini-batch of 8 samples: rank 0, action 4: recv 0>1 B [0,2): V3: "
            "ranks 0, 1 wait for each other\n"
            "  rank 0, action 4: recv 0>1 B [0,2) (until rank 1 sends it)\n"
            "  rank 1, action 6: recv 0>1 F [2,4) (until rank 0 sends it)");
}

TEST(RankTrainerRefuses, AnotherNumberOfRanks) {
  const Chain chain;
  EXPECT_EQ(failure(chain, train_twice, connect_threads(3, kWaitS)),
            "InputError: plan: uses 2 devices, and 3 ranks were started");
}

TEST(RankTrainerRefuses, RanksWithOtherOptions) {
  Chain chain;
  chain.adjust = [](RankTrainerOptions& options, int rank) {
    if (rank == 1) options.train.learning_rate = 0.5;
  };
  EXPECT_EQ(failure(chain),
            "RunError: rank 1 was started with another plan, model or options than rank 0");
}

// Passes messages on, but what rank 0 sends goes through `spoil` first.
class SpoiledTransport : public ForwardingTransport {
 public:
  using Spoil = std::function<void(std::byte* message, std::size_t bytes)>;
  SpoiledTransport(std::unique_ptr<Transport> inner, Spoil spoil)
      : ForwardingTransport(std::move(inner)), spoil_(std::move(spoil)) {}
  std::unique_ptr<PendingSend> start_send(std::int64_t bytes, int peer, int tag,
                                          const Pack& pack) override {
    return ForwardingTransport::start_send(bytes, peer, tag, [&](std::byte* message) {
      pack(message);
      if (rank() == 0) spoil_(message, static_cast<std::size_t>(bytes));
    });
  }

 private:
  Spoil spoil_;
};

std::string failure_with(const SpoiledTransport::Spoil& spoil) {
  auto transports = connect_threads(2, kWaitS);
  for (auto& transport : transports) {
    transport = std::make_unique<SpoiledTransport>(std::move(transport), spoil);
  }
  return failure(Chain(), train_twice, std::move(transports));
}

TEST(RankTrainerFails, OnAMessageThatIsAnother) {
  // The second message is the first once more.
  std::vector<std::byte> first;
  EXPECT_EQ(failure_with([&](std::byte* message, std::size_t bytes) {
              if (first.empty()) {
                first.assign(message, message + bytes);
              } else {
                std::memcpy(message, first.data(), bytes);
              }
            }),
            "ActionError: rank 1 (iteration 0, stage 1, micro-batch 1, recv 0>1 F [2,4)): message "
            "0>1 F [2,4) from rank 0: samples: expected [2,4), got [0,2)");
}

TEST(RankTrainerFails, OnAMessageOfAnotherIteration) {
  // The second iteration sends the first one's messages.
  std::vector<std::vector<std::byte>> sent;
  EXPECT_EQ(failure_with([&](std::byte* message, std::size_t bytes) {
              if (sent.size() == 4) std::memcpy(message, sent[0].data(), bytes);
              sent.emplace_back(message, message + bytes);
            }),
            "ActionError: rank 1 (iteration 1, stage 1, micro-batch 0, recv 0>1 F [0,2)): message "
            "0>1 F [0,2) from rank 0: iteration: expected 1, got 0");
}

TEST(RankTrainerFails, OnSamplesThatAreNotInStep) {
  EXPECT_EQ(failure_with([](std::byte* message, std::size_t bytes) {
              const std::int64_t other = 30;
              std::memcpy(message + bytes - 8, &other, 8);  // the last sample's id
            }),
            "ActionError: rank 1 (iteration 0, stage 1, micro-batch 0, recv 0>1 F [0,2)): message "
            "0>1 F [0,2) from rank 0: sample 1 of the mini-batch: expected id 1, got 30");
}

TEST(RankTrainerFails, NamingTheRankThatThrewWhenOthersLoseIt) {
  for (const int culprit : {0, 1}) {
    Chain chain;
    chain.adjust = [&](RankTrainerOptions& options, int rank) {
      if (rank != culprit) return;
      options.on_action = [](const Action& action, std::int64_t iteration, std::int64_t,
                             const char*) {
        if (iteration == 1 && action.kind == ActionKind::kBackward && action.micro_batch == 2) {
          throw std::runtime_error("planted");
        }
      };
    };
    EXPECT_EQ(failure(chain), fmt::format("ActionError: rank {0} (iteration 1, stage {0}, "
                                          "micro-batch 2, {0}B2): planted",
                                          culprit));
  }
}

TEST(RankTrainerFails, AsALostPeerWhereAnotherRankIsGone) {
  const Chain chain;
  const std::string text = failure(chain, [](RankTrainer& trainer, int rank) {
    if (rank == 1) throw PeerError("left");
    try {
      trainer.train(ids(0, 8), 0, false);
    } catch (const ActionError& error) {
      EXPECT_TRUE(error.peer_lost());
      EXPECT_TRUE(error.cause().starts_with("rank 1: ")) << error.cause();
      throw;
    }
  });
  EXPECT_TRUE(text.starts_with("ActionError: rank 0 (iteration 0, stage 0, ")) << text;
}

TEST(RankTrainerFails, OnASampleThatTheDataDoNotHave) {
  const Chain chain;
  EXPECT_EQ(failure(chain,
                    [](RankTrainer& trainer, int) {
                      trainer.train({0, 40}, 0, false);
                    }),
            "InputError: data set synthetic: sample 40 was asked for; it has samples 0 to 39");
}

}  // namespace
}  // namespace graphpipe
