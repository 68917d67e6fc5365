// A folder of checkpoints: "iteration-000000000120" and so on, each whole or of no account.
//
// Coordinated: every rank writes its files and its part of the manifest into
// "partial-iteration-000000000120"; when all parts are there, rank 0 writes the manifest and
// renames the folder. Ranks meet through these files alone. Per stage (PipeDream, section 4 of
// Narayanan et al., SOSP 2019): every rank writes into "iteration-000000000120" by itself, its part
// last; the checkpoint counts once it has the parts of all.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job/checkpoint/checkpoint.h"
#include "job/checkpoint/durable_files.h"

namespace graphpipe {

struct FoundCheckpoint {
  std::string path;
  std::int64_t iteration = 0;
  bool complete = false;
};
// The newest first; none where the folder is not there.
std::vector<FoundCheckpoint> list_checkpoints(const std::string& folder);
// Path of the newest that is complete. Throws InputError(where, ...) where there is none.
std::string newest_checkpoint(const std::string& folder, const std::string& where);
// Throws InputError(where, ...) where the folder has a checkpoint already: runs do not mix.
void check_no_checkpoint(const std::string& folder, const std::string& where);

// Throws InputError where it is not complete, or its parts are not of one run.
CheckpointManifest read_manifest(const std::string& checkpoint);

// Of the parameters marked in `wanted`, each of which is there. `replica_of_rank`: whose own
// statistics to take, where the plan is the one of the checkpoint; -1: the first holder's. Throws
// InputError(FILE, ...) that says what is wrong with it and what to do, where one is missing, not
// of its length, or not the bytes that were written.
TrainingState read_state(const std::string& checkpoint, const CheckpointManifest& manifest,
                         const Graph& graph, const std::vector<bool>& wanted, int replica_of_rank);

// What one rank writes.
struct RankState {
  TrainingState first;    // of the parameters of which it is the first holder
  TrainingState replica;  // of its own statistics, where it is another; without optimiser
};

class CheckpointFolder {
 public:
  CheckpointFolder(const CheckpointOptions& options, int rank, int ranks,
                   DurableFiles files = DurableFiles());
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // On rank 0, before any rank writes: makes the folder, takes it for this process (InputError
  // where another run has it), and removes what a run that ended within a save has left.
  void claim();

  // Writes this rank's part of a checkpoint, and where the mode asks for it waits for the others'
  // (rank 0) until `stopped`, publishes, and removes those beyond the newest `keep`. `manifest`:
  // without files. Throws RunError.
  void write(CheckpointManifest manifest, const RankState& state,
             const std::function<bool()>& stopped);

 private:
  void write_files(const std::string& into, CheckpointManifest& manifest, const RankState& state);
  bool wait_for_parts(const std::string& in, const std::function<bool()>& stopped) const;
  void publish(const std::string& partial, const std::string& path);
  void prune();

  CheckpointOptions options_;
  int rank_;
  int ranks_;
  DurableFiles files_;
  int lock_ = -1;
};

// What a run that failed has left in the folder, unless another run has it. Errors are ignored.
void remove_partial_checkpoints(const std::string& folder);

}  // namespace graphpipe
