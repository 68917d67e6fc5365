#include "runtime/emulation/transfer_model.h"

#include "base/error.h"
#include "schedule/drawing.h"

namespace graphpipe {

TransferModel::TransferModel(const Schedule& lowered, const Plan& plan, const Cluster& cluster,
                             const CostModel& costs, double stretch)
    : lowered_(lowered),
      plan_(plan),
      cluster_(cluster),
      seconds_(lowered, cluster, costs),
      stretch_(stretch),
      task_lanes_(lowered.ranks.size(), -1) {
  GP_CHECK(lowered.lowered, "only lowered schedules have transfers");
  add_channels();
  add_buckets();
  add_task_lanes();
}

int TransferModel::add_resource(int servers) {
  servers_.push_back(servers);
  return static_cast<int>(servers_.size()) - 1;
}

void TransferModel::add_channels() {
  for (std::size_t r = 0; r < lowered_.ranks.size(); ++r) {
    const RankId rank(r);
    for (ActionCursor at(lowered_, plan_, rank); !at.done(); at.next()) {
      if (at.action().kind != ActionKind::kStartSend) continue;
      const auto [lane, is_new] = channel_lanes_.try_emplace(channel_of(at.action(), rank),
                                                             static_cast<int>(lanes_.size()));
      if (is_new) lanes_.emplace_back();
      ++lanes_[static_cast<std::size_t>(lane->second)].transfers;
    }
  }
  std::map<Port, int> ports;
  for (const auto& [channel, index] : channel_lanes_) {
    Lane& lane = lanes_[static_cast<std::size_t>(index)];
    lane.ranks = {channel.from.value, channel.to.value};
    lane.latency_s = stretch_ * seconds_.latency_s(channel);
    for (const Port& port : seconds_.ports(channel)) {
      const auto [found, is_new] = ports.try_emplace(port, -1);
      if (is_new) found->second = add_resource(1);
      lane.resources.push_back(found->second);
    }
  }
}

// A rank carries one reduction at a time.
void TransferModel::add_buckets() {
  first_bucket_lane_ = static_cast<int>(lanes_.size());
  const int first = static_cast<int>(servers_.size());
  for (std::size_t r = 0; r < lowered_.ranks.size(); ++r) add_resource(1);
  for (const Bucket& bucket : lowered_.buckets) {
    Lane lane;
    for (const RankId rank : bucket.ranks) {
      lane.ranks.push_back(rank.value);
      lane.resources.push_back(first + rank.value);
    }
    lanes_.push_back(std::move(lane));
  }
  // Every holder has the same; a stream has one with every step.
  for (std::size_t b = 0; b < lowered_.buckets.size(); ++b) {
    Lane& lane = lanes_[static_cast<std::size_t>(first_bucket_lane_) + b];
    const RankId holder = lowered_.buckets[b].ranks.front();
    for (ActionCursor at(lowered_, plan_, holder); !at.done(); at.next()) {
      const Action& action = at.action();
      if (action.kind != ActionKind::kStartReduce) continue;
      if (action.bucket == static_cast<int>(b)) ++lane.transfers;
    }
  }
}

// Where ranks share cores, a task waits for one of these.
void TransferModel::add_task_lanes() {
  for (const std::vector<RankId>& ranks : seconds_.ranks_that_share_cores()) {
    const int cores = add_resource(cluster_.cores_per_node);
    for (const RankId rank : ranks) {
      Lane lane{.ranks = {rank.value}, .resources = {cores}};
      for (ActionCursor at(lowered_, plan_, rank); !at.done(); at.next()) {
        // A backward goes on after what happens within it.
        if (is_compute(at.action().kind) || at.action().after.valid()) ++lane.transfers;
      }
      task_lanes_[rank.index()] = static_cast<int>(lanes_.size());
      lanes_.push_back(std::move(lane));
    }
  }
}

int TransferModel::lane_of_message(const Action& action, RankId rank) const {
  return channel_lanes_.at(channel_of(action, rank));
}

double TransferModel::message_s(const Action& action, RankId rank) const {
  return stretch_ * seconds_.message_s(channel_of(action, rank), action.bytes);
}

double TransferModel::reduction_s(int bucket) const {
  return stretch_ * seconds_.reduction_s(lowered_.buckets[static_cast<std::size_t>(bucket)]);
}

}  // namespace graphpipe
