// An emulated run on one rank: iterations of a plan for any cluster, on this machine. The
// program, its execution, messages and the rank's transport are those of training; tasks are
// slept for, transfers take their modelled time (emulated_rank.h), and values are stand-ins.

#pragma once

#include <functional>
#include <string>

#include "cluster/cluster.h"
#include "cost/cost_model.h"
#include "graph/graph.h"
#include "job/job.h"
#include "job/launcher.h"
#include "plan/plan.h"
#include "runtime/rank_trainer.h"
#include "runtime/transport/transport.h"

namespace graphpipe {

struct EmulateRun {
  const TrainOptions& options;  // iterations, at least 1; trace_path
  const Plan& plan;
  const Graph& graph;
  const Cluster& cluster;
  const CostModel& costs;
  Transport& transport;
  std::string folder;  // that all ranks see and nobody else uses
  std::string ranks_as;
  // As RankTrainerOptions::on_action; may be empty.
  std::function<void(const Action& action, std::int64_t iteration, std::int64_t position,
                     const char* phase)>
      on_action;
};

// Every iteration begins on all ranks at once and ends with the last. Rank 0 emits the lines
// of job/train_lines.h. Collective.
void run_emulation(const EmulateRun& run, const LineSink& emit);

}  // namespace graphpipe
