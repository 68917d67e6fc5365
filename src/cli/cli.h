// The graphpipe command. The only room that knows flags, files and exit codes.

#pragma once

namespace graphpipe {

// Exit codes, as scripts rely on them.
inline constexpr int kExitDone = 0;
inline constexpr int kExitNo = 1;         // the answer is no, with the reason
inline constexpr int kExitBadInput = 2;   // what, where, what was expected, what to do
inline constexpr int kExitRunFailed = 3;  // first cause printed once
inline constexpr int kExitBug = 70;       // a bug of ours

// Parses the command line, runs the command and returns the exit code. Results go to
// standard output; errors, notes and progress to standard error.
int run_cli(int argc, const char* const* argv);

}  // namespace graphpipe
