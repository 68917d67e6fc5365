// Training and profiling within the calling program: ranks are its threads, so they see its
// data sets and its own operators. Without libtorch's headers, for programs that use graphpipe
// as a library.
//
// Ranks compute on a core each. While they run, the matrix library of the whole program computes
// on one thread, and tensors of the whole program are counted.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cost/cost_model.h"
#include "cost/profile.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "graph/weights.h"
#include "job/train_lines.h"
#include "plan/plan.h"

namespace graphpipe {

// Measures the graph's operators on this machine, the program's own among them, at these sample
// counts, while as many ranks are busy as the plan will have. Throws RunError where ranks fail.
Profile profile_locally(const Graph& graph, const std::vector<std::int64_t>& samples, int ranks,
                        int repeats = 5);

// How to train: for so many iterations (mini-batches), or so many epochs; with neither until the
// loss of the validation split has not improved for `patience` evaluations, one an epoch.
struct LocalTraining {
  std::int64_t iterations = 0;
  std::int64_t epochs = 0;
  std::int64_t patience = 3;
  std::int64_t eval_every = 0;  // iterations between evaluations; 0: an epoch, or never where
                                // iterations are given
  double learning_rate = 0.1;   // the optimiser is the plan's
  double momentum = 0;
  double weight_decay = 0;
  double clip = 0;         // largest norm of the gradients; 0: not clipped
  std::uint64_t seed = 1;  // of split, initialisation, order and dropout
  double timeout_s = 60;   // of a wait for another rank
  // Called by one of the ranks' threads; may be empty.
  std::function<void(const IterationLine&)> on_iteration;
  std::function<void(const EvaluationLine&)> on_evaluation;
};

struct LocalTrainingResult {
  std::vector<double> losses;  // [iteration]
  DoneLine done;               // metrics on the test split; per stage predicted and measured
  Weights weights;             // by name; of the best evaluation where training went by epochs
};

// Runs the plan over the data set, of which 80 % train, 10 % validate and 10 % test (by seed;
// at least 10 samples). Throws InputError where the plan cannot run (require_runnable), or the
// data set does not serve the graph's inputs; RunError with the first cause where a rank fails.
LocalTrainingResult train_locally(const Plan& plan, const Graph& graph, const Cluster& cluster,
                                  const CostModel& costs, const Dataset& dataset,
                                  const LocalTraining& training);

}  // namespace graphpipe
