// Which version of its weights a stage of an asynchronous pipeline uses.
// Narayanan et al., "PipeDream", SOSP 2019, sections on weight stashing, vertical sync and
// 1F1B-RR; "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021 (2BW).
//
// A version is named by how many micro-batches' gradients it contains: 0 are the initial
// weights. Symbols, of a stage:
//   d  replicas that take micro-batches in turn, i on replica i mod d; 1 where they split each
//   W  micro-batches that each replica has in flight
//   m  micro-batches of a step, which all replicas take together: d, of 2BW those of a mini-batch
// Micro-batch i then finds, at its forward, max(0, floor(i / d) - (W - 1)) d: with stash that is
// its version. With vertical sync it is the newest with no more than the least that any stage
// finds that nothing feeds; of 2BW max(0, floor(i / m) - 1) m.

#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace graphpipe {

class VersionRule {
 public:
  // Requires: the plan is asynchronous.
  explicit VersionRule(const Plan& plan);

  std::int64_t micro_batches_a_mini_batch() const { return mini_batch_; }  // 1, but for 2BW
  std::int64_t micro_batches_a_step(StageId stage) const { return at(stage).step; }  // m
  // Whether the micro-batch is its replica's last of its step, in a stream of so many.
  bool is_last_of_step(StageId stage, std::int64_t micro_batch, std::int64_t micro_batches) const;
  // That the forward of the micro-batch uses, and its backward, but of policy naive. Never falls
  // from a micro-batch to the next.
  std::int64_t version_of(StageId stage, std::int64_t micro_batch) const;
  // How many micro-batches before its own the version of a micro-batch lacks, at most.
  std::int64_t kept_for(StageId stage) const { return at(stage).kept_for; }
  // How many steps a stage takes, at most, between the version that gradients are taken at and the
  // one that they change.
  std::int64_t steps_late(StageId stage) const { return at(stage).late; }
  // Versions that a device of the stage holds at once, the newest included, at most.
  std::int64_t most_held(StageId stage) const;

 private:
  struct StageRule {
    std::int64_t turns = 1;      // d
    std::int64_t in_flight = 1;  // W
    std::int64_t step = 1;       // m
    std::int64_t kept_for = 0;
    std::int64_t late = 0;
    // Of the micro-batches that it has run when it is handed one: all but the last W rounds.
    std::int64_t newest(std::int64_t micro_batch) const;
  };
  const StageRule& at(StageId stage) const { return stages_[stage.index()]; }
  void find_delays(StageRule& rule, StageId stage) const;

  WeightPolicy policy_;
  std::int64_t mini_batch_ = 1;
  std::vector<StageRule> stages_;
  std::vector<StageId> entering_;  // that nothing feeds
};

}  // namespace graphpipe
