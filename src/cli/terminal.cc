#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/text.h"

namespace graphpipe {
namespace {

using Clock = std::chrono::steady_clock;

Verbosity chosen = Verbosity::kNormal;
Clock::time_point last_detail = Clock::now();

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

void set_verbosity(Verbosity verbosity) { chosen = verbosity; }

Verbosity verbosity() { return chosen; }

bool colours_wanted() {
  return isatty(STDOUT_FILENO) != 0 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

bool progress_wanted() { return isatty(STDERR_FILENO) != 0 && chosen != Verbosity::kQuiet; }

void print_detail(const std::string& text) {
  if (chosen != Verbosity::kVerbose) return;
  const auto now = Clock::now();
  fmt::print(stderr, "detail: {} ({})\n", text,
             seconds_text(std::chrono::duration<double>(now - last_detail).count()));
  last_detail = now;
}

}  // namespace graphpipe
