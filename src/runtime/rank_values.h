// What a stage reads that others made: out of messages, and from the rank's own other
// stages, which hand values over without one. A value stays with the stage that made it; a
// gradient is kept here from the backward that made it to the one that reads it.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "runtime/mailbox.h"
#include "runtime/stage_work.h"
#include "schedule/schedule.h"

namespace graphpipe {

class RankValues {
 public:
  // What the references name must outlive the object.
  RankValues(const Plan& plan, const Graph& graph, const Mailbox& mailbox, RankId rank);
  // A stage of this rank.
  void add(StageId stage, const StageWork& runner);
  // The next run is over so many samples.
  void begin(std::int64_t samples) { samples_ = samples; }

  // Samples of a tensor that came over the edge, or of its gradient that came back.
  at::Tensor input(EdgeId edge, TensorId tensor, SampleRange samples) const;
  at::Tensor gradient(EdgeId edge, TensorId tensor, SampleRange samples) const;

  // Whether another stage of the rank reads what this one makes.
  bool is_read_here(StageId stage) const;
  // The stage's backward over a task's samples has made gradients: those for stages of this
  // rank are kept.
  void keep_gradients(StageId stage, SampleRange task);
  // The stage's backward has read them.
  void drop_gradients(StageId stage, SampleRange task);

  // GP_CHECKs that nothing is left.
  void finish() const;

 private:
  struct Part {
    SampleRange task;     // of the other stage
    SampleRange samples;  // of these
    bool here = false;    // on this rank
  };
  bool is_here(StageId stage) const { return runners_[stage.index()] != nullptr; }
  std::vector<Part> parts(StageId other, SampleRange samples) const;
  template <typename Here>
  at::Tensor gather(StageId other, EdgeId edge, Direction direction, TensorId tensor,
                    SampleRange samples, Here here) const;

  const Plan& plan_;
  const Graph& graph_;
  const Mailbox& mailbox_;
  DeviceId device_;
  std::vector<const StageWork*> runners_;  // [stage]; null: of another rank
  std::int64_t samples_ = 0;               // of the mini-batch
  struct Kept {
    at::Tensor values;           // undefined: zeros
    std::int64_t last_read = 0;  // end of the last of its samples that are read here
  };
  // By the edge, the samples of the task that made them, and the tensor.
  std::map<std::tuple<EdgeId, SampleRange, TensorId>, Kept> gradients_;
};

}  // namespace graphpipe
