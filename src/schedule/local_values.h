// What stages on the same rank hand to one another: no message carries it, and it exists once.
// A tensor is the stage's that makes it, and ends only after those on the rank that read it;
// its gradient exists from the reader's backward to the end of what its maker's forward saved.

#pragma once

#include <cstdint>
#include <vector>

#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/schedule.h"

namespace graphpipe {

class LocalValues {
 public:
  // What the references name must outlive it.
  LocalValues(const Schedule& schedule, const Plan& plan, const Graph& graph, RankId rank);

  // Whether any two stages of the rank are joined by an edge.
  bool any() const { return any_; }
  // Parts of `x` that the stage at the other end of the edge computes on this rank.
  std::vector<OwnedPart> parts(EdgeId edge, StageId stage, SampleRange x) const;
  // Data edges from stages of this rank to `stage`, and from it to them.
  const std::vector<EdgeId>& in(StageId stage) const { return in_[stage.index()]; }
  const std::vector<EdgeId>& out(StageId stage) const { return out_[stage.index()]; }

  // Of a task's samples `x`, in bytes: the tensors that it reads of others here, those that it
  // makes for them, the gradients that its backward makes for them, and they for it.
  std::int64_t read_bytes(StageId stage, SampleRange x) const;
  std::int64_t made_bytes(StageId stage, SampleRange x) const;
  std::int64_t gradients_given_bytes(StageId stage, SampleRange x) const;
  std::int64_t gradients_taken_bytes(StageId stage, SampleRange x) const;

 private:
  std::int64_t gradient_bytes(EdgeId edge, StageId stage, SampleRange x) const;

  const Plan& plan_;
  const Graph& graph_;
  DeviceId device_;
  std::int64_t samples_;
  bool any_ = false;
  std::vector<bool> needs_;              // needs_gradient(); empty where there are none
  std::vector<bool> edge_backward_;      // in this schedule; likewise
  std::vector<std::vector<EdgeId>> in_;  // [stage]
  std::vector<std::vector<EdgeId>> out_;
};

}  // namespace graphpipe
