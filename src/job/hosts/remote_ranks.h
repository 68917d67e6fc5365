// The ranks of a job on the hosts of a file: one `graphpipe train` a rank, each started by a remote
// shell, all followed from here.
//
// What a rank is told. On its command line: GRAPHPIPE_RANK, GRAPHPIPE_WORLD_SIZE,
// GRAPHPIPE_LOCAL_RANK and MASTER_ADDR (rank 0's host). On its standard input, a line each: the
// job's token; for all but rank 0, "ADDRESS PORT" of rank 0's store, as soon as that has said
// {"rendezvous": "ADDRESS PORT"} on its standard output. The input then stays open: a rank whose
// input ends has lost this process, and ends.
// What a rank says, a JSON document a line: rank 0 what a run has to say; one that fails
// {"failure": ...} at its end. Its standard error is for people.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/hosts/host_list.h"
#include "job/launcher.h"

namespace graphpipe {

struct RemoteJob {
  std::vector<std::string> shell;  // "ssh", "-o", "BatchMode=yes"
  std::vector<HostSlots> hosts;
  std::vector<int> host_of;          // [rank]
  std::string folder;                // where the command runs, on every host
  std::vector<std::string> command;  // graphpipe train ...
  std::string token;
};

// One word for a POSIX shell.
std::string shell_word(const std::string& text);

// What the remote shell of that rank gets: shell..., host, one line for the host's shell.
std::vector<std::string> remote_command(const RemoteJob& job, int rank);

// Starts all ranks, hands on what rank 0 says and, by rank, what they write to standard error, and
// returns when all have ended: as run_workers() does, also about signals. The first cause is the
// first of a rank's that is not merely the loss of another. Where `on_line` throws, all ranks end
// first.
LaunchResult run_remote(const RemoteJob& job, const LineSink& on_line,
                        const RankLineSink& on_error_line);

// Whether a command runs on that host and ends well, within `timeout_s`.
bool host_answers(const RemoteJob& job, const std::string& host, double timeout_s);

// The line that a rank ends with where it failed, and what it says.
std::string failure_line(const LaunchResult& result);
std::optional<LaunchResult> parse_failure_line(const std::string& line);
// "ADDRESS PORT"; none where the line says something else.
std::optional<std::string> parse_rendezvous_line(const std::string& line);

}  // namespace graphpipe
