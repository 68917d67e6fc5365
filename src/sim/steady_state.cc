// Skips what repeats. Nothing but the state decides what happens next, so if the state
// is the same at two times - durations measured from now, counts of messages from what
// has left, repetitions of the period from one rank's - then what happened between the
// two happens again and again, until a rank reaches the end of its repetitions. So many
// whole cycles are skipped by adding their time and their repetitions: what is left is
// exact, to the tick. A state that does not repeat (one part of the pipeline still gains
// on another) is run action by action.
//
// The state is looked at whenever the pacemaker begins its period and held against one
// that was kept at a power of two (Brent's way to find a cycle of any length).

#include <algorithm>

#include "sim/engine.h"

namespace graphpipe {

void Engine::choose_pacemaker() {
  if (programs_.repeats < 2) return;
  for (std::size_t r = 0; r < ranks_.size() && pacemaker_ < 0; ++r) {
    if (!programs_.ranks[r].sections[1].empty()) pacemaker_ = static_cast<int>(r);
  }
}

void Engine::try_skip() {
  period_began_ = false;
  state_.clear();
  append_state(state_);
  const std::int64_t repetition = rank_at(pacemaker_).repetition;
  if (snapshots_ > 0 && state_ == saved_.state) {
    const std::int64_t length = repetition - saved_.repetition;
    std::int64_t left = programs_.repeats;
    for (const RankState& rank : ranks_) {
      if (rank.section == 1) left = std::min(left, programs_.repeats - 1 - rank.repetition);
    }
    skip(left / length, length);
    pacemaker_ = -1;
    return;
  }
  if (++snapshots_ < next_save_) return;
  next_save_ *= 2;
  saved_.state.swap(state_);
  saved_.repetition = repetition;
  saved_.now = now_;
  saved_.busy.clear();
  for (const RankState& rank : ranks_) saved_.busy.push_back(rank.busy);
}

void Engine::append_state(std::vector<std::int64_t>& state) const {
  const auto add = [&](auto value) { state.push_back(static_cast<std::int64_t>(value)); };
  for (const RankState& rank : ranks_) {
    add(rank.section);
    add(rank.end - rank.step);
    if (rank.section == 1) add(rank.repetition - rank_at(pacemaker_).repetition);
    add(rank.status);
    add(rank.memory_bytes);
  }
  for (const ChannelState& channel : channels_) {
    for (const std::int64_t count : {channel.sent(), channel.posted, channel.ready, channel.started,
                                     channel.arrived, channel.received, channel.sends_done}) {
      add(count - channel.left());
    }
    for (std::int64_t i = channel.left(); i < channel.sent(); ++i) {
      const Message& message = channel.messages[i];
      add(message.duration);
      add(message.ready < 0 ? -1 : now_ - message.ready);
    }
  }
  for (const PoolState& pool : pools_) {
    add(pool.free);
    add(pool.queue.end() - pool.queue.begin());
    for (std::int64_t i = pool.queue.begin(); i < pool.queue.end(); ++i) add(pool.queue[i]);
  }
  for (const ReductionState& reduction : reductions_) add(reduction.joined);
  add(ready_reductions_.size());
  for (const int index : ready_reductions_) {
    add(index);
    add(now_ - reductions_[static_cast<std::size_t>(index)].ready);
  }
  for (std::size_t h = 0; h < holder_waits_.size(); ++h) {
    const auto reduction = static_cast<std::size_t>(programs_.holders[h].reduction);
    add(reductions_[reduction].done - holder_waits_[h]);
  }
  std::vector<Event> events = events_;
  std::sort(events.begin(), events.end());
  for (const Event& event : events) {
    add(event.at - now_);
    add(event.kind);
    add(event.id);
  }
}

void Engine::skip(std::int64_t cycles, std::int64_t repetitions) {
  const Ticks later = cycles * (now_ - saved_.now);
  now_ += later;
  for (Event& event : events_) event.at += later;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    RankState& rank = ranks_[r];
    rank.busy += cycles * (rank.busy - saved_.busy[r]);
    if (rank.section == 1) rank.repetition += cycles * repetitions;
  }
  for (ChannelState& channel : channels_) {
    for (std::int64_t i = channel.left(); i < channel.ready; ++i) {
      channel.messages[i].ready += later;
    }
  }
  for (const int index : ready_reductions_) {
    reductions_[static_cast<std::size_t>(index)].ready += later;
  }
  skipped_ = cycles * repetitions;
}

}  // namespace graphpipe
