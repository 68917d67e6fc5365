#include "job/heartbeat.h"

#include <algorithm>
#include <chrono>

#include "job/fault.h"

namespace graphpipe {

Heartbeat::Heartbeat(StatusFile& file, double interval_s)
    : file_(file), thread_([this, interval_s] { beat(interval_s); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Heartbeat::beat(double interval_s) {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    file_.status().heartbeat_s = monotonic_s();
    changed_.wait_for(lock, std::chrono::duration<double>(interval_s), [this] { return stopped_; });
  }
}

double heartbeat_interval_s(double limit_s) { return std::clamp(limit_s / 5, 0.01, 1.0); }

}  // namespace graphpipe
