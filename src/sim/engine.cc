#include "sim/engine.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers.h"

namespace graphpipe {

Engine::Engine(const Programs& programs, Recorder* recorder)
    : programs_(programs),
      recorder_(recorder),
      ranks_(programs.ranks.size()),
      channels_(programs.channels.size()),
      port_busy_(at(programs.ports), 0),
      port_waiting_(at(programs.ports)),
      pools_(programs.pool_cores.size()),
      reductions_(programs.reductions.size()),
      holder_waits_(programs.holders.size(), 0),
      holder_events_(programs.holders.size(), -1) {
  for (std::size_t i = 0; i < pools_.size(); ++i) pools_[i].free = programs.pool_cores[i];
}

bool Engine::run(bool skip_repeats) {
  if (skip_repeats && recorder_ == nullptr) choose_pacemaker();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const int rank = static_cast<int>(r);
    change_memory(rank, programs_.ranks[r].static_bytes);
    enter_section(rank, 0);
    runnable_.push_back(rank);
  }
  settle();
  while (!events_.empty()) {
    if (period_began_ && events_.front().at > now_) try_skip();
    now_ = events_.front().at;
    while (!events_.empty() && events_.front().at == now_) handle(pop());
    settle();
  }
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& rank) { return rank.section == 3; });
}

std::int64_t Engine::position(int rank) const {
  const RankState& state = rank_at(rank);
  const auto& sections = programs_.ranks[at(rank)].sections;
  const auto actions = [](const Step* first, const Step* last) {
    std::int64_t count = 0;
    for (; first != last; ++first) count += first->ends;
    return count;
  };
  const auto length = [&](int section) {
    return actions(sections[section].data(), sections[section].data() + sections[section].size());
  };
  std::int64_t position = 0;
  if (state.section > 0) position += length(0);
  if (state.section == 1) position += state.repetition * length(1);
  if (state.section > 1) position += programs_.repeats * length(1);
  if (state.section > 2) return position + length(2);
  return position + actions(sections[state.section].data(), state.step) + state.step->ahead;
}

// Enters the section, or the first after it that has anything to do.
void Engine::enter_section(int rank, int section) {
  RankState& state = ranks_[at(rank)];
  const auto& sections = programs_.ranks[at(rank)].sections;
  while (section < 3 && (sections[section].empty() || (section == 1 && programs_.repeats == 0))) {
    ++section;
  }
  state.section = section;
  state.step = section < 3 ? sections[section].data() : nullptr;
  state.end = section < 3 ? state.step + sections[section].size() : nullptr;
  if (section == 1 && rank == pacemaker_) period_began_ = true;
}

void Engine::advance(int rank) {
  RankState& state = ranks_[at(rank)];
  for (int i = 0; recorder_ != nullptr && i < state.step->ends; ++i) recorder_->next(rank);
  if (++state.step != state.end) return;
  if (state.section == 1 && ++state.repetition < programs_.repeats) {
    state.step = programs_.ranks[at(rank)].sections[1].data();
    if (rank == pacemaker_) period_began_ = true;
  } else {
    enter_section(rank, state.section + 1);
  }
}

// Goes on until the rank computes, waits or is done.
void Engine::run_rank(int rank) {
  RankState& state = ranks_[at(rank)];
  while (state.section < 3) {
    const Step& step = *state.step;
    if (!can_pass(rank, step)) {
      state.status = Status::kBlocked;
      return;
    }
    if (step.kind != StepKind::kCompute) {
      change_memory(rank, step.held_bytes + step.task_bytes);
      change_memory(rank, -step.task_bytes);
    }
    switch (step.kind) {
      case StepKind::kCompute:
        state.status = Status::kBlocked;  // until it has a core
        if (programs_.ranks[at(rank)].pool < 0) {
          start_compute(rank);
        } else {
          core_requests_.push_back(rank);
        }
        return;
      case StepKind::kPostReceive:
        ++channels_[at(step.target)].posted;
        check_ready(step.target);
        break;
      case StepKind::kStartSend:
        channels_[at(step.target)].messages.push(
            {-1, step.duration, recorder_ != nullptr ? recorder_->add(rank, step.ahead) : -1});
        check_ready(step.target);
        break;
      case StepKind::kStartReduce:
        start_reduce(rank, step.target);
        break;
      case StepKind::kWaitReceive:
      case StepKind::kWaitSend:
      case StepKind::kWaitReduce:
      case StepKind::kInstant:
        break;
    }
    advance(rank);
  }
}

