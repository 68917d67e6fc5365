// What each rank is doing right now, in shared memory: it survives kill -9, so that
// the launcher can say where a rank died.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace graphpipe {

struct RankStatus {
  char phase[16];            // "start", "train", "evaluate", "finish"
  std::int64_t iteration;
  std::int64_t position;     // of the action within the rank's program
  std::int32_t stage;        // -1: none
  std::int64_t micro_batch;
  char action[64];           // as to_text(Action) says it
};

// A mapped file of one RankStatus. The worker writes, the launcher reads.
class StatusFile {
 public:
  static std::unique_ptr<StatusFile> create(const std::string& path);
  static std::unique_ptr<StatusFile> open(const std::string& path);  // null: not there
  ~StatusFile();
  RankStatus& status() { return *status_; }

 private:
  explicit StatusFile(RankStatus* status) : status_(status) {}
  RankStatus* status_;
};

}  // namespace graphpipe
