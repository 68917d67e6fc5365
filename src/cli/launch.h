// train's flags of launchers, and what they and the variables come to.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "job/hosts/launch_plan.h"
#include "job/hosts/remote_ranks.h"
#include "job/job.h"

namespace graphpipe {

void add_launch_flags(CLI::App& command, LaunchFlags& flags);

// Which rank this process is, told to people: from then on only rank 0 speaks. Of a hostfile's
// rank the token and, but for rank 0, the store's address are read from standard input. Throws
// InputError.
LaunchPlan find_launch(const LaunchFlags& flags);

// Throws InputError where the launcher started another number of processes than `ranks`.
void check_launched_ranks(const LaunchPlan& launch, int ranks, const std::string& where);

// Of a hostfile's rank: ends the process's run (SIGTERM) when the head has gone, which shows as the
// end of standard input. Before it, SIGTERM is to be held back in this thread.
void end_with_head();

// `graphpipe train --hostfile`: this command on the hosts of the file, a process a rank.
struct HostfileFlags {
  std::string file;  // "": none
  std::string shell = "ssh -o BatchMode=yes";
};
void add_hostfile_flags(CLI::App& command, HostfileFlags& flags);
RemoteJob make_remote_job(const HostfileFlags& flags, int ranks);

// How this process's ranks find the others.
Rendezvous make_rendezvous(const LaunchPlan& launch);

}  // namespace graphpipe
