// Which version of its weights a stage of an asynchronous pipeline uses, and when versions end.
// Narayanan et al., "PipeDream", SOSP 2019, section on weight stashing and vertical sync;
// "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021 (2BW).
//
// A version is named by how many micro-batches' gradients it contains: 0 are the initial
// weights. Symbols:
//   W  micro-batches that a stage has in flight
//   m  micro-batches of a mini-batch, after which a stage steps: 1, but for 2BW
//   D  the last micro-batch that uses version v is v + D: W - 1 of the stage's own W (stash) or of
//      the largest W of a stage that nothing feeds (vertical sync); 2 m - 1 (2BW)

#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace graphpipe {

class VersionRule {
 public:
  // Requires: the plan is asynchronous.
  explicit VersionRule(const Plan& plan);

  std::int64_t micro_batches_a_step() const { return step_; }  // m
  // Whether the micro-batch's backward is followed by a step, in a stream of so many.
  bool ends_mini_batch(std::int64_t micro_batch, std::int64_t micro_batches) const {
    return (micro_batch + 1) % step_ == 0 || micro_batch + 1 == micro_batches;
  }
  // That the forward of the micro-batch uses, and its backward, but of policy naive.
  std::int64_t version_of(StageId stage, std::int64_t micro_batch) const;
  // D; 0 where no version but the newest is ever used.
  std::int64_t kept_for(StageId stage) const { return kept_for_[stage.index()]; }
  // Whether any micro-batch of a stream of so many, after the step that replaces the version,
  // still uses it, so that the step must not write over it.
  bool outlives_its_step(StageId stage, std::int64_t version, std::int64_t micro_batches) const;
  // How many steps a stage takes, at most, between the version that gradients are taken at and the
  // one that they change.
  std::int64_t steps_late(StageId stage) const { return kept_for_[stage.index()] / step_; }
  // Versions that a stage holds at once, the newest included, at most.
  std::int64_t most_held(StageId stage) const;

 private:
  WeightPolicy policy_;
  std::int64_t step_ = 1;
  std::vector<std::int64_t> kept_for_;  // [stage]
};

}  // namespace graphpipe
