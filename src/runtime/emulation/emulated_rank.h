// What a rank's actions take in an emulated run: it sleeps for its tasks, and waits where
// transfers take their time. And what it would hold meanwhile, by the rule that the verifier
// and the simulator count by.
//
// The rank keeps a time of its own, at which its program stands: a task ends its duration
// after what it waited for and the task before it, whether or not the machine woke the rank
// late. So lateness does not add up along a rank, as that of a host does not that hands
// tasks on to a device ahead of time; it shows where the iteration ends.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/emulation/emulated_network.h"
#include "runtime/emulation/transfer_model.h"
#include "schedule/memory_rule.h"
#include "schedule/task_seconds.h"

namespace graphpipe {

class EmulatedRank {
 public:
  // What the references name must outlive the object.
  EmulatedRank(const Schedule& lowered, const Plan& plan, const Graph& graph,
               const Cluster& cluster, const CostModel& costs, RankId rank,
               const TransferModel& transfers, EmulatedNetwork& network, double stretch);

  // An iteration begins, at a time of wall_s().
  void begin(double start_s);
  // The rank comes to an action; it has done it, or what happens within it.
  void before(const Action& action) { current_ = action; }
  void after(const Action& action);

  double own_time_s() const { return now_s_; }  // of wall_s()

  // Of the iteration that has ended.
  double busy_s() const { return busy_s_; }  // stretched
  // How long after its own time the rank came out of its last wait, and at most.
  double late_s() const { return late_s_; }
  double most_late_s() const { return most_late_s_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  std::int64_t held_bytes() const { return held_bytes_; }
  std::int64_t static_bytes() const { return memory_.static_bytes(); }

 private:
  void count_memory(const Action& action);
  void run_task(double until_s);
  void come(int lane, double hold_s);
  enum class Until { kLeft, kArrived };
  void wait(int lane, Until until);
  void sleep_until_own_time();

  RankId rank_;
  const TransferModel& transfers_;
  EmulatedNetwork& network_;
  double stretch_;
  TaskSeconds task_seconds_;
  MemoryRule memory_;

  double now_s_ = 0;  // the rank's own time, of wall_s()
  Action current_;
  double done_s_ = 0;  // of the task at hand
  double busy_s_ = 0;
  double late_s_ = 0;
  double most_late_s_ = 0;
  std::int64_t held_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  // How far the rank is in a lane.
  struct Progress {
    std::int64_t come = 0;
    std::int64_t waited = 0;
    std::vector<double> holds_s = {};  // [transfer], of those to which it has come
  };
  std::vector<Progress> progress_;  // [lane]
};

}  // namespace graphpipe
