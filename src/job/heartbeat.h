// A process's sign of life: a thread of its own that notes the time in the status file, whatever
// the others do. It stops when the process is stopped, or starved.

#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "job/status.h"

namespace graphpipe {

class Heartbeat {
 public:
  // `file` must outlive it.
  Heartbeat(StatusFile& file, double interval_s);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void beat(double interval_s);

  StatusFile& file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

// How often to, where one that has not come for `limit_s` counts as none.
double heartbeat_interval_s(double limit_s);

}  // namespace graphpipe
