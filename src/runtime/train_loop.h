// A training run on one rank: mini-batches from the index stream, evaluations, early
// stopping, and the report at the end. Every rank runs it alike: what it decides depends
// only on numbers that are the same on all ranks.

#pragma once

#include "cluster/cluster.h"
#include "cost/cost_model.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "job/checkpoint/durable_files.h"
#include "job/job.h"
#include "job/launcher.h"
#include "plan/plan.h"
#include "runtime/rank_trainer.h"
#include "runtime/transport/transport.h"

namespace graphpipe {

struct TrainRun {
  const TrainOptions& options;
  const Plan& plan;
  const Graph& graph;
  const Cluster& cluster;
  const CostModel& costs;  // what predictions are made with
  const Dataset& dataset;
  Transport& transport;
  RankTrainer& trainer;
  DurableFiles checkpoint_files = DurableFiles();
};

// Trains for the iterations asked for; or for at most the epochs asked for, and no longer
// than the model's loss on the validation split improves: then the weights of the best
// evaluation are restored. Ends with an evaluation on the test split. `emit` gets the
// lines of job/train_lines.h, on rank 0 only. Throws RunError where the loss of a logged
// iteration or an evaluation is not finite (PeerError on the other ranks, so that one of
// them says so). Collective.
void run_training(const TrainRun& run, const LineSink& emit);

}  // namespace graphpipe
