// SIGINT, SIGTERM and SIGHUP to a process that has others to end first.

#pragma once

#include <signal.h>

#include <array>

namespace graphpipe {

// While it lives, SIGINT, SIGTERM and SIGHUP are noted (those that this process ignores
// stay ignored; those that it has held back so far come now), and SIGCHLD is not ignored, so that
// children can be waited for. One at a time.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  static int received();  // 0: none

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
  std::array<struct sigaction, 4> old_ = {};
  sigset_t old_mask_ = {};
};

}  // namespace graphpipe
