#include "sim/recorder.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace graphpipe {

Recorder::Recorder(const Schedule& lowered, const Plan& plan, const Clock& clock) : clock_(clock) {
  for (std::size_t r = 0; r < lowered.ranks.size(); ++r) {
    cursors_.emplace_back(lowered, plan, RankId(r));
  }
}

std::int64_t Recorder::add(int rank, int ahead) {
  const auto r = static_cast<std::size_t>(rank);
  ActionCursor at = cursors_[r];
  for (int i = 0; i < ahead; ++i) at.next();
  events_.push_back({RankId(r), at.action(), 0, 0});
  return static_cast<std::int64_t>(events_.size()) - 1;
}

void Recorder::set_start(std::int64_t event, Ticks at) {
  events_[static_cast<std::size_t>(event)].start_s = clock_.seconds(at);
}

void Recorder::set_end(std::int64_t event, Ticks at) {
  events_[static_cast<std::size_t>(event)].end_s = clock_.seconds(at);
}

void Recorder::memory(int rank, Ticks at, std::int64_t bytes) {
  memory_.push_back({RankId(static_cast<std::size_t>(rank)), clock_.seconds(at), bytes});
}

void Recorder::move_to(Trace& trace) {
  const auto by_start = [](const TraceEvent& a, const TraceEvent& b) {
    return std::tie(a.start_s, a.rank) < std::tie(b.start_s, b.rank);
  };
  const auto by_time = [](const MemorySample& a, const MemorySample& b) {
    return std::tie(a.time_s, a.rank) < std::tie(b.time_s, b.rank);
  };
  std::stable_sort(events_.begin(), events_.end(), by_start);
  std::stable_sort(memory_.begin(), memory_.end(), by_time);
  trace.events = std::move(events_);
  trace.memory = std::move(memory_);
}

}  // namespace graphpipe
