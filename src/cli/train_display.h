// What a training run says, for people and for scripts.

#pragma once

#include <cstdint>
#include <string>

#include "cli/progress.h"
#include "job/train_lines.h"

namespace graphpipe {

// Shows what rank 0 reports: progress on a terminal, whole lines otherwise.
class TrainDisplay {
 public:
  TrainDisplay(bool json, std::int64_t iterations_per_epoch, std::int64_t iterations)
      : json_(json), iterations_per_epoch_(iterations_per_epoch), iterations_(iterations) {}

  void show(const std::string& line);

  void end() { progress_.clear(); }
  const DoneLine& done() const { return done_; }

 private:
  void show_iteration(const IterationLine& line);
  void show_evaluation(const EvaluationLine& line);

  bool json_;
  std::int64_t iterations_per_epoch_;
  std::int64_t iterations_;
  ProgressLine progress_;
  DoneLine done_;
};

// What is told at the end: test metrics, how long it took, and the stages.
std::string done_text(const DoneLine& done);

}  // namespace graphpipe
