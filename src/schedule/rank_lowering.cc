// Windows, in samples of the mini-batch. A receive is posted when its message ends at most
// the window beyond what the rank has come to on that edge: the end of the last message it
// received, or the start of the task at hand. A send starts when its message ends at most the
// window beyond the last one that has left, or when fewer than two are on the way. So a sender
// waits only when it is more than the window ahead of the receiver.

#include "schedule/rank_lowering.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "schedule/drawing.h"
#include "schedule/owner_map.h"

namespace graphpipe {
namespace {

constexpr std::size_t kLeastSendsOnWay = 2;

}  // namespace

RankLowering::RankLowering(const MessageMap& map, LocalValues local, RankId rank,
                           const std::vector<Placement>& placed)
    : map_(map), local_(std::move(local)), rank_(rank) {
  const auto add = [](std::vector<Flow>& flows, const std::vector<EdgeId>& edges,
                      Direction direction, Placement own) {
    for (const EdgeId edge : edges) {
      flows.push_back(
          {.edge = edge, .direction = direction, .stage = own.stage, .replica = own.replica});
    }
  };
  for (const Placement& own : placed) {
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      add(in_, map.incoming_edges(own.stage, direction), direction, own);
      add(out_, map.outgoing_edges(own.stage, direction), direction, own);
    }
  }
  std::ranges::sort(in_, {}, &Flow::key);
  std::ranges::sort(out_, {}, &Flow::key);
}

RankLowering::Flow& RankLowering::find(std::vector<Flow>& flows, EdgeId edge,
                                       Direction direction) const {
  const auto at = std::ranges::find(flows, std::tuple(edge, direction), &Flow::key);
  GP_CHECK(at != flows.end(), "rank {} has no messages over edge {}", rank_.value, edge.value);
  return *at;
}

// Whether there is another message to post; it then stands first in `ahead`.
bool RankLowering::find_ahead(Flow& flow) const {
  const Stage& own = map_.plan().stage(flow.stage);
  const std::int64_t count = micro_batch_count(own, map_.samples());
  while (flow.ahead.empty() && flow.next_task < count) {
    const std::int64_t i = flow.next_task++;
    const SampleRange x = replica_samples(own, flow.replica, i, map_.samples());
    map_.for_each_message(flow.edge, flow.stage, rank_, x, [&](RankId peer, SampleRange part) {
      flow.ahead.push_back({peer, part, i});
    });
  }
  return !flow.ahead.empty();
}

Action RankLowering::message_action(ActionKind kind, const Flow& flow, const Item& item) const {
  Action action{.kind = kind, .stage = flow.stage, .replica = flow.replica};
  action.micro_batch = item.micro_batch;
  action.samples = item.samples;
  action.edge = flow.edge;
  action.direction = flow.direction;
  action.peer = item.peer;
  action.bytes = map_.bytes(flow.edge, flow.direction, item.samples.size());
  return action;
}

void RankLowering::post(Flow& flow, std::vector<Action>& out) const {
  const std::int64_t window = map_.window_samples(flow.edge);
  while (find_ahead(flow) && flow.ahead.front().samples.hi <= flow.done + window) {
    out.push_back(message_action(ActionKind::kPostReceive, flow, flow.ahead.front()));
    flow.on_way.push_back(flow.ahead.front());
    flow.ahead.pop_front();
  }
}

void RankLowering::start(std::vector<Action>& out) {
  for (Flow& flow : in_) post(flow, out);
}

void RankLowering::receive(const Message& message, std::vector<Action>& out) {
  Flow& flow = find(in_, message.edge, message.direction);
  flow.done = std::max(flow.done, message.samples.lo);
  post(flow, out);
  GP_CHECK(!flow.on_way.empty() && flow.on_way.front().samples == message.samples,
           "rank {} receives samples [{},{}) out of order", rank_.value, message.samples.lo,
           message.samples.hi);
  out.push_back(message_action(ActionKind::kWaitReceive, flow, flow.on_way.front()));
  flow.on_way.pop_front();
  flow.done = message.samples.hi;
  post(flow, out);
}

void RankLowering::wait_oldest_send(Flow& flow, std::vector<Action>& out) const {
  out.push_back(message_action(ActionKind::kWaitSend, flow, flow.on_way.front()));
  flow.done = flow.on_way.front().samples.hi;
  flow.on_way.pop_front();
}

