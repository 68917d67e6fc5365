// Trains by a plan with ranks as threads, and on one device, and says how the results
// differ.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "job/job.h"
#include "plan/plan.h"
#include "runtime/rank_trainer.h"

namespace graphpipe {

// What to train on: the mini-batches, one an iteration.
struct Lesson {
  std::vector<std::vector<std::int64_t>> batches;
  std::vector<std::int64_t> evaluated;  // samples to evaluate at the end
  bool evaluates_before_each = false;   // ... and, by plan, before each mini-batch
  TrainOptions options;
};

struct Outcome {
  std::vector<IterationResult> iterations;
  std::map<std::string, at::Tensor> gradients;  // of the last iteration
  std::map<std::string, at::Tensor> parameters;
  std::map<std::string, double> metrics;
  std::vector<std::int64_t> peak_bytes;  // [rank]: of training by plan
  std::string holders_differ;  // a parameter or gradient that two ranks hold unlike; "": none
};

// Which part of a step mini-batch i is.
StepPart part_of(const Lesson& lesson, std::size_t i);

// Called on each rank's own thread.
using RankBody = std::function<void(RankTrainer& trainer, int rank)>;

// Runs `body` with a trainer on every rank of the plan; throws as run_thread_ranks().
void run_ranks(const Plan& plan, const Graph& graph, const Dataset& dataset,
               const RankTrainerOptions& options, const RankBody& body,
               TransportKind kind = TransportKind::kAuto);

Outcome train_by_plan(const Plan& plan, const Graph& graph, const Dataset& dataset,
                      const Lesson& lesson);
Outcome train_on_one_device(const Graph& graph, const Dataset& dataset, const Lesson& lesson,
                            std::int64_t micro_batch);

// The first loss, norm, gradient or parameter that is not the same in every bit; "": none.
std::string bitwise_difference(const Outcome& expected, const Outcome& got);

// The largest difference of a loss, norm, gradient or parameter relative to its own size (of
// tensors: the Euclidean norm), and whose it is. Infinite where something is missing.
struct Difference {
  double relative = 0;
  std::string where;
};
Difference largest_difference(const Outcome& expected, const Outcome& got);

}  // namespace graphpipe
