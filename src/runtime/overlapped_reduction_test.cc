// Sums that begin within a backward: gradients of 27 MB, each a bucket of its own, on two ranks.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "runtime/rank_trainer.h"
#include "runtime/reference.h"
#include "runtime/test_transport.h"
#include "runtime/thread_ranks.h"
#include "schedule/test_large_chain.h"

namespace graphpipe {
namespace {

constexpr double kOverlapTimeoutS = 60;

// Counts the messages of a rank, and fails at the one asked for.
class CountingTransport final : public ForwardingTransport {
 public:
  CountingTransport(std::unique_ptr<Transport> inner, int fails_at)
      : ForwardingTransport(std::move(inner)), fails_at_(fails_at) {}
  std::unique_ptr<PendingSend> start_send(std::int64_t bytes, int peer, int tag,
                                          const Pack& pack) override {
    if (++sends_ == fails_at_) throw RunError("no way out");
    return ForwardingTransport::start_send(bytes, peer, tag, pack);
  }
  int sends() const { return sends_; }

 private:
  int fails_at_;
  int sends_ = 0;
};

class OverlappedReduction : public testing::Test {
 protected:
  // An iteration on both ranks, their messages counted.
  void train(int fails_at, const std::function<void(RankTrainer&, int rank)>& after) {
    auto transports = connect_threads(2, kOverlapTimeoutS);
    std::vector<CountingTransport*> counters;
    for (auto& transport : transports) {
      auto counting = std::make_unique<CountingTransport>(std::move(transport), fails_at);
      counters.push_back(counting.get());
      transport = std::move(counting);
    }
    run_thread_ranks(transports, [&](Transport& transport) {
      const int rank = transport.rank();
      RankTrainerOptions options;
      options.train = train_options_;
      options.keep_gradients = true;
      options.on_action = [&](const Action& action, std::int64_t, std::int64_t, const char*) {
        if (rank != 0 || action.bucket < 0) return;
        sends_by_.push_back({to_text(action, large_.plan), counters[0]->sends()});
      };
      RankTrainer trainer(large_.plan, large_.graph, large_.cluster, *dataset_, transport, options);
      trainer.train({5, 3}, 0, true);
      after(trainer, rank);
    });
  }

  struct Sends {
    std::string before;
    int count;
    friend bool operator==(const Sends&, const Sends&) = default;
  };

  LargeChain large_{1};
  std::unique_ptr<Dataset> dataset_ = synthetic_dataset(large_.graph, 8, 3);
  TrainOptions train_options_;
  std::vector<Sends> sends_by_;  // rank 0's, when the program comes to a reduction
};

TEST_F(OverlappedReduction, TrainsAsOneDeviceDoes) {
  ReferenceTrainer reference(large_.graph, *dataset_, train_options_);
  const IterationResult expected = reference.train({5, 3}, 0, 1);
  const auto weights = reference.parameters();
  EXPECT_GT(expected.loss, 0);
  train(0, [&](RankTrainer& trainer, int) {
    for (const auto& [name, tensor] : trainer.parameters()) {
      EXPECT_TRUE(tensor.equal(weights.at(name))) << name;
    }
  });
}

// Where the program comes to the reductions behind the backward, all of them have happened: three
// starts and the wait for the first, which sends the sums.
TEST_F(OverlappedReduction, BeginsWithinTheBackward) {
  train(0, [](RankTrainer&, int) {});
  const std::vector<Sends> expected = {{"reduce #0 in 0B0", 4},  {"reduce #1 in 0B0", 4},
                                       {"reduced #0 in 0B0", 4}, {"reduce #2 in 0B0", 4},
                                       {"reduced #1", 4},        {"reduce #3", 5},
                                       {"reduced #2", 6},        {"reduced #3", 7}};
  ASSERT_EQ(sends_by_.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(sends_by_[i].before, expected[i].before);
    EXPECT_EQ(sends_by_[i].count, expected[i].count) << expected[i].before;
  }
}

TEST_F(OverlappedReduction, AFailureNamesTheReduction) {
  try {
    train(2, [](RankTrainer&, int) {});
    FAIL() << "nothing failed";
  } catch (const ActionError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("(iteration 0, stage 0, micro-batch 0, reduce #1 in 0B0): no way out"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace graphpipe
