// Single-device training without schedules or messages: the plain versions that judge the
// pipeline.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "job/job.h"
#include "runtime/operators.h"
#include "runtime/optimizer.h"
#include "runtime/rank_trainer.h"

namespace graphpipe {

// Fills `tensors`, [tensor of the graph], whose inputs are there, with what the operators make.
// params: [parameter of the graph].
void run_operators(const Graph& graph, const std::vector<at::Tensor>& params,
                   const OpContext& context, std::vector<at::Tensor>& tensors);

class ReferenceTrainer {
 public:
  ReferenceTrainer(const Graph& graph, const Dataset& dataset, TrainOptions options);
  ~ReferenceTrainer();

  // Forward and backward over each micro-batch of `micro_batch` samples in turn, gradients
  // added up, then one step. micro_batch = ids.size(): one full batch.
  IterationResult train(const std::vector<std::int64_t>& ids, std::int64_t iteration,
                        std::int64_t micro_batch);
  // A part of a step: gradients are added to those of the parts before; the last part steps, and
  // its result is that of the whole step, the others' is 0.
  IterationResult train(const std::vector<std::int64_t>& ids, std::int64_t iteration,
                        std::int64_t micro_batch, const StepPart& part);
  std::map<std::string, double> evaluate(const std::vector<std::int64_t>& ids,
                                         std::int64_t micro_batch);
  std::map<std::string, at::Tensor> parameters() const;
  std::map<std::string, at::Tensor> gradients() const;  // of the last iteration

 private:
  friend class DelayedReference;
  struct State;
  std::unique_ptr<State> state_;
};

// The same with the delays of an asynchronous pipeline: each mini-batch is run with weights that
// are, stage by stage, as old as the plan's policy has them, and each stage steps by the mean over
// as many mini-batches as it has replicas that take turns (docs/papers.md).
class DelayedReference {
 public:
  // What the references name must outlive it.
  DelayedReference(const Plan& plan, const Graph& graph, const Dataset& dataset,
                   TrainOptions options);
  ~DelayedReference();

  // As RankTrainer::train_stream().
  std::vector<double> train_stream(const std::vector<std::int64_t>& ids, std::int64_t first);
  std::map<std::string, at::Tensor> parameters() const { return plain_.parameters(); }

 private:
  struct StageState {
    std::vector<std::size_t> params;                         // that are trained
    std::unique_ptr<Optimizer> optimizer;                    // of these
    std::map<std::int64_t, std::vector<at::Tensor>> values;  // by version: as params
  };
  std::int64_t turns(std::size_t stage) const;
  std::int64_t micro_batches_a_step(std::size_t stage) const;
  std::int64_t newest_at_forward(std::size_t stage, std::int64_t micro_batch) const;
  std::int64_t version(std::size_t stage, std::int64_t micro_batch) const;
  void use_old_weights(std::int64_t micro_batch);
  void use_newest_weights();  // in place: what a forward has saved sees them
  void add_gradients();
  void step(std::size_t stage, std::int64_t micro_batches, double rate);
  void remember(std::size_t stage, std::int64_t version);

  const Plan& plan_;
  ReferenceTrainer plain_;
  std::vector<at::Tensor> masters_;  // [parameter]
  std::vector<StageState> stages_;
};

}  // namespace graphpipe