void RankLowering::send(const Message& message, const Action& compute, std::vector<Action>& out) {
  Flow& flow = find(out_, message.edge, message.direction);
  while (flow.on_way.size() >= kLeastSendsOnWay &&
         message.samples.hi > flow.done + map_.window_samples(flow.edge)) {
    wait_oldest_send(flow, out);
  }
  flow.on_way.push_back({message.peer, message.samples, compute.micro_batch});
  out.push_back(message_action(ActionKind::kStartSend, flow, flow.on_way.back()));
}

void RankLowering::free_messages(const Action& pass, Direction direction,
                                 std::vector<Action>& out) const {
  map_.for_each_incoming(pass.stage, rank_, direction, pass.samples, [&](const Message& m) {
    Action action = pass;
    action.kind = ActionKind::kFree;
    action.samples = m.samples;
    action.edge = m.edge;
    action.direction = m.direction;
    action.peer = m.peer;
    action.bytes = map_.bytes(m.edge, m.direction, m.samples.size());
    out.push_back(action);
  });
}

void RankLowering::free(const Action& last_pass, std::vector<Action>& out) const {
  Action saved = last_pass;
  saved.kind = ActionKind::kFree;
  out.push_back(saved);
  if (last_pass.kind != ActionKind::kForward) free_messages(last_pass, Direction::kBackward, out);
}

// Frees what the task saved, unless others of the rank are to read it; and what others saved
// that it was the last to read.
void RankLowering::end(const Action& last_pass, std::vector<Action>& out) {
  const auto own = shared_.find({last_pass.stage, last_pass.micro_batch});
  if (own != shared_.end() && own->second.unread > 0) {
    own->second.last_pass = last_pass;
  } else {
    free(last_pass, out);
    if (own != shared_.end()) shared_.erase(own);
  }
  for (const EdgeId edge : local_.in(last_pass.stage)) {
    const StageId maker = map_.peer_stage(edge, last_pass.stage);
    for (const OwnedPart& part : local_.parts(edge, last_pass.stage, last_pass.samples)) {
      const auto made = shared_.find({maker, part.micro_batch});
      if (made == shared_.end()) continue;  // a wrong order, of which the verifier speaks
      made->second.unread -= part.samples.size();
      if (made->second.unread > 0 || !made->second.last_pass) continue;
      free(*made->second.last_pass, out);
      shared_.erase(made);
    }
  }
}

void RankLowering::lower(const Action& compute, std::vector<Action>& out) {
  GP_CHECK(is_compute(compute.kind), "only computes are lowered");
  if (compute.kind == ActionKind::kRecompute || compute.kind == ActionKind::kBackwardWeight) {
    out.push_back(compute);
    if (compute.kind == ActionKind::kBackwardWeight) end(compute, out);
    return;
  }
  const bool backward = compute.kind != ActionKind::kForward;
  const Direction direction = backward ? Direction::kBackward : Direction::kForward;
  map_.for_each_incoming(compute.stage, rank_, direction, compute.samples,
                         [&](const Message& m) { receive(m, out); });
  out.push_back(compute);
  if (!backward) free_messages(compute, Direction::kForward, out);
  map_.for_each_outgoing(compute.stage, rank_, direction, compute.samples,
                         [&](const Message& m) { send(m, compute, out); });
  if (!backward) {
    for (const EdgeId edge : local_.out(compute.stage)) {
      for (const OwnedPart& part : local_.parts(edge, compute.stage, compute.samples)) {
        shared_[{compute.stage, compute.micro_batch}].unread += part.samples.size();
      }
    }
  }
  const bool is_last = compute.kind == ActionKind::kBackward || !map_.has_backward(compute.stage);
  if (is_last) end(compute, out);
}

void RankLowering::finish(std::vector<Action>& out) {
  for (Flow& flow : out_) {
    while (!flow.on_way.empty()) wait_oldest_send(flow, out);
  }
}

std::vector<std::int64_t> RankLowering::state(std::int64_t origin) const {
  std::vector<std::int64_t> result;
  for (const std::vector<Flow>* flows : {&in_, &out_}) {
    for (const Flow& flow : *flows) {
      result.push_back(flow.done - origin);
      result.push_back(static_cast<std::int64_t>(flow.on_way.size()));
      for (const Item& item : flow.on_way) result.push_back(item.samples.lo - origin);
    }
  }
  return result;
}

}  // namespace graphpipe
