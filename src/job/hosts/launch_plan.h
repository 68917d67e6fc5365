// Which rank this process is. `graphpipe train` by itself starts a process for every rank; one of
// the processes that a launcher starts is one rank, as the launcher's variables say.
//
// In this order, the first whose variables are there is taken:
//
//   launcher   rank                   ranks                  beside these
//   hostfile   GRAPHPIPE_RANK         GRAPHPIPE_WORLD_SIZE   (set by graphpipe train --hostfile)
//   torchrun   RANK                   WORLD_SIZE             LOCAL_RANK LOCAL_WORLD_SIZE
//                                                            TORCHELASTIC_RUN_ID
//                                                            TORCHELASTIC_RESTART_COUNT
//                                                            TORCHELASTIC_USE_AGENT_STORE
//   open-mpi   OMPI_COMM_WORLD_RANK   OMPI_COMM_WORLD_SIZE   OMPI_COMM_WORLD_LOCAL_RANK
//                                                            OMPI_COMM_WORLD_LOCAL_SIZE
//                                                            PMIX_RANK PMIX_NAMESPACE
//   pmi        PMI_RANK               PMI_SIZE               MPI_LOCALRANKID MPI_LOCALNRANKS
//                                                            PMI_JOBID
//   slurm      SLURM_PROCID           SLURM_NTASKS           SLURM_LOCALID SLURM_JOB_ID
//                                                            SLURM_STEP_ID (without it the process
//                                                            is the batch script's, no rank)
//                                                            SLURM_STEP_NODELIST
//                                                            SLURM_JOB_NODELIST
//
// Several sets may be there, where one launcher starts another (srun a torchrun on each node): the
// one that is taken has more ranks then. With as many it must say the same rank; with fewer it is
// left over from elsewhere; both are contradictions.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"

namespace graphpipe {

using Environment = std::map<std::string, std::string>;
Environment read_environment();  // this process's

enum class Launcher { kNone, kHostfile, kTorchrun, kOpenMpi, kPmi, kSlurm };
std::string_view launcher_name(Launcher launcher);  // "none", "hostfile", "torchrun", ...

struct LaunchFlags {
  std::string launcher = "auto";  // auto, none, torchrun, open-mpi, pmi, slurm
  std::string rendezvous = {};    // "HOST:PORT"; "": as the variables say
  std::string interface = {};     // "": as the variables say
};

struct LaunchPlan {
  Launcher launcher = Launcher::kNone;  // kNone: this process starts all ranks, here
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  // Way, host, port, token and run; the address is this machine's to say.
  Rendezvous rendezvous;
  std::string interface;            // ranks use no other; "": that of the way to rank 0
  bool token_is_guessable = false;  // made of the job's id: GRAPHPIPE_TOKEN is not set
  std::vector<std::string> notes;   // what was detected, for people
};

// Throws InputError that names the variables where they contradict each other, are incomplete, or
// are no numbers.
LaunchPlan plan_launch(const Environment& environment, const LaunchFlags& flags);

}  // namespace graphpipe
