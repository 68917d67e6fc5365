// What one replica of a stage has to do in a schedule, in numbers.

#pragma once

#include <cstdint>

#include "schedule/placement.h"
#include "schedule/schedule.h"

namespace graphpipe {

struct ReplicaWork {
  StageId stage = {};
  int replica = 0;
  bool backward = false;
  bool recompute = false;        // R right before each B
  bool halves = false;           // I and W in place of B
  std::int64_t first = 0;        // micro-batch of task 0
  std::int64_t stride = 1;       // from a task's micro-batch to the next's
  std::int64_t tasks = 0;        // n
  std::int64_t in_flight = 0;    // of these at once, at most
  std::int64_t warm_up = 0;      // W
  std::int64_t late = 0;         // D: weight halves that wait, at most
  std::int64_t in_a_row = 1;     // k
  std::int64_t whole_tasks = 0;  // those of whole micro-batches
  std::int64_t round_samples = 1;
  // Rounds whose versions of the weights are not as in the others.
  std::int64_t unlike_first = 0;
  std::int64_t unlike_last = 0;

  std::int64_t micro_batch(std::int64_t task) const { return first + task * stride; }
};

// `backward`: whether the stage runs backwards in this schedule, of `samples` samples.
ReplicaWork replica_work(const Plan& plan, Placement placed, bool backward, std::int64_t samples);

}  // namespace graphpipe
