// Interprets a rank's program, one action after another. There is one order, the
// program's; nothing here decides what comes next. It is the glue between a stage's values
// (stage_work.h), its messages (mailbox.h), its data and its weights.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "job/step_part.h"
#include "plan/weight_versions.h"
#include "runtime/batch_reader.h"
#include "runtime/mailbox.h"
#include "runtime/optimizer.h"
#include "runtime/rank_trainer.h"
#include "runtime/rank_values.h"
#include "runtime/reducer.h"
#include "runtime/stage_work.h"
#include "runtime/version_store.h"

namespace graphpipe {

// One run of a program over a mini-batch, or over a stream of them.
struct Run {
  bool training = true;
  std::int64_t iteration = 0;
  std::span<const std::int64_t> ids;  // samples of the mini-batch, in the data set
  bool metrics = false;               // in training: add up losses and gradient norms
  StepPart part;                      // in training
};

class RankExecutor {
 public:
  // Throws InputError where the plan does not fit the number of ranks. The parameters of
  // the rank's stages are made here.
  RankExecutor(const Plan& plan, const Graph& graph, const Cluster& cluster, const Dataset& dataset,
               Transport& transport, const RankTrainerOptions& options);

  // Makes and proves the programs for so many samples ahead of the first run over them.
  void prepare(std::int64_t samples, bool training) { schedule(samples, training); }
  // Throws InputError where the plan's programs for so many samples are not sound; ActionError
  // naming the action that failed; the executor is of no use then.
  void run(const Run& what);
  // For training that clips, or skips steps: run() steps no stage, this steps all, after their
  // gradients are multiplied by the factor.
  void scale_and_step(double factor);
  void drop_gradients();

  // [parameter of the graph]; undefined: held by another rank.
  const std::vector<at::Tensor>& params() const { return params_; }
  // That steps the parameter on this rank; null: none, it is not trained here.
  Optimizer* optimizer_of(ParamId param);
  const BatchReader& reader() const { return reader_; }

  // Added up by runs since reset_sums(), for what this rank computes, else 0: losses and
  // metrics over samples [tensor], squared gradients [parameter].
  const std::vector<double>& watched_sums() const { return watched_sums_; }
  const std::vector<double>& gradient_squares() const { return gradient_squares_; }
  // [mini-batch of the last stream][tensor], likewise: losses over samples.
  const std::vector<std::vector<double>>& stream_sums() const { return stream_sums_; }
  void reset_sums();
  std::vector<double> exchange_watched_sums(std::vector<double> sums);  // what they were

  RankMeasurement& measured() { return measured_; }
  const Trace& trace() const { return trace_; }

 private:
  // A stage that this rank runs.
  struct OwnStage {
    StageId id;
    std::unique_ptr<StageWork> runner;
    std::vector<ParamId> trained;  // its trainable parameters, but those of an earlier own stage
    std::unique_ptr<Optimizer> optimizer;
    bool recomputes = false;
    std::unique_ptr<VersionStore> versions = {};  // of an asynchronous plan
  };

  void make_stages();
  void make_stage(StageId id);
  const Schedule& schedule(std::int64_t samples, bool training);
  OwnStage& stage(StageId id);
  std::int64_t mini_batch_samples() const { return static_cast<std::int64_t>(run_.ids.size()); }

  void perform(const Action& action);
  void execute(const Action& action);
  void perform_and_record(const Action& action);
  void drop_what_was_sent(const Action& next);
  OpContext context(const Action& action) const;
  bool is_stream() const { return rule_.has_value() && run_.training; }
  std::int64_t mini_batch_of(std::int64_t micro_batch) const;
  std::int64_t step_samples(const Action& backward) const;
  void begin_stream();
  void end_backward_of_stream(const Action& action);
  void step_of_stream(const Action& action);
  void forward(const Action& action);
  void add_watched(const Action& action, const StageWork& runner);
  void recompute(const Action& action);
  void backward(const Action& action);  // the whole, or its input half
  void backward_weight(const Action& action);
  void start_send(const Action& action);
  void start_reduce(const Action& action);
  void wait_reduce(const Action& action);
  void step(const Action& action);
  bool steps_later() const;
  void step_stage(OwnStage& own);
  void reduce_within(const Action& action);
  std::vector<BackwardPoint> points_within();
  [[noreturn]] void rethrow(const std::exception& error, const Action& action) const;

  const Plan& plan_;
  const Graph& graph_;
  const Cluster& cluster_;
  RankTrainerOptions options_;
  std::unique_ptr<const Graph> stand_ins_;
  const Graph& values_graph_;  // the graph with the tensors that this run makes: real, or stand-ins
  BatchReader reader_;
  RankId rank_;
  int ranks_;
  std::vector<at::Tensor> params_;
  std::vector<OwnStage> stages_;
  std::set<ParamId> counted_;     // whose gradient norm this rank counts: held by none before it
  std::vector<bool> recomputes_;  // [stage]
  std::vector<Bucket> buckets_;
  TagSpace tags_;
  Mailbox mailbox_;
  RankValues values_;
  Reducer reducer_;
  std::map<std::pair<std::int64_t, bool>, Schedule> schedules_;  // by (samples, training)
  Run run_;
  std::optional<std::pair<StageId, SampleRange>> to_drop_;  // results, once they are sent
  std::vector<Action> within_;  // reductions that happen while the backward at hand goes on
  double start_s_ = 0;          // of the run
  std::vector<double> watched_sums_;
  std::vector<double> gradient_squares_;
  std::optional<VersionRule> rule_;               // of an asynchronous plan
  std::vector<std::vector<double>> stream_sums_;  // [mini-batch][tensor]
  RankMeasurement measured_;
  Trace trace_;
};

}  // namespace graphpipe
