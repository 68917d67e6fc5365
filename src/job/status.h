// What each rank is doing right now, in shared memory: it survives kill -9, so that
// the launcher can say where a rank died. Writing is a copy of one small struct; the
// text is made by whoever reads.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "plan/plan.h"
#include "schedule/schedule.h"

namespace graphpipe {

struct RankStatus {
  char phase[16] = "";  // "start", "train", "evaluate", "profile", "done"
  char note[112] = "";  // beyond the phase: the operator that is being measured
  std::int32_t pid = 0;
  double heartbeat_s = 0;       // monotonic_s() at the last sign of life; 0: none yet
  std::int64_t iteration = -1;  // -1: none
  std::int64_t position = -1;   // of the action within the rank's program; -1: no action
  Action action;
};
static_assert(std::is_trivially_copyable_v<RankStatus>);

// Whether the rank ended its work: the last thing that a worker writes.
bool is_done(const RankStatus& status);

// "iteration 12, stage 1, micro-batch 5, 1B5", as far as it is known; the phase where no
// action is. Bounds are checked: a rank may have died while writing.
std::string to_text(const RankStatus& status, const Plan& plan);

// A mapped file of one RankStatus. The worker writes, the launcher reads.
class StatusFile {
 public:
  static std::unique_ptr<StatusFile> create(const std::string& path);
  static std::unique_ptr<StatusFile> open(const std::string& path);  // null: not there
  ~StatusFile();
  StatusFile(const StatusFile&) = delete;
  StatusFile& operator=(const StatusFile&) = delete;

  RankStatus& status() { return *status_; }
  void set_phase(const char* phase);
  void set_note(const std::string& note);  // cut to what fits

 private:
  explicit StatusFile(RankStatus* status) : status_(status) {}
  RankStatus* status_;
};

std::string status_path(const std::string& folder, int rank);

}  // namespace graphpipe
