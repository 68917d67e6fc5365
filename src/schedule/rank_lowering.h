// One rank's program, action by action: wraps each compute in its receives, sends and
// frees, keeping count of what is on the way over every edge. See lower.h for the order.

#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/local_values.h"
#include "schedule/messages.h"

namespace graphpipe {

class RankLowering {
 public:
  RankLowering(const MessageMap& map, LocalValues local, RankId rank,
               const std::vector<Placement>& placed);

  // Post_receives of every edge's first window.
  void start(std::vector<Action>& out);
  void lower(const Action& compute, std::vector<Action>& out);
  // Wait_sends of all that is on the way.
  void finish(std::vector<Action>& out);

  // Where every edge stands, in samples counted from `origin`: two equal states are
  // followed by equal actions, as long as what is ahead is alike.
  std::vector<std::int64_t> state(std::int64_t origin) const;

 private:
  // A message with its task at this rank.
  struct Item {
    RankId peer;
    SampleRange samples;
    std::int64_t micro_batch = 0;
  };
  // All messages of a direction over an edge that this rank receives, or sends, whoever
  // is at the other end: in the order of their samples.
  struct Flow {
    EdgeId edge = {};
    Direction direction = Direction::kForward;
    StageId stage = {};  // at this rank
    int replica = 0;
    std::deque<Item> on_way = {};  // posted and not received; sent and not waited for
    std::int64_t done = 0;         // receiving: what this rank has come to; sending: what has left
    std::int64_t next_task = 0;    // receiving: the first micro-batch not yet looked at
    std::deque<Item> ahead = {};   // receiving: found and not posted
    auto key() const { return std::tuple(edge, direction); }
  };

  // What a task saved that others of the rank read.
  struct Shared {
    std::int64_t unread = 0;               // samples, of each edge, that they have to
    std::optional<Action> last_pass = {};  // the task's own, where it has run
  };

  Flow& find(std::vector<Flow>& flows, EdgeId edge, Direction direction) const;
  bool find_ahead(Flow& flow) const;
  void post(Flow& flow, std::vector<Action>& out) const;
  void receive(const Message& message, std::vector<Action>& out);
  void send(const Message& message, const Action& compute, std::vector<Action>& out);
  void wait_oldest_send(Flow& flow, std::vector<Action>& out) const;
  void free_messages(const Action& pass, Direction direction, std::vector<Action>& out) const;
  void free(const Action& last_pass, std::vector<Action>& out) const;
  void end(const Action& last_pass, std::vector<Action>& out);
  Action message_action(ActionKind kind, const Flow& flow, const Item& item) const;

  const MessageMap& map_;
  LocalValues local_;
  RankId rank_;
  std::map<std::pair<StageId, std::int64_t>, Shared> shared_;  // by stage, micro-batch
  std::vector<Flow> in_;                                       // by key
  std::vector<Flow> out_;
};

}  // namespace graphpipe
