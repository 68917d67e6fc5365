// One rank of a training run: interprets its program of the Schedule. There is one
// order, the Schedule's; nothing here decides what comes next.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "data/dataset.h"
#include "job/checkpoint/checkpoint.h"
#include "job/job.h"
#include "job/step_part.h"
#include "plan/plan.h"
#include "runtime/transport/transport.h"
#include "schedule/schedule.h"
#include "schedule/trace.h"

namespace graphpipe {

struct RankTrainerOptions {
  TrainOptions train;
  // Called before each action (for the launcher's status file); may be empty.
  std::function<void(const Action& action, std::int64_t iteration, std::int64_t position,
                     const char* phase)>
      on_action;
  // Called after each action, as a part of it: what it takes, the action takes. Reductions
  // within a backward come before it. May be empty.
  std::function<void(const Action& action)> after_action;
  // Stages compute nothing, and tensors and parameters have no elements (stand_in_stage.h);
  // the data set's fields are those of the stand_in_graph(). Only for training without metrics.
  bool stand_ins = false;
  bool keep_gradients = false;  // for tests: gradients of the last iteration stay readable
  bool trace = false;           // record the events of the last iteration
};

// What went wrong in an action, and where. what() is "rank 2 (iteration 12, stage 1,
// micro-batch 5, 1B5): CAUSE". Defects of ours stay InternalErrors.
class ActionError : public RunError {
 public:
  ActionError(const Action& action, const std::string& place, const std::string& cause,
              bool peer_lost);
  const Action& action() const { return action_; }
  const std::string& cause() const { return cause_; }
  bool peer_lost() const { return peer_lost_; }  // merely another rank's end (PeerError)

 private:
  Action action_;
  std::string cause_;
  bool peer_lost_;
};

struct IterationResult {
  double loss = 0;       // of the whole model over the whole mini-batch, the same on every rank
  double grad_norm = 0;  // over unique parameters, the same on every rank; before it is clipped
  bool skipped = false;  // the step, for a loss or gradient that is no number (OnNan::kSkip)
};

// What was measured since reset_measurements(), of this rank.
struct RankMeasurement {
  std::int64_t iterations = 0;
  double compute_s = 0;      // wall time inside operators (forward and backward)
  double compute_cpu_s = 0;  // thread CPU time inside operators
  double step_cpu_s = 0;     // ... in the optimiser's step
  double total_cpu_s = 0;    // ... of the executor, operators and step included
  std::int64_t actions = 0;
  std::int64_t peak_bytes = 0;  // of tensors, weights and optimiser state included; 0
                                // without install_counting_allocator()
  std::int64_t bytes_sent = 0;
};

class RankTrainer {
 public:
  // `transport` and what the references name must outlive the trainer. Parameters are
  // initialised by (seed, name). The rank is transport.rank(): index into
  // Schedule::ranks. Collective.
  RankTrainer(const Plan& plan, const Graph& graph, const Cluster& cluster, const Dataset& dataset,
              Transport& transport, RankTrainerOptions options);
  ~RankTrainer();

  // One synchronous training iteration over these samples (at most the plan's mini-batch;
  // fewer make a short batch). With `metrics`, loss and grad_norm are summed over the ranks
  // (a collective); without, they are 0. All ranks call with the same arguments.
  IterationResult train(const std::vector<std::int64_t>& ids, std::int64_t iteration, bool metrics);
  // The same over a mini-batch that is a part of a step: gradients are added to those of the
  // parts before it; the last part steps, and its result is that of the whole step (with
  // `metrics` in all parts), the others' is 0. Evaluations may stand between parts.
  IterationResult train(const std::vector<std::int64_t>& ids, std::int64_t iteration, bool metrics,
                        const StepPart& part);

  // A stream of mini-batches (the last may be short) through the pipeline of an asynchronous plan,
  // from its filling until it has run dry: the model's loss of each, summed over the ranks, as it
  // was at its forwards. Collective. The first mini-batch counts as iteration `first`.
  std::vector<double> train_stream(const std::vector<std::int64_t>& ids, std::int64_t first);

  // Means over the samples of every loss and metric of the graph, by a forward-only
  // schedule in mini-batches; touches no training state. "loss" is the model's. The same
  // on every rank. Collective.
  std::map<std::string, double> evaluate(const std::vector<std::int64_t>& ids);

  // Makes ready for training over so many samples, what train() does otherwise when it first
  // comes upon them.
  void prepare(std::int64_t samples);

  // The weights now (a copy), and back: for keeping the best.
  void save_weights();
  void restore_weights();

  // Between iterations: a copy of what training keeps of the parameters marked in `wanted`, as far
  // as this rank holds them; `best`: what save_weights() saved. And back, on every rank, before the
  // first iteration; the rank's parameters are those of `state`.
  TrainingState training_state(const std::vector<bool>& wanted) const;
  void restore(const TrainingState& state);

  void reset_measurements();
  RankMeasurement measurement() const;
  // Of this rank's last iteration, times from its start; with options.trace. Computes, and
  // messages as this rank saw them: a start_send while it packs, waits while they wait.
  const Trace& trace() const;

  // Parameters and (with keep_gradients) gradients held by this rank, by name.
  std::map<std::string, at::Tensor> parameters() const;
  std::map<std::string, at::Tensor> gradients() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graphpipe
