// What a terminal is told: how much, and in which colours.

#pragma once

#include <string>

namespace graphpipe {

enum class Verbosity {
  kQuiet,  // results and errors; no notes, no progress
  kNormal,
  kVerbose,  // and what was done on the way, with how long it took
};

// Of this process, set once by run_cli().
void set_verbosity(Verbosity verbosity);
Verbosity verbosity();

// Whether standard output is a terminal that shows colours: not where NO_COLOR is set and not
// empty, nor where TERM is dumb.
bool colours_wanted();

// Whether progress is shown on standard error: on a terminal, unless quiet.
bool progress_wanted();

// "detail: ... (12 ms since the last)" to standard error, where verbose.
void print_detail(const std::string& text);

}  // namespace graphpipe
