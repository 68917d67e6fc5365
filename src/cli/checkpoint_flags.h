// train's flags of checkpoints.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "data/dataset.h"
#include "graph/graph.h"
#include "job/job.h"
#include "plan/plan.h"

namespace graphpipe {

struct CheckpointFlags {
  std::string folder;
  std::string every = "1epoch";  // "500" iterations, "2epochs"
  std::string mode = "coordinated";
  std::int64_t keep = 3;
  bool resume = false;

  void add_to(CLI::App& command);
};

// Throws InputError where one is out of its range, or is given without --checkpoint-dir.
void check_checkpoint_flags(const CheckpointFlags& flags);

// Sets train.checkpoint. With --resume finds the newest checkpoint, throws InputError where it is
// of another run, and notes what differs on standard error; without, refuses a folder that has one.
void choose_checkpoint(const CheckpointFlags& flags, const Plan& plan, const Graph& graph,
                       const Dataset& dataset, std::int64_t iterations_per_epoch,
                       TrainOptions& train);

}  // namespace graphpipe
