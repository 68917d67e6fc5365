// What `graphpipe train` is told, and which of it goes together.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/checkpoint_flags.h"
#include "cli/inputs.h"
#include "cli/launch.h"
#include "job/job.h"

namespace graphpipe {

struct TrainFlags {
  std::string plan;
  std::string profile;
  std::string optimizer;
  std::string transport = "auto";
  std::string rate_schedule = "constant";
  std::string save_weights;
  std::string save_onnx;
  std::string calibrate;
  std::string on_nan = "stop";
  CheckpointFlags checkpoint;
  LaunchFlags launch;
  HostfileFlags hostfile;
  bool emulate = false;
  bool elastic = false;
  TrainOptions train;
};

void add_train_flags(CLI::App& command, TrainFlags& flags);

// All throw InputError that names the flag.
void check_flags(const TrainFlags& flags);
void check_elastic(const TrainFlags& flags, const LaunchPlan& launch);
void check_ranks(const TrainFlags& flags, const LaunchPlan& launch, int ranks);
// With the plan and its model.
void check_can_compute(const Graph& graph, const std::string& where);
void check_can_export(const Graph& graph);
void check_calibrate(const TrainFlags& flags, const LoadedPlan& loaded);
void check_stream(const TrainFlags& flags, const Plan& plan);
// The plan's memory is then verified for what the optimizer takes.
void choose_optimizer(TrainFlags& flags, Plan& plan);
void choose_transport(TrainFlags& flags);
void choose_on_nan(TrainFlags& flags);

}  // namespace graphpipe
