// What starts when, by arithmetic: all that is to come has come before the first start is due.

#include "runtime/emulation/emulated_network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "job/test_folder.h"
#include "runtime/clock.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

constexpr double kTimeoutS = 5;
// The tests' unit of time, and how long before their first time they say what comes.
constexpr double kUnitS = 1e-3;
constexpr double kAheadS = 0.5;

class Network {
 public:
  explicit Network(const PlanSpec& spec, int cores_per_node = 0) : made_(make_plan(spec)) {
    made_.cluster.cores_per_node = cores_per_node;
    lowered_ =
        lower(build_schedule(made_.plan, made_.graph, spec.samples), made_.plan, made_.graph);
    model_ = std::make_unique<TransferModel>(lowered_, made_.plan, made_.cluster, made_.costs, 1);
    EmulatedNetwork::create(path(), *model_);
    for (std::size_t r = 0; r < lowered_.ranks.size(); ++r) {
      ranks_.push_back(std::make_unique<EmulatedNetwork>(path(), *model_, RankId(r), kTimeoutS));
    }
  }

  const TransferModel& model() const { return *model_; }

  // Of the messages forward over the edge between stages on one rank each.
  int message(int from, int to) const {
    Action send{.kind = ActionKind::kStartSend, .peer = RankId(to)};
    for (std::size_t e = 0; e < made_.plan.edges.size(); ++e) {
      const StageEdge& edge = made_.plan.edges[e];
      if (edge.from == StageId(from) && edge.to == StageId(to)) send.edge = EdgeId(e);
    }
    return model_->lane_of_message(send, RankId(from));
  }

  // All ranks of the lane come to its next transfer at the same time, so many units after the
  // start of time; a transfer takes one.
  void come(int lane, double at) {
    const std::int64_t transfer = come_[lane]++;
    for (const int rank : model_->lanes()[static_cast<std::size_t>(lane)].ranks) {
      come_as(rank, lane, transfer, at);
    }
  }
  void come_as(int rank, int lane, std::int64_t transfer, double at) {
    ranks_[static_cast<std::size_t>(rank)]->come(lane, transfer, start_s_ + kUnitS * at, kUnitS);
  }

  double start_of(int lane, std::int64_t transfer = 0) {
    const int rank = model_->lanes()[static_cast<std::size_t>(lane)].ranks.front();
    const double at_s = ranks_[static_cast<std::size_t>(rank)]->wait_for_start(lane, transfer);
    return std::round(1e3 * (at_s - start_s_) / kUnitS) / 1e3;
  }
  void reset() { ranks_.front()->reset(); }

 private:
  std::string path() const { return folder_.path() + "/network"; }

  TestFolder folder_;
  TestPlan made_;
  Schedule lowered_;
  std::unique_ptr<TransferModel> model_;
  std::vector<std::unique_ptr<EmulatedNetwork>> ranks_;
  std::map<int, std::int64_t> come_;
  double start_s_ = wall_s() + kAheadS;
};

TEST(EmulatedNetwork, ATransferStartsWhenTheLastOfItsRanksHasCome) {
  Network network({.edges = "0>1", .samples = 2, .stages = 2});
  const int lane = network.message(0, 1);
  network.come_as(1, lane, 0, 3);
  network.come_as(0, lane, 0, 7);
  EXPECT_EQ(network.start_of(lane), 7);
}

TEST(EmulatedNetwork, MessagesOutOfARankFollowOneAnother) {
  Network network({.edges = "0>1 0>2", .samples = 2, .stages = 3});
  network.come(network.message(0, 2), 0);
  network.come(network.message(0, 1), 0.5);
  EXPECT_EQ(network.start_of(network.message(0, 2)), 0);
  EXPECT_EQ(network.start_of(network.message(0, 1)), 1);
}

TEST(EmulatedNetwork, MessagesIntoARankFollowOneAnother) {
  Network network({.edges = "0>2 1>2", .samples = 2, .stages = 3});
  network.come(network.message(1, 2), 0);
  network.come(network.message(0, 2), 0.25);
  network.come(network.message(1, 2), 0.5);
  EXPECT_EQ(network.start_of(network.message(0, 2)), 1);
  EXPECT_EQ(network.start_of(network.message(1, 2), 1), 2);
}

TEST(EmulatedNetwork, AMessageThatWaitsHoldsUpNoneThatNeedsOtherPorts) {
  Network network({.edges = "0>2 1>2 1>3", .samples = 2, .stages = 4});
  network.come(network.message(0, 2), 0);
  network.come(network.message(1, 2), 0.25);  // waits for the port into 2
  network.come(network.message(1, 3), 0.5);
  EXPECT_EQ(network.start_of(network.message(1, 3)), 0.5);
  EXPECT_EQ(network.start_of(network.message(1, 2)), 1.5);  // and now for that out of 1
}

TEST(EmulatedNetwork, ARankCarriesOneReductionAtATimeBesideItsMessages) {
  Network network({.edges = "0>1", .samples = 4, .sizes = {2, 2}, .tied = {0, 1}, .stages = 2});
  ASSERT_EQ(network.model().lanes().back().ranks.size(), 2);
  const int sum = network.model().lane_of_bucket(0);
  network.come(network.message(0, 1), 0);
  network.come(sum, 0.25);
  EXPECT_EQ(network.start_of(sum), 0.25);
}

TEST(EmulatedNetwork, TasksWaitForACoreWhereRanksShareThem) {
  Network network({.edges = "0>1 1>2", .samples = 1, .stages = 3}, 2);
  const auto tasks = [&](int rank) { return network.model().lane_of_tasks(RankId(rank)); };
  network.come(tasks(0), 0);
  network.come(tasks(2), 0.5);
  network.come(tasks(1), 0.75);
  EXPECT_EQ(network.start_of(tasks(2)), 0.5);
  EXPECT_EQ(network.start_of(tasks(1)), 1);
  const Network apart({.edges = "0>1 1>2", .samples = 1, .stages = 3}, 3);
  EXPECT_EQ(apart.model().lane_of_tasks(RankId(0)), -1);
}

TEST(EmulatedNetwork, ForgetsAnIteration) {
  Network network({.edges = "0>1", .samples = 1, .stages = 2});
  const int lane = network.message(0, 1);
  network.come(lane, 5);
  network.reset();
  network.come_as(0, lane, 0, 1);
  network.come_as(1, lane, 0, 2);
  EXPECT_EQ(network.start_of(lane), 2);
}

TEST(TransferModel, KnowsHowLongSingleTransfersTake) {
  TestPlan made =
      make_plan({.edges = "0>1", .samples = 2, .sizes = {2, 2}, .tied = {0, 1}, .stages = 2});
  made.cluster.levels[0].link = {.bandwidth_bytes_per_s = 100, .latency_s = 3};
  const Schedule lowered = lower(build_schedule(made.plan, made.graph, 2), made.plan, made.graph);
  const TransferModel model(lowered, made.plan, made.cluster, made.costs, 10);
  const Action send{
      .kind = ActionKind::kStartSend, .edge = EdgeId(0), .peer = RankId(1), .bytes = 200};
  EXPECT_DOUBLE_EQ(model.message_s(send, RankId(0)), 20);
  EXPECT_DOUBLE_EQ(model.lanes()[0].latency_s, 30);
  EXPECT_EQ(model.lanes()[0].transfers, 1);
  // A ring of two: both halves of 64 bytes once around, twice the latency.
  EXPECT_DOUBLE_EQ(model.reduction_s(0), 10 * (0.64 + 2 * 3));
}

}  // namespace
}  // namespace graphpipe
