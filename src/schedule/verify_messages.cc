// V1 and V2, channel by channel: what is sent is what is received, in the same order.

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "plan/stage_memory.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

struct Key {
  EdgeId edge;
  Direction direction = Direction::kForward;
  RankId sender;
  RankId receiver;
  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Item {
  Action action;
  std::int64_t position = 0;
};

struct Channel {
  std::vector<Item> sends;
  std::vector<Item> posts;
  std::vector<Item> receives;
};

class MessageCheck {
 public:
  MessageCheck(const VerifyContext& context, FaultList& faults)
      : context_(context), needs_(needs_gradient(context.graph)), faults_(faults) {}

  void run() {
    for (std::size_t r = 0; r < context_.schedule.ranks.size(); ++r) collect(RankId(r));
    for (const auto& [key, channel] : channels_) {
      const bool matched = match(key, channel);
      if (matched) check_order(key, channel);
    }
  }

 private:
  void collect(RankId rank) {
    for (ActionCursor at(context_.schedule, context_.plan, rank); !at.done(); at.next()) {
      const Action& a = at.action();
      const Item item{a, at.position()};
      const Key sending{a.edge, a.direction, rank, a.peer};
      const Key receiving{a.edge, a.direction, a.peer, rank};
      if (a.kind == ActionKind::kStartSend) channels_[sending].sends.push_back(item);
      if (a.kind == ActionKind::kPostReceive) channels_[receiving].posts.push_back(item);
      if (a.kind == ActionKind::kWaitReceive) channels_[receiving].receives.push_back(item);
    }
  }

  void fault(const std::string& rule, RankId rank, const Item& item, const std::string& message) {
    faults_.add(rule, context_.place(rank, item.position, item.action), message);
  }

  // V1. Whether sends and posts are the same set; receives are held against the posts of
  // their own rank (V4).
  bool match(const Key& key, const Channel& channel) {
    bool matched = true;
    std::multimap<SampleRange, const Item*> posts;
    for (const Item& post : channel.posts) posts.emplace(post.action.samples, &post);
    for (const Item& send : channel.sends) {
      check_bytes(key, send);
      const auto at = posts.find(send.action.samples);
      if (at == posts.end()) {
        fault("V1", key.sender, send,
              fmt::format("rank {} never posts a receive for it", key.receiver.value));
        matched = false;
        continue;
      }
      const Action& post = at->second->action;
      if (post.bytes != send.action.bytes) {
        fault("V1", key.receiver, *at->second,
              fmt::format("expects {} bytes, and rank {} sends {}", post.bytes, key.sender.value,
                          send.action.bytes));
      }
      posts.erase(at);
    }
    for (const Item& post : channel.posts) {
      const auto [first, last] = posts.equal_range(post.action.samples);
      const auto same = std::find_if(first, last, [&](const auto& p) { return p.second == &post; });
      if (same == last) continue;
      fault("V1", key.receiver, post, fmt::format("rank {} never sends it", key.sender.value));
      matched = false;
    }
    return matched;
  }

  void check_bytes(const Key& key, const Item& send) {
    const std::int64_t expected =
        message_bytes(context_.graph, needs_, context_.plan.edge(key.edge),
                      send.action.samples.size(), key.direction == Direction::kBackward);
    if (send.action.bytes == expected) return;
    fault("V1", key.sender, send,
          fmt::format("has {} bytes, where a message of {} samples over this edge has {}",
                      send.action.bytes, send.action.samples.size(), expected));
  }

  // V2: the first message out of order.
  void check_order(const Key& key, const Channel& channel) {
    for (const auto* at_receiver : {&channel.posts, &channel.receives}) {
      const std::size_t count = std::min(at_receiver->size(), channel.sends.size());
      for (std::size_t i = 0; i < count; ++i) {
        const Item& here = (*at_receiver)[i];
        const Action& sent = channel.sends[i].action;
        if (here.action.samples == sent.samples) continue;
        fault("V2", key.receiver, here,
              fmt::format("is message {} of its channel here (counted from 0), but rank {} sends "
                          "{} in that place; both ends must keep one order",
                          i, key.sender.value, samples_text(sent.samples)));
        return;
      }
    }
  }

  const VerifyContext& context_;
  std::vector<bool> needs_;
  FaultList& faults_;
  std::map<Key, Channel> channels_;
};

}  // namespace

void verify_messages(const VerifyContext& context, FaultList& faults) {
  MessageCheck(context, faults).run();
}

}  // namespace graphpipe
