// One rank's program, action by action: wraps each compute in its receives, sends and
// frees, keeping count of what is on the way in every channel. See lower.h for the order.

#pragma once

#include <compare>
#include <deque>
#include <vector>

#include "schedule/messages.h"

namespace graphpipe {

class RankLowering {
 public:
  RankLowering(const MessageMap& map, RankId rank, const std::vector<Placement>& placed);

  // Post_receives of every channel's first window.
  void start(std::vector<Action>& out);
  void lower(const Action& compute, std::vector<Action>& out);
  // Wait_sends of all that is on the way.
  void finish(std::vector<Action>& out);

  // Where every channel stands, in samples counted from `origin`: two equal states are
  // followed by equal actions, as long as what is ahead is alike.
  std::vector<std::int64_t> state(std::int64_t origin) const;

 private:
  // A message of the channel with its task at this rank.
  struct Item {
    SampleRange samples;
    std::int64_t micro_batch = 0;
  };
  struct Channel {
    EdgeId edge = {};
    Direction direction = Direction::kForward;
    RankId peer = {};
    StageId stage = {};  // at this rank
    int replica = 0;
    int peer_replica = 0;            // of incoming channels
    std::deque<Item> on_way = {};    // posted and not received; sent and not waited for
    std::int64_t done = 0;           // the sample up to which messages were received, or have left
    std::int64_t last = 0;           // ... up to which they were posted, or sent
    std::int64_t next_task = 0;      // incoming: the first micro-batch not yet looked at
    std::deque<Item> upcoming = {};  // incoming: found and not posted
    auto key() const { return std::tuple(edge, direction, peer); }
  };

  Channel& find(std::vector<Channel>& channels, const Message& message);
  bool fits(const Channel& channel, SampleRange samples) const;
  bool find_upcoming(Channel& channel);
  void post(Channel& channel, std::vector<Action>& out);
  void receive(const Message& message, std::vector<Action>& out);
  void send(const Message& message, const Action& compute, std::vector<Action>& out);
  void wait_oldest_send(Channel& channel, std::vector<Action>& out);
  void free(const Action& compute, bool backward, std::vector<Action>& out) const;
  Action message_action(ActionKind kind, const Channel& channel, const Item& item) const;

  const MessageMap& map_;
  RankId rank_;
  std::vector<Channel> in_;   // by key
  std::vector<Channel> out_;  // by key; made when first used
};

}  // namespace graphpipe
