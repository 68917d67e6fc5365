// What a checkpoint is: the state of training between two iterations, by the names of parameters,
// and a manifest that says of what run it is. Nothing in it depends on how the model is cut into
// stages, so that another plan may go on from it (docs/formats.md has the files).

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/weights.h"
#include "job/job.h"
#include "plan/plan.h"

namespace graphpipe {

// Of some of a model's parameters.
struct TrainingState {
  Weights weights;    // by parameter
  Weights optimizer;  // "PARAMETER.momentum_buffer", ".exp_avg", ".exp_avg_sq", ".step"
  Weights best;       // weights of the best evaluation so far; empty where none is kept
};

// Where the training loop is.
struct TrainProgress {
  std::int64_t iteration = 0;  // the next; so many are done
  std::int64_t evaluations = 0;
  std::int64_t without_improvement = 0;
  std::optional<double> best_loss = {};  // none: not evaluated yet
  std::map<std::string, double> best_validation;
  std::map<std::string, double> last_validation;
  std::int64_t skipped = 0;  // steps that were skipped for gradients that are no numbers
  friend bool operator==(const TrainProgress&, const TrainProgress&) = default;
};

enum class CheckpointPart {
  kWeights,    // model-*.safetensors
  kOptimizer,  // optimizer-*.safetensors
  kBest,       // best-*.safetensors
  // What only this rank's replica of a stage has: its batch norms' running statistics.
  kReplica,      // replica-*.safetensors
  kReplicaBest,  // replica-best-*.safetensors
};

struct CheckpointFile {
  std::string name;
  CheckpointPart part = CheckpointPart::kWeights;
  int rank = 0;  // that wrote it
  std::int64_t bytes = 0;
  std::uint64_t hash = 0;            // hash_bytes() of them
  std::vector<std::string> tensors;  // their names, ascending
  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

struct CheckpointManifest {
  CheckpointMode mode = CheckpointMode::kCoordinated;
  TrainProgress progress;
  double epoch = 0;           // passes over the training split
  std::int64_t position = 0;  // mini-batches done of the epoch under way
  std::string data;
  std::int64_t samples = 0;  // of the data set
  std::string model;
  std::uint64_t graph_hash = 0;
  std::uint64_t plan_hash = 0;
  std::string plan;  // its file form; for people and tools, not read to resume
  std::int64_t mini_batch = 0;
  int ranks = 0;
  TrainOptions train;  // seed, floating and what the optimiser does; the rest is not kept
  std::vector<CheckpointFile> files;
};

// Whose they are: [parameter], the ranks that hold it, ascending. The first writes it; of a batch
// norm's running statistics, which replicas have each for themselves, every other one too.
std::vector<std::vector<int>> parameter_holders(const Plan& plan, const Graph& graph);

// What a run is, as its checkpoints say it; without progress and files.
CheckpointManifest describe_run(const Plan& plan, const Graph& graph, const TrainOptions& train,
                                std::int64_t samples, const std::string& data);

// Throws InputError(where, ...) naming what tells the run that made the checkpoint from `now`,
// where it must not differ: model, mini-batch, data, seed, number type, optimiser, mini-batches a
// step. Returns a sentence for each other difference that changes how training goes on.
std::vector<std::string> check_resumable(const CheckpointManifest& made,
                                         const CheckpointManifest& now, const std::string& where);

// The file forms of a manifest: a whole one, and a rank's part of one.
std::string to_json(const CheckpointManifest& manifest, bool whole);
CheckpointManifest parse_checkpoint(std::string_view json, const std::string& file, bool whole);
// Which file has which weights, as other tools look it up.
std::string weight_index_json(const CheckpointManifest& manifest);

}  // namespace graphpipe
