// The events of a run. Time advances from event to event; between two of them every
// rank that can go on does, and then freed cores, ports and ranks are given to those
// who wait: to the one ready first, of several to the one with the smallest number.

#pragma once

#include <cstdint>
#include <vector>

#include "schedule/trace.h"
#include "sim/program.h"
#include "sim/recorder.h"
#include "sim/ring.h"

namespace graphpipe {

class Engine {
 public:
  // `recorder` may be null.
  Engine(const Programs& programs, Recorder* recorder);

  // Runs all programs to their ends. With `skip_repeats`, once the state repeats whole
  // cycles are skipped (steady_state.cc).
  // Returns false on a stall: no rank can go on and nothing is on its way.
  bool run(bool skip_repeats);

  double iteration_s() const { return programs_.clock.seconds(now_); }
  double busy_s(int rank) const { return programs_.clock.seconds(rank_at(rank).busy); }
  std::int64_t peak_memory_bytes(int rank) const { return rank_at(rank).peak_bytes; }
  bool is_done(int rank) const { return rank_at(rank).section == 3; }
  // Of the action at which the rank stands, counted from 0 over the run.
  std::int64_t position(int rank) const;
  // Periods that were not run action by action.
  std::int64_t skipped_repeats() const { return skipped_; }

 private:
  enum class Status : std::uint8_t { kRunnable, kBlocked, kComputing };
  enum class EventKind : std::uint8_t { kComputed, kLeft, kArrived, kReduced };

  struct RankState {
    const Step* step = nullptr;  // null: done
    const Step* end = nullptr;   // of the section
    int section = 0;
    std::int64_t repetition = 0;
    Status status = Status::kRunnable;
    Ticks busy = 0;
    std::int64_t memory_bytes = 0;
    std::int64_t peak_bytes = 0;
    bool reducing = false;
    std::int64_t compute_event = -1;  // the recorder's, of the last compute
  };
  struct Message {
    Ticks ready = -1;  // when both its send had started and its receive was posted
    Ticks duration = 0;
    std::int64_t event = -1;  // the recorder's
  };
  // How many messages have come how far.
  struct ChannelState {
    Ring<Message> messages;  // sent and not left
    std::int64_t posted = 0;
    std::int64_t ready = 0;
    std::int64_t started = 0;
    std::int64_t arrived = 0;
    std::int64_t received = 0;    // wait_receive passed
    std::int64_t sends_done = 0;  // wait_send passed
    std::int64_t left() const { return messages.begin(); }
    std::int64_t sent() const { return messages.end(); }
  };
  struct PoolState {
    int free = 0;
    Ring<int> queue;  // ranks
  };
  struct ReductionState {
    int joined = 0;    // ranks that have started the one to come
    Ticks ready = -1;  // when all had
    std::int64_t done = 0;
  };
  struct Event {
    Ticks at;
    EventKind kind;
    int id;  // rank, channel or reduction
    // The next event is the largest of a heap.
    bool operator<(const Event& other) const {
      if (at != other.at) return at > other.at;
      if (kind != other.kind) return kind > other.kind;
      return id > other.id;
    }
  };
  struct Snapshot {
    std::vector<std::int64_t> state;
    std::int64_t repetition = 0;  // the pacemaker's
    Ticks now = 0;
    std::vector<Ticks> busy;
  };

  const RankState& rank_at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  void enter_section(int rank, int section);
  void advance(int rank);
  void run_rank(int rank);
  bool can_pass(int rank, const Step& step);
  void start_compute(int rank);
  void check_ready(int channel);
  void start_reduce(int rank, int holder);
  void change_memory(int rank, std::int64_t bytes);
  void wake(int rank, StepKind kind, int target);

  void settle();
  void assign_cores();
  void assign_ports();
  void assign_reductions();
  bool start_reduction(int index);
  void handle(const Event& event);
  void push(Ticks at, EventKind kind, int id);
  Event pop();

  void choose_pacemaker();
  void try_skip();
  void append_state(std::vector<std::int64_t>& state) const;
  void skip(std::int64_t cycles, std::int64_t repetitions);

  const Programs& programs_;
  Recorder* recorder_;
  Ticks now_ = 0;
  std::vector<RankState> ranks_;
  std::vector<ChannelState> channels_;
  std::vector<std::uint8_t> port_busy_;
  std::vector<std::vector<int>> port_waiting_;  // channels with a message that is ready
  std::vector<PoolState> pools_;
  std::vector<ReductionState> reductions_;
  std::vector<std::int64_t> holder_waits_;   // wait_reduce passed
  std::vector<std::int64_t> holder_events_;  // the recorder's
  std::vector<Event> events_;                // a heap
  std::vector<int> runnable_;
  // Asked for since the last assignment.
  std::vector<int> core_requests_;  // ranks
  std::vector<int> contenders_;     // channels
  std::vector<int> ready_reductions_;

  // steady_state.cc
  int pacemaker_ = -1;         // the first rank that has a period, while skipping is wanted
  bool period_began_ = false;  // the pacemaker's, since the last look
  Snapshot saved_;
  std::vector<std::int64_t> state_;
  std::int64_t snapshots_ = 0;
  std::int64_t next_save_ = 1;
  std::int64_t skipped_ = 0;
};

}  // namespace graphpipe
