// What messages and reductions take and where they queue, by the rules of docs/simulator.md:
// what the simulator and emulated runs share. When each takes place is theirs to find out.

#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "cluster/ports.h"
#include "cost/cost_model.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Messages from one rank to another over one edge in one direction: sent and received in one
// order.
struct MessageChannel {
  EdgeId edge;
  Direction direction = Direction::kForward;
  RankId from;
  RankId to;
  friend auto operator<=>(const MessageChannel&, const MessageChannel&) = default;
};
// Of a post or wait of a message, or its send, on the rank.
MessageChannel channel_of(const Action& action, RankId rank);

class TransferSeconds {
 public:
  // What the references name must outlive the object.
  TransferSeconds(const Schedule& schedule, const Cluster& cluster, const CostModel& costs)
      : schedule_(schedule), cluster_(cluster), costs_(costs) {}

  // What a message holds while its bytes pass, for how long, and how long after it arrives: what
  // one of no bytes takes.
  std::vector<Port> ports(const MessageChannel& channel) const;
  double message_s(const MessageChannel& channel, std::int64_t bytes) const;
  double latency_s(const MessageChannel& channel) const;

  double reduction_s(const Bucket& bucket) const;

  // Of nodes whose ranks are more than their cores, the ranks: they share these.
  std::vector<std::vector<RankId>> ranks_that_share_cores() const;

 private:
  DeviceId device(RankId rank) const { return schedule_.ranks[rank.index()].device; }
  const Link& link(const MessageChannel& channel) const;

  const Schedule& schedule_;
  const Cluster& cluster_;
  const CostModel& costs_;
};

}  // namespace graphpipe