// Whether what the step waits for has happened; if so, it has now been waited for.
bool Engine::can_pass(int rank, const Step& step) {
  switch (step.kind) {
    case StepKind::kWaitReceive: {
      ChannelState& channel = channels_[at(step.target)];
      if (channel.arrived == channel.received) return false;
      ++channel.received;
      return true;
    }
    case StepKind::kWaitSend: {
      ChannelState& channel = channels_[at(step.target)];
      if (channel.left() == channel.sends_done) return false;
      ++channel.sends_done;
      return true;
    }
    case StepKind::kWaitReduce: {
      const Holder& holder = programs_.holders[at(step.target)];
      GP_CHECK(holder.rank == rank, "rank {} waits as rank {}", rank, holder.rank);
      if (reductions_[at(holder.reduction)].done == holder_waits_[at(step.target)]) return false;
      ++holder_waits_[at(step.target)];
      return true;
    }
    case StepKind::kCompute:
    case StepKind::kPostReceive:
    case StepKind::kStartSend:
    case StepKind::kStartReduce:
    case StepKind::kInstant:
      return true;
  }
  return true;
}

void Engine::start_compute(int rank) {
  RankState& state = ranks_[at(rank)];
  state.status = Status::kComputing;
  change_memory(rank, state.step->held_bytes + state.step->task_bytes);
  if (recorder_ != nullptr && state.step->drawn) {
    if (!state.step->goes_on) {
      state.compute_event = recorder_->add(rank, state.step->ahead);
      recorder_->set_start(state.compute_event, now_);
    }
    recorder_->set_end(state.compute_event, now_ + state.step->duration);
  }
  push(now_ + state.step->duration, EventKind::kComputed, rank);
}

// Notes a message of the channel whose send has started and whose receive is posted.
void Engine::check_ready(int channel_index) {
  ChannelState& channel = channels_[at(channel_index)];
  if (channel.ready == std::min(channel.sent(), channel.posted)) return;
  channel.messages[channel.ready].ready = now_;
  if (channel.ready++ > channel.started) return;  // waits behind others of the channel
  for (const int port : programs_.channels[at(channel_index)].ports) {
    port_waiting_[at(port)].push_back(channel_index);
  }
  contenders_.push_back(channel_index);
}

void Engine::start_reduce(int rank, int holder) {
  if (recorder_ != nullptr) {
    holder_events_[at(holder)] = recorder_->add(rank, rank_at(rank).step->ahead);
  }
  const int index = programs_.holders[at(holder)].reduction;
  ReductionState& reduction = reductions_[at(index)];
  if (++reduction.joined == static_cast<int>(programs_.reductions[at(index)].holders.size())) {
    reduction.joined = 0;
    reduction.ready = now_;
    ready_reductions_.push_back(index);
  }
}

void Engine::change_memory(int rank, std::int64_t bytes) {
  if (bytes == 0) return;
  RankState& state = ranks_[at(rank)];
  state.memory_bytes += bytes;
  state.peak_bytes = std::max(state.peak_bytes, state.memory_bytes);
  if (recorder_ != nullptr) recorder_->memory(rank, now_, state.memory_bytes);
}

// Lets the rank go on if this is what it waits for.
void Engine::wake(int rank, StepKind kind, int target) {
  RankState& state = ranks_[at(rank)];
  if (state.status != Status::kBlocked || state.section == 3) return;
  if (state.step->kind != kind || state.step->target != target) return;
  state.status = Status::kRunnable;
  runnable_.push_back(rank);
}

void Engine::settle() {
  while (!runnable_.empty()) {
    const int rank = runnable_.back();
    runnable_.pop_back();
    run_rank(rank);
  }
  assign_cores();
  assign_ports();
  assign_reductions();
}

void Engine::assign_cores() {
  if (pools_.empty()) return;
  std::sort(core_requests_.begin(), core_requests_.end());
  for (const int rank : core_requests_) {
    pools_[at(programs_.ranks[at(rank)].pool)].queue.push(rank);
  }
  core_requests_.clear();
  for (PoolState& pool : pools_) {
    while (pool.free > 0 && !pool.queue.empty()) {
      --pool.free;
      start_compute(pool.queue.pop());
    }
  }
}

