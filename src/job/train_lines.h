// What a training run reports: one JSON object a line on rank 0's standard output
// (docs/formats.md). Every "epoch" counts passes over the training split, with fractions.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace graphpipe {

struct IterationLine {
  std::int64_t iteration = 0;  // from 0
  double epoch = 0;
  double loss = 0;
  std::optional<double> grad_norm = {};  // before clipping; none: not known in a stream
  double learning_rate = 0;              // of the step that the iteration belongs to
  double samples_per_s = 0;              // since the last such line
  bool skipped = false;                  // the step, for a loss or gradient that is no number
};

struct EvaluationLine {
  std::int64_t evaluation = 0;  // from 1
  double epoch = 0;
  std::map<std::string, double> validation;
  bool best = false;     // so far, by the model's loss
  double elapsed_s = 0;  // since the first iteration began
};

// Of one iteration over a full mini-batch. Where a stage has several ranks: its fullest.
struct StageReport {
  int stage = 0;
  double predicted_s = 0;      // computing, with a core to itself
  double measured_s = 0;       // CPU time inside operators
  double measured_wall_s = 0;  // clock time inside operators: more where ranks share cores
  std::int64_t predicted_peak_bytes = 0;
  std::int64_t measured_peak_bytes = 0;
  std::int64_t bytes_sent = 0;  // by all its ranks together
};

// Instead of IterationLine, where `train --emulate` runs a plan by its modelled times.
struct EmulatedIterationLine {
  std::int64_t iteration = 0;  // from 0
  double iteration_s = 0;      // from the start to the last rank's end, over the stretch
  double wall_s = 0;           // ... as the clock showed it
  double samples_per_s = 0;    // by iteration_s
};

// Of the whole emulated run.
struct EmulationReport {
  std::string ranks_as;        // "threads", "processes over gloo"
  double stretch = 1;          // all times were multiplied by
  double shortest_task_s = 0;  // before that
  double wall_s = 0;           // of an iteration, by the clock
  // By how much this machine was behind: ranks at the end of an iteration, and at most within.
  double late_s = 0;
  double most_late_s = 0;
  double bubble_fraction = 0;  // measured
  double predicted_bubble_fraction = 0;
};

struct DoneLine {
  std::int64_t iterations = 0;
  double epochs = 0;
  bool stopped_early = false;
  std::int64_t skipped_steps = 0;            // for a loss or gradient that is no number
  std::map<std::string, double> metrics;     // on the test split
  std::map<std::string, double> validation;  // of the weights that were kept; may be empty
  std::optional<double> baseline_rmse;       // user and film offsets alone, on the test split
  double elapsed_s = 0;
  double predicted_iteration_s = 0;
  double measured_iteration_s = 0;
  double executor_overhead = 0;  // share of the ranks' CPU time that is outside operators
  double action_s = 0;           // CPU time outside operators per action
  int ranks = 0;
  int cores = 0;
  std::vector<StageReport> stages;
  std::optional<EmulationReport> emulation;  // of `train --emulate`, which has no metrics
};

// Any of them; monostate where a line is none.
using TrainLine =
    std::variant<std::monostate, IterationLine, EmulatedIterationLine, EvaluationLine, DoneLine>;
TrainLine parse_train_line(const std::string& line);

// Without the end of the line.
std::string to_json_line(const IterationLine& line);
std::string to_json_line(const EmulatedIterationLine& line);
std::string to_json_line(const EvaluationLine& line);
// Metrics stand under "metrics" and at top level too, where no other field has their name.
std::string to_json_line(const DoneLine& line);
// An elastic run goes on with other ranks. `checkpoint`: "": from the beginning.
std::string restart_line(const std::string& why, int ranks, const std::string& checkpoint);

}  // namespace graphpipe
