// What a run leaves behind where a Trace with events is asked for.

#pragma once

#include <cstdint>
#include <vector>

#include "schedule/trace.h"
#include "sim/program.h"

namespace graphpipe {

// Follows every rank's actions beside the engine, which knows them only as steps.
class Recorder {
 public:
  Recorder(const Schedule& lowered, const Plan& plan, const Clock& clock);

  // The rank's next action becomes its current one.
  void next(int rank) { cursors_[static_cast<std::size_t>(rank)].next(); }
  // An event of the action `ahead` behind the rank's current one; its times are set when they
  // are known.
  std::int64_t add(int rank, int ahead);
  void set_start(std::int64_t event, Ticks at);
  void set_end(std::int64_t event, Ticks at);
  void memory(int rank, Ticks at, std::int64_t bytes);

  // Events by start, then rank; memory by time.
  void move_to(Trace& trace);

 private:
  const Clock& clock_;
  std::vector<ActionCursor> cursors_;
  std::vector<TraceEvent> events_;
  std::vector<MemorySample> memory_;
};

}  // namespace graphpipe