void Engine::assign_ports() {
  if (contenders_.empty()) return;
  const auto ready = [&](int c) {
    const ChannelState& channel = channels_[at(c)];
    return channel.messages[channel.started].ready;
  };
  std::sort(contenders_.begin(), contenders_.end(),
            [&](int a, int b) { return ready(a) != ready(b) ? ready(a) < ready(b) : a < b; });
  contenders_.erase(std::unique(contenders_.begin(), contenders_.end()), contenders_.end());
  for (const int c : contenders_) {
    const std::vector<int>& ports = programs_.channels[at(c)].ports;
    if (std::any_of(ports.begin(), ports.end(), [&](int p) { return port_busy_[at(p)] != 0; })) {
      continue;
    }
    ChannelState& channel = channels_[at(c)];
    const Message& message = channel.messages[channel.started++];
    for (const int port : ports) {
      port_busy_[at(port)] = 1;
      if (channel.started == channel.ready) std::erase(port_waiting_[at(port)], c);
    }
    if (recorder_ != nullptr) recorder_->set_start(message.event, now_);
    push(now_ + message.duration, EventKind::kLeft, c);
  }
  contenders_.clear();
}

void Engine::assign_reductions() {
  if (ready_reductions_.empty()) return;
  std::sort(ready_reductions_.begin(), ready_reductions_.end(), [&](int a, int b) {
    return reductions_[at(a)].ready != reductions_[at(b)].ready
               ? reductions_[at(a)].ready < reductions_[at(b)].ready
               : a < b;
  });
  std::size_t kept = 0;
  for (const int index : ready_reductions_) {
    if (!start_reduction(index)) ready_reductions_[kept++] = index;
  }
  ready_reductions_.resize(kept);
}

// Whether all its ranks were free for it.
bool Engine::start_reduction(int index) {
  const std::vector<int>& holders = programs_.reductions[at(index)].holders;
  const auto rank_of = [&](int holder) -> RankState& {
    return ranks_[at(programs_.holders[at(holder)].rank)];
  };
  if (std::any_of(holders.begin(), holders.end(), [&](int h) { return rank_of(h).reducing; })) {
    return false;
  }
  for (const int h : holders) {
    rank_of(h).reducing = true;
    if (recorder_ != nullptr) recorder_->set_start(holder_events_[at(h)], now_);
  }
  push(now_ + programs_.reductions[at(index)].duration, EventKind::kReduced, index);
  return true;
}

void Engine::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kComputed: {
      RankState& state = ranks_[at(event.id)];
      state.busy += state.step->duration;
      change_memory(event.id, -state.step->task_bytes);
      const int pool = programs_.ranks[at(event.id)].pool;
      if (pool >= 0) ++pools_[at(pool)].free;
      state.status = Status::kRunnable;
      runnable_.push_back(event.id);
      advance(event.id);
      return;
    }
    case EventKind::kLeft: {
      const Channel& channel = programs_.channels[at(event.id)];
      const Message message = channels_[at(event.id)].messages.pop();
      for (const int port : channel.ports) {
        port_busy_[at(port)] = 0;
        contenders_.insert(contenders_.end(), port_waiting_[at(port)].begin(),
                           port_waiting_[at(port)].end());
      }
      if (recorder_ != nullptr) recorder_->set_end(message.event, now_ + channel.latency);
      wake(channel.from, StepKind::kWaitSend, event.id);
      push(now_ + channel.latency, EventKind::kArrived, event.id);
      return;
    }
    case EventKind::kArrived:
      ++channels_[at(event.id)].arrived;
      wake(programs_.channels[at(event.id)].to, StepKind::kWaitReceive, event.id);
      return;
    case EventKind::kReduced: {
      ++reductions_[at(event.id)].done;
      for (const int h : programs_.reductions[at(event.id)].holders) {
        const int rank = programs_.holders[at(h)].rank;
        ranks_[at(rank)].reducing = false;
        if (recorder_ != nullptr) recorder_->set_end(holder_events_[at(h)], now_);
        wake(rank, StepKind::kWaitReduce, h);
      }
      return;
    }
  }
}

void Engine::push(Ticks when, EventKind kind, int id) {
  events_.push_back({when, kind, id});
  std::push_heap(events_.begin(), events_.end());
}

Engine::Event Engine::pop() {
  std::pop_heap(events_.begin(), events_.end());
  const Event event = events_.back();
  events_.pop_back();
  return event;
}

}  // namespace graphpipe
