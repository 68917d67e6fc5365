#include "runtime/emulation/emulated_rank.h"

#include <time.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "runtime/clock.h"

namespace graphpipe {
namespace {

void sleep_until(double at_s) {
  const timespec at = timespec_of(at_s);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

}  // namespace

EmulatedRank::EmulatedRank(const Schedule& lowered, const Plan& plan, const Graph& graph,
                           const Cluster& cluster, const CostModel& costs, RankId rank,
                           const TransferModel& transfers, EmulatedNetwork& network, double stretch)
    : rank_(rank),
      transfers_(transfers),
      network_(network),
      stretch_(stretch),
      task_seconds_(lowered, plan, graph, cluster, costs),
      memory_(lowered, plan, graph, cluster, costs, rank) {}

void EmulatedRank::begin(double start_s) {
  now_s_ = start_s;
  busy_s_ = late_s_ = most_late_s_ = 0;
  held_bytes_ = peak_bytes_ = memory_.static_bytes();
  progress_.assign(transfers_.lanes().size(), {});
  sleep_until_own_time();
}

void EmulatedRank::sleep_until_own_time() {
  sleep_until(now_s_);
  late_s_ = wall_s() - now_s_;
  most_late_s_ = std::max(most_late_s_, late_s_);
}

void EmulatedRank::count_memory(const Action& action) {
  const MemoryEffect effect = memory_.of(action);
  held_bytes_ += effect.held_bytes;
  peak_bytes_ = std::max(peak_bytes_, held_bytes_ + effect.task_bytes);
}

// The task at hand goes on until so much of it is done.
void EmulatedRank::run_task(double until_s) {
  const double part_s = std::max(0.0, until_s - done_s_);
  if (const int lane = transfers_.lane_of_tasks(rank_); lane >= 0) {
    const std::int64_t part = progress_[static_cast<std::size_t>(lane)].come++;
    network_.come(lane, part, now_s_, part_s);
    now_s_ = std::max(now_s_, network_.wait_for_start(lane, part));
  }
  now_s_ += part_s;
  busy_s_ += part_s;
  done_s_ += part_s;
  sleep_until_own_time();
}

void EmulatedRank::come(int lane, double hold_s) {
  Progress& progress = progress_[static_cast<std::size_t>(lane)];
  progress.holds_s.push_back(hold_s);
  network_.come(lane, progress.come++, now_s_, hold_s);
}

// For the transfer of the lane that the rank waits for next.
void EmulatedRank::wait(int lane, Until until) {
  Progress& progress = progress_[static_cast<std::size_t>(lane)];
  const std::int64_t transfer = progress.waited++;
  double end_s = network_.wait_for_start(lane, transfer) +
                 progress.holds_s[static_cast<std::size_t>(transfer)];
  if (until == Until::kArrived) {
    end_s += transfers_.lanes()[static_cast<std::size_t>(lane)].latency_s;
  }
  now_s_ = std::max(now_s_, end_s);
  sleep_until_own_time();
}

void EmulatedRank::after(const Action& action) {
  count_memory(action);
  if (action.after.valid()) {
    run_task(stretch_ * task_seconds_.until(rank_, current_, action.after));
  }
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kRecompute:
    case ActionKind::kStep:
      run_task(stretch_ * task_seconds_.of(rank_, action));
      done_s_ = 0;
      return;
    case ActionKind::kPostReceive:
    case ActionKind::kStartSend:
      return come(transfers_.lane_of_message(action, rank_), transfers_.message_s(action, rank_));
    case ActionKind::kWaitReceive:
      return wait(transfers_.lane_of_message(action, rank_), Until::kArrived);
    case ActionKind::kWaitSend:
      return wait(transfers_.lane_of_message(action, rank_), Until::kLeft);
    case ActionKind::kStartReduce:
      return come(transfers_.lane_of_bucket(action.bucket), transfers_.reduction_s(action.bucket));
    case ActionKind::kWaitReduce:
      return wait(transfers_.lane_of_bucket(action.bucket), Until::kArrived);
    case ActionKind::kFree:
    case ActionKind::kMakeVersion:
    case ActionKind::kDropVersion:
      return;  // take no time
  }
}

}  // namespace graphpipe
