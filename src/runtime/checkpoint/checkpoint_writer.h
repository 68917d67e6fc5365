// Checkpoints of a training run, from one rank: taken between two iterations (a copy of what the
// rank keeps), and written by a thread while training goes on.

#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/dataset.h"
#include "graph/graph.h"
#include "job/checkpoint/checkpoint_folder.h"
#include "job/job.h"
#include "plan/plan.h"
#include "runtime/rank_trainer.h"

namespace graphpipe {

struct CheckpointRun {
  const TrainOptions& options;  // its checkpoint has a folder
  const Plan& plan;
  const Graph& graph;
  const Dataset& dataset;
  RankTrainer& trainer;
  int rank = 0;
  DurableFiles files = DurableFiles();
};

class CheckpointWriter {
 public:
  // Rank 0 takes the folder (InputError); the others must not save before that.
  explicit CheckpointWriter(const CheckpointRun& run);
  // Ends the thread; a save under way may remain undone.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Where options.checkpoint.resume names a checkpoint: the trainer goes on from it, and the loop
  // from what is returned. Throws InputError where it is not whole, or of another run.
  std::optional<TrainProgress> resume();

  // Whether a checkpoint is due, so many iterations being done and (`is_last`) no more to come.
  bool is_due(std::int64_t iterations, bool is_last) const;
  // Throws RunError where the one that is being written failed.
  void check();
  // Takes it. Waits for the one before to be written; throws RunError where that failed.
  void save(const TrainProgress& progress, std::int64_t iterations_per_epoch);
  // Until all is written, and published. Throws RunError where it failed.
  void finish();

 private:
  struct Task {
    CheckpointManifest manifest;
    RankState state;
  };
  static std::exception_ptr failure(const Task& task, const std::string& cause);
  void write_all();
  void wait_until_written();

  CheckpointRun run_;
  CheckpointFolder folder_;
  CheckpointManifest description_;
  std::vector<bool> held_;     // [parameter]: by this rank
  std::vector<bool> first_;    // ... and by none before it
  std::vector<bool> replica_;  // ... of a replica that has it for itself, and is not the first
  std::int64_t saved_ = 0;     // iterations done at the last one

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Task> task_;
  std::exception_ptr error_;
  bool stopped_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace graphpipe
