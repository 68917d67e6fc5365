// A channel's window, in samples of the mini-batch: a message may be on the way when it
// ends at most the window beyond the last one that arrived (at the receiver), or left (at
// the sender), or when fewer than two are. Both ends follow the same rule.

#include "schedule/rank_lowering.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/owner_map.h"

namespace graphpipe {
namespace {

constexpr std::size_t kLeastWindowMessages = 2;

Direction direction_of(const Action& compute) {
  return compute.kind == ActionKind::kForward ? Direction::kForward : Direction::kBackward;
}

}  // namespace

RankLowering::RankLowering(const MessageMap& map, RankId rank, const std::vector<Placement>& placed)
    : map_(map), rank_(rank) {
  for (const Placement& own : placed) {
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      for (const EdgeId edge : map.incoming_edges(own.stage, direction)) {
        const Stage& peer = map.plan().stage(map.peer_stage(edge, own.stage));
        for (std::size_t r = 0; r < peer.devices.size(); ++r) {
          const RankId peer_rank = map.rank_of(peer.devices[r]);
          if (peer_rank == rank) continue;
          Channel channel{.edge = edge, .direction = direction, .peer = peer_rank};
          channel.stage = own.stage;
          channel.replica = own.replica;
          channel.peer_replica = static_cast<int>(r);
          in_.push_back(std::move(channel));
        }
      }
    }
  }
  std::ranges::sort(in_, {}, &Channel::key);
}

RankLowering::Channel& RankLowering::find(std::vector<Channel>& channels, const Message& message) {
  const auto key = std::tuple(message.edge, message.direction, message.peer);
  auto at = std::ranges::lower_bound(channels, key, {}, &Channel::key);
  if (at == channels.end() || at->key() != key) {
    at = channels.insert(
        at, {.edge = message.edge, .direction = message.direction, .peer = message.peer});
  }
  return *at;
}

bool RankLowering::fits(const Channel& channel, SampleRange samples) const {
  return channel.on_way.size() < kLeastWindowMessages ||
         samples.hi <= channel.done + map_.window_samples(channel.edge);
}

// Whether there is another message to post; it then stands first in `upcoming`.
bool RankLowering::find_upcoming(Channel& channel) {
  const Stage& own = map_.plan().stage(channel.stage);
  const Stage& peer = map_.plan().stage(map_.peer_stage(channel.edge, channel.stage));
  const std::int64_t count = micro_batch_count(own, map_.samples());
  while (channel.upcoming.empty() && channel.next_task < count) {
    const std::int64_t i = channel.next_task++;
    const SampleRange x = replica_samples(own, channel.replica, i, map_.samples());
    for (const OwnedPart& part : owned_parts(peer, x, map_.samples())) {
      if (part.replica == channel.peer_replica) channel.upcoming.push_back({part.samples, i});
    }
  }
  return !channel.upcoming.empty();
}

Action RankLowering::message_action(ActionKind kind, const Channel& channel,
                                    const Item& item) const {
  Action action{.kind = kind, .stage = channel.stage, .replica = channel.replica};
  action.micro_batch = item.micro_batch;
  action.samples = item.samples;
  action.edge = channel.edge;
  action.direction = channel.direction;
  action.peer = channel.peer;
  action.bytes = map_.bytes(channel.edge, channel.direction, item.samples.size());
  return action;
}

void RankLowering::post(Channel& channel, std::vector<Action>& out) {
  while (find_upcoming(channel) && fits(channel, channel.upcoming.front().samples)) {
    const Item item = channel.upcoming.front();
    channel.upcoming.pop_front();
    channel.on_way.push_back(item);
    channel.last = item.samples.hi;
    out.push_back(message_action(ActionKind::kPostReceive, channel, item));
  }
}

void RankLowering::start(std::vector<Action>& out) {
  for (Channel& channel : in_) post(channel, out);
}

void RankLowering::receive(const Message& message, std::vector<Action>& out) {
  Channel& channel = find(in_, message);
  GP_CHECK(!channel.on_way.empty() && channel.on_way.front().samples == message.samples,
           "rank {} receives samples [{},{}) out of order", rank_.value, message.samples.lo,
           message.samples.hi);
  const Item item = channel.on_way.front();
  channel.on_way.pop_front();
  channel.done = item.samples.hi;
  out.push_back(message_action(ActionKind::kWaitReceive, channel, item));
  post(channel, out);
}

void RankLowering::wait_oldest_send(Channel& channel, std::vector<Action>& out) {
  const Item item = channel.on_way.front();
  channel.on_way.pop_front();
  channel.done = item.samples.hi;
  out.push_back(message_action(ActionKind::kWaitSend, channel, item));
}

void RankLowering::send(const Message& message, const Action& compute, std::vector<Action>& out) {
  Channel& channel = find(out_, message);
  channel.stage = compute.stage;
  channel.replica = compute.replica;
  while (!fits(channel, message.samples)) wait_oldest_send(channel, out);
  const Item item{message.samples, compute.micro_batch};
  channel.on_way.push_back(item);
  channel.last = item.samples.hi;
  out.push_back(message_action(ActionKind::kStartSend, channel, item));
}

void RankLowering::free(const Action& compute, bool backward, std::vector<Action>& out) const {
  Action saved = compute;
  saved.kind = ActionKind::kFree;
  out.push_back(saved);
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    if (direction == Direction::kBackward && !backward) continue;
    for (const Message& m : map_.incoming(compute.stage, rank_, direction, compute.samples)) {
      Action action = saved;
      action.samples = m.samples;
      action.edge = m.edge;
      action.direction = m.direction;
      action.peer = m.peer;
      action.bytes = map_.bytes(m.edge, m.direction, m.samples.size());
      out.push_back(action);
    }
  }
}

void RankLowering::lower(const Action& compute, std::vector<Action>& out) {
  GP_CHECK(compute.kind == ActionKind::kForward || compute.kind == ActionKind::kBackward,
           "only forwards and backwards are lowered");
  const Direction direction = direction_of(compute);
  for (const Message& m : map_.incoming(compute.stage, rank_, direction, compute.samples)) {
    receive(m, out);
  }
  out.push_back(compute);
  for (const Message& m : map_.outgoing(compute.stage, rank_, direction, compute.samples)) {
    send(m, compute, out);
  }
  const bool backward = direction == Direction::kBackward;
  if (backward || !map_.has_backward(compute.stage)) free(compute, backward, out);
}

void RankLowering::finish(std::vector<Action>& out) {
  for (Channel& channel : out_) {
    while (!channel.on_way.empty()) wait_oldest_send(channel, out);
  }
}

std::vector<std::int64_t> RankLowering::state(std::int64_t origin) const {
  std::vector<std::int64_t> result;
  for (const std::vector<Channel>* channels : {&in_, &out_}) {
    result.push_back(static_cast<std::int64_t>(channels->size()));
    for (const Channel& channel : *channels) {
      result.push_back(channel.done - origin);
      result.push_back(channel.last - origin);
      result.push_back(static_cast<std::int64_t>(channel.on_way.size()));
    }
  }
  return result;
}

}  // namespace graphpipe
