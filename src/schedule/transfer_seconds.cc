#include "schedule/transfer_seconds.h"

#include <algorithm>
#include <map>

namespace graphpipe {

MessageChannel channel_of(const Action& action, RankId rank) {
  const bool sends = action.kind == ActionKind::kStartSend || action.kind == ActionKind::kWaitSend;
  return {action.edge, action.direction, sends ? rank : action.peer, sends ? action.peer : rank};
}

const Link& TransferSeconds::link(const MessageChannel& channel) const {
  return link_between(cluster_, device(channel.from), device(channel.to));
}

std::vector<Port> TransferSeconds::ports(const MessageChannel& channel) const {
  return ports_between(cluster_, device(channel.from), device(channel.to));
}

double TransferSeconds::message_s(const MessageChannel& channel, std::int64_t bytes) const {
  return std::max(0.0, costs_.transfer_s(bytes, link(channel)) - latency_s(channel));
}

double TransferSeconds::latency_s(const MessageChannel& channel) const {
  return costs_.transfer_s(0, link(channel));
}

double TransferSeconds::reduction_s(const Bucket& bucket) const {
  std::vector<DeviceId> devices;
  for (const RankId rank : bucket.ranks) devices.push_back(device(rank));
  return costs_.reduce_s(bucket.bytes, static_cast<int>(devices.size()),
                         slowest_link(cluster_, devices));
}

std::vector<std::vector<RankId>> TransferSeconds::ranks_that_share_cores() const {
  std::vector<std::vector<RankId>> shared;
  if (cluster_.cores_per_node <= 0) return shared;
  std::map<int, std::vector<RankId>> nodes;
  for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
    nodes[group_of(cluster_, device(RankId(r)), 0)].emplace_back(r);
  }
  for (auto& [node, ranks] : nodes) {
    if (static_cast<int>(ranks.size()) > cluster_.cores_per_node) {
      shared.push_back(std::move(ranks));
    }
  }
  return shared;
}

}  // namespace graphpipe
