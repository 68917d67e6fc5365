// Piper's partition: stages are differences of nested downsets, each with its data- and
// tensor-parallel degree and, per operator, with or without recomputation (Tarnawski et al.,
// NeurIPS 2021).
//
// Symbols as there:
//   d, t  data- and tensor-parallel degree of a stage     K  devices     N  micro-batches
//   A, B  memory of an operator is A y + B                y  micro-batches in flight
//   TPS   time per sample (here: micro-batch) of a stage; the objective is the largest
//
//   TPS(S, d, t) = sum over S of p(t) / d + ( 2 / d * bytes over the border of S
//                  + 4 (d - 1) / d * parameters(t) / N ) / bandwidth
//   y = ceil( sum of d over S and all later stages / d ),  d divides N,  sum of d t <= K
//
// Departs from the public code: it searches for the least target that can be met, and the table
// holds the least devices for a downset and at most s replicas; so it is smaller by a factor K.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/progress.h"

namespace graphpipe {

// An operator at one degree: as it is, and with recomputation (equal where there is none).
struct PiperCost {
  double seconds = 0;
  double parameter_bytes = 0;
  double a_bytes = 0;
  double b_bytes = 0;
  double recompute_seconds = 0;
  double recompute_a_bytes = 0;
  double recompute_b_bytes = 0;
};

// Edges are paid one by one, also where they carry the same tensor.
struct PiperLink {
  int from = 0;
  int to = 0;
  double bytes = 0;
  std::vector<double> to_sync_bytes;    // [degree]: more, where `to` runs with that degree
  std::vector<double> from_sync_bytes;  // [degree]
};

struct PiperInstance {
  int devices = 1;
  double memory_bytes = 0;
  double bandwidth_bytes_per_s = 1;
  std::int64_t micro_batches = 1;  // N
  int most_data_degree = 1 << 20;
  std::vector<int> degrees;                 // t, ascending
  std::vector<std::vector<PiperCost>> ops;  // [op][degree]
  std::vector<PiperLink> links;             // of an acyclic graph
};

struct PiperLimits {
  std::size_t downsets = 40'000;
  std::int64_t pairs = 40'000'000;  // of nested downsets; 4 bytes each are held
  double precision = 1e-6;          // of the target
  std::function<bool()> should_stop = {};
  Progress progress = {};  // from when the downsets are listed
};

struct PiperStage {
  std::vector<int> ops;  // ascending
  int data_degree = 1;
  int tensor_degree = 1;
  std::vector<bool> recompute;  // [place in ops]
};

enum class PiperOutcome { kFound, kNoPartition, kTooManyDownsets, kTooManyPairs, kStopped };

struct PiperPartition {
  PiperOutcome outcome = PiperOutcome::kNoPartition;
  double tps_s = 0;                // of the slowest stage
  std::vector<PiperStage> stages;  // in the order of the pipeline
  std::size_t downsets = 0;        // met; more than the limit where there are too many
  std::int64_t pairs = 0;
};

// Exact but for two things: of a stage's operators those that recompute are chosen greedily by
// seconds a byte saved, as the public code does, and the target is met within `precision`.
PiperPartition partition_piper(const PiperInstance& instance, const PiperLimits& limits);

}  // namespace graphpipe
