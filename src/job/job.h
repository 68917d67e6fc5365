// What a launched run is asked to do: the job folder that `graphpipe` writes and
// `graphpipe-worker` reads. Without libtorch, so that both sides include it.
//
// The folder holds job.json, plan.json, graph.json, cluster.json (and profile.json), and
// while it runs port (rank 0's, once bound), status.R (one per rank, a fixed-size memory
// map: what the rank is doing) and fault.R (a rank's own account of why it failed).

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace graphpipe {

struct TrainOptions {
  std::string data;               // built-in set or folder
  std::int64_t iterations = 0;    // 0: by epochs
  std::int64_t epochs = 0;        // 0: by iterations; both 0: until validation stops improving
  std::int64_t patience = 3;      // evaluations without improvement before stopping; 0: never
  std::int64_t eval_every = 0;    // iterations; 0: every epoch
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double learning_rate = 0.1;
  double momentum = 0;
  double weight_decay = 0;
  std::uint64_t seed = 1;
  DType floating = DType::kFloat32;
  std::int64_t log_every = 1;
  double timeout_s = 60;          // of any wait for a peer
  std::string trace_path;         // of the last iteration, measured; "": none
};

struct Job {
  std::string kind;               // "train", "profile"
  std::string folder;
  TrainOptions train;
  std::vector<std::int64_t> profile_samples;  // kind "profile"
  int profile_repeats = 5;
  int profile_load = 1;           // how many workers measure at the same time
  std::string model;              // the MODEL argument
};

// Throw InputError where a file is missing or wrong.
Job read_job(const std::string& folder);
void write_job(const Job& job);

}  // namespace graphpipe
