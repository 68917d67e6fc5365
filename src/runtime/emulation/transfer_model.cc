#include "runtime/emulation/transfer_model.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/ports.h"
#include "schedule/drawing.h"

namespace graphpipe {

TransferModel::TransferModel(const Schedule& lowered, const Plan& plan, const Cluster& cluster,
                             const CostModel& costs, double stretch)
    : lowered_(lowered),
      plan_(plan),
      cluster_(cluster),
      costs_(costs),
      stretch_(stretch),
      task_lanes_(lowered.ranks.size(), -1) {
  GP_CHECK(lowered.lowered, "only lowered schedules have transfers");
  add_channels();
  add_buckets();
  add_task_lanes();
}

TransferModel::Channel TransferModel::channel_of(const Action& action, RankId rank) {
  const bool sends = action.kind == ActionKind::kStartSend || action.kind == ActionKind::kWaitSend;
  return {action.edge, action.direction, sends ? rank : action.peer, sends ? action.peer : rank};
}

const Link& TransferModel::link_of(const Channel& channel) const {
  return link_between(cluster_, device(std::get<2>(channel)), device(std::get<3>(channel)));
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
    const auto [edge, direction, from, to] = channel;
    Lane& lane = lanes_[static_cast<std::size_t>(index)];
    lane.ranks = {from.value, to.value};
    lane.latency_s = stretch_ * latency_s(link_of(channel));
    for (const Port& port : ports_between(cluster_, device(from), device(to))) {
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
    Lane lane{.transfers = 1};
    for (const RankId rank : bucket.ranks) {
      lane.ranks.push_back(rank.value);
      lane.resources.push_back(first + rank.value);
    }
    lanes_.push_back(std::move(lane));
  }
}

// Where the ranks of a node are more than its cores, a task waits for one of these.
void TransferModel::add_task_lanes() {
  if (cluster_.cores_per_node <= 0) return;
  std::map<int, std::vector<RankId>> nodes;
  for (std::size_t r = 0; r < lowered_.ranks.size(); ++r) {
    nodes[group_of(cluster_, device(RankId(r)), 0)].emplace_back(r);
  }
  for (const auto& [node, ranks] : nodes) {
    if (static_cast<int>(ranks.size()) <= cluster_.cores_per_node) continue;
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
  const Link& link = link_of(channel_of(action, rank));
  return stretch_ * std::max(0.0, costs_.transfer_s(action.bytes, link) - latency_s(link));
}

double TransferModel::reduction_s(int bucket) const {
  const Bucket& summed = lowered_.buckets[static_cast<std::size_t>(bucket)];
  std::vector<DeviceId> devices;
  for (const RankId rank : summed.ranks) devices.push_back(device(rank));
  return stretch_ * costs_.reduce_s(summed.bytes, static_cast<int>(devices.size()),
                                    slowest_link(cluster_, devices));
}

}  // namespace graphpipe
