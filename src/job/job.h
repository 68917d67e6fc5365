// What a launched run is asked to do: the job folder that `graphpipe` writes and
// `graphpipe-worker` reads. Without libtorch, so that both sides include it.
//
// The folder holds job.json, graph.json, and for training and emulation plan.json, cluster.json
// (and profile.json, the costs to predict with; given.safetensors, where the graph has values of
// parameters). While the job runs: port (rank 0's, once
// bound, where ranks find one another through the folder), status.R (one per rank, a fixed-size
// memory map: what the rank is doing), fault.R (a rank's own account of why it failed). A "profile"
// job leaves its result as profile.json.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "job/learning_rate.h"
#include "plan/plan.h"

namespace graphpipe {

// How messages go between ranks.
enum class TransportKind {
  kAuto,  // through memory between ranks that share a machine, over Gloo between others
  kGloo,  // over Gloo's sockets in any case
};
std::string_view transport_name(TransportKind kind);                  // "auto", "gloo"
std::optional<TransportKind> parse_transport(std::string_view name);  // none: unknown

// What happens where the loss or a gradient of a step is no number.
enum class OnNan {
  kStop,  // the run fails
  kSkip,  // no rank takes the step
};
std::string_view on_nan_name(OnNan what);                  // "stop", "skip"
std::optional<OnNan> parse_on_nan(std::string_view name);  // none: unknown

enum class CheckpointMode {
  kCoordinated,  // of one iteration on all ranks, published when all have written theirs
  kPerStage,     // each rank for itself, at the ends of epochs
};
std::string_view checkpoint_mode_name(CheckpointMode mode);  // "coordinated", "per-stage"
std::optional<CheckpointMode> parse_checkpoint_mode(std::string_view name);  // none: unknown

struct CheckpointOptions {
  std::string folder;      // where they go; "": none are written
  std::int64_t every = 0;  // iterations, and at the end of the run
  std::int64_t keep = 3;   // the newest; 0: all
  CheckpointMode mode = CheckpointMode::kCoordinated;
  std::string resume;  // the one to go on from, in the folder; "": from the beginning
  friend bool operator==(const CheckpointOptions&, const CheckpointOptions&) = default;
};

struct TrainOptions {
  std::string data;             // built-in set or folder
  std::int64_t iterations = 0;  // 0: by epochs
  std::int64_t epochs = 0;      // 0: by iterations; both 0: until validation stops improving
  std::int64_t patience = 3;    // evaluations without improvement before stopping; 0: never
  std::int64_t eval_every = 0;  // iterations; 0: every epoch
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double learning_rate = 0.1;
  double momentum = 0;
  RateSchedule rate_schedule;  // how the learning rate changes, in steps
  double weight_decay = 0;
  double clip = 0;              // largest norm of the gradients; 0: as large as they are
  std::int64_t accumulate = 1;  // mini-batches whose gradients are added before a step
  std::uint64_t seed = 1;
  DType floating = DType::kFloat32;
  std::int64_t log_every = 1;
  double timeout_s = 60;  // of any wait for a peer
  TransportKind transport = TransportKind::kAuto;
  std::string trace_path;     // of the last iteration, measured; "": none
  bool save_weights = false;  // each rank leaves those that it holds as weights.R.safetensors
  CheckpointOptions checkpoint;
  OnNan on_nan = OnNan::kStop;
  double heartbeat_s = 30;  // a rank that has given no sign of life for so long is lost; 0: never
  friend bool operator==(const TrainOptions&, const TrainOptions&) = default;
};

// Of the optimiser's step `step`, from 0; a step is an iteration unless they are accumulated.
double learning_rate_at(const TrainOptions& options, std::int64_t step);

// How the ranks of a job find one another. Rank 0 has a store, through which the others learn where
// each of them listens.
struct Rendezvous {
  enum class Way {
    kFolder,  // rank 0 binds a free port and publishes it in the job folder, which all share
    kFixed,   // the store is at host:port, where rank 0 binds it
    kOutput,  // rank 0 binds a free port and says so in a line of its output: {"rendezvous": ...};
              // whoever reads it tells the others, for whom it is fixed
    kAgent,   // torchrun's own store is at host:port; rank 0 binds a free port and publishes there
  };
  Way way = Way::kFolder;
  std::string host;
  int port = 0;
  std::string address = "127.0.0.1";  // numeric: where this rank listens, and no other
  std::string token;                  // that every connection begins with
  std::string run;                    // tells runs apart that share a store
  friend bool operator==(const Rendezvous&, const Rendezvous&) = default;
};
std::string_view way_name(Rendezvous::Way way);                   // "folder", "fixed", ...
std::optional<Rendezvous::Way> parse_way(std::string_view name);  // none: unknown
// Of ranks that this process starts: through the folder, with a token that nobody else knows.
Rendezvous local_rendezvous();

struct Job {
  std::string kind;                           // "train", "emulate", "profile"
  std::string folder;                         // where the files are; not one of job.json's fields
  TrainOptions train;                         // kinds "train" and "emulate", which needs no data
  std::vector<std::int64_t> profile_samples;  // kind "profile"
  int profile_repeats = 5;
  int profile_load = 1;        // how many workers measure at the same time
  std::string profile_cache;   // folder of what was measured before; "": none is kept
  bool profile_fresh = false;  // measures what is there too
  std::string model;           // the MODEL argument
  Rendezvous rendezvous;
  friend bool operator==(const Job&, const Job&) = default;
};

// Invariants, checked on reading:
//   J1  the kind is "train", "emulate" or "profile"; counts are not negative, rates finite; a
//       step has at least one mini-batch
//   J2  a training job that runs until validation stops improving has patience; one that
//       emulates has iterations
//   J3  a profile job has sample counts, ascending, at least one repeat and one worker
//   J4  a job that writes checkpoints has a number of iterations between them
// Throw InputError where a file is missing or wrong.
Job read_job(const std::string& folder);
void write_job(const Job& job);

// What a training job runs, beside job.json in the same folder.
struct JobInputs {
  Plan plan;
  Graph graph;
  Cluster cluster;
};
void write_job_inputs(const std::string& folder, const JobInputs& inputs);
JobInputs read_job_inputs(const std::string& folder);  // validated
// The graph alone: what a profile job measures.
void write_job_graph(const std::string& folder, const Graph& graph);
Graph read_job_graph(const std::string& folder);

// Whether ranks are threads of one worker process: where time is only modelled, they need no
// cores, unless their messages are to go over Gloo.
bool ranks_are_threads(const Job& job);
// Processes of a job: ranks of the plan's schedule, or the workers that measure.
int worker_count(const Job& job, const Plan& plan);

std::string profile_result_path(const std::string& folder);
std::string saved_weights_path(const std::string& folder, int rank);

}  // namespace graphpipe
