// Faults on demand, for tests of what happens then.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace graphpipe {

// GP_TEST_FAULT="RANK:WHERE:WHAT".
//   WHERE  start, connect; a number: the first backward of that iteration; warm-up: the first
//          forward of all; steady: the first backward of iteration 2; reduction, evaluation: the
//          first such action; checkpoint: while a file of the second one is written
//   WHAT   throw; exit: with code 0; kill, stop: SIGKILL, SIGSTOP; memory: an allocation that is
//          refused; mute: no sign of life, and nothing else either; port (at connect, rank 0): the
//          port that is published is closed
// When it strikes, GP_TEST_FAULT_LOG, where it is set, is a file that gets the time
// (monotonic_s()).
class TestFault {
 public:
  // None where the variable is not set, or names another rank. Throws InputError where it is not
  // of that form. `mute`: ends the process's heartbeat.
  static std::optional<TestFault> of_rank(int rank, std::function<void()> mute);

  void strike_at(std::string_view place) const;
  void strike_in(const Action& action, std::int64_t iteration, std::string_view phase) const;
  // For "port": where rank 0's port is published.
  bool publishes_closed_port(const std::string& folder) const;

 private:
  void strike() const;

  std::string where_;
  std::string what_;
  std::function<void()> mute_;
};

}  // namespace graphpipe
