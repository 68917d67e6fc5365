// train --elastic: a run that goes on with the ranks that remain.
//
//   all ranks ── one is lost ──► fewer, from the last checkpoint
//       ▲                          │
//       └──── the next checkpoint ─┘
//
// A rank is lost where something from outside ended, stopped or froze it (a kill, the system out of
// memory, a host that is gone); an error of its own would come again, and ends the run.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "job/job.h"
#include "job/launcher.h"

namespace graphpipe {

// [k]: what to run with k ranks fewer; as many as there are plans for, k = 0 the plan itself, up to
// `most_fewer`. Plans are those of the plan's own planner, options and micro-batch. Notes what is
// prepared. Throws InputError where the cluster is not one that can be smaller.
std::vector<JobInputs> plans_for_fewer(const LoadedPlan& loaded, int most_fewer,
                                       const std::string& where);

struct ElasticRun {
  std::vector<JobInputs> inputs;  // [ranks lost]
  std::string checkpoints;        // their folder
  std::string resume;             // the one to begin with; "": from the beginning
  // Runs until it ends or `on_line`, which it calls with what the run says, throws.
  std::function<LaunchResult(const JobInputs&, const std::string& resume, const LineSink& on_line)>
      run;
  LineSink on_line;
  // After a loss: how many ranks fewer there are to be. Empty: one fewer than before.
  std::function<std::size_t(const LaunchResult&)> count_lost = {};
  // Whether all ranks can run again; asked once a checkpoint. Empty: they always can.
  std::function<bool()> all_back = {};
  // Told before the run goes on with other ranks: a sentence why, and with how many.
  std::function<void(const std::string& why, int ranks, const std::string& resume)> on_restart;
};

struct ElasticResult {
  LaunchResult result;
  std::size_t lost = 0;  // ranks fewer, at the end
};

// Where no checkpoint is there yet, it begins again. Grows back at the first checkpoint that is
// made with fewer ranks when all are back.
ElasticResult run_elastic(const ElasticRun& run);

}  // namespace graphpipe
