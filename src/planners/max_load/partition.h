// The partition of least largest load over nested downsets: optimal among contiguous ones
// (Tarnawski et al., NeurIPS 2020).
//
//   load(S) on an accelerator = sum over S of its seconds + sum over the tensors that cross the
//       border of S, in or out, of their seconds, each tensor once;  infinite beyond the memory
//   load(S) on a CPU = sum over S of the CPU's seconds

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/progress.h"

namespace graphpipe {

struct MaxLoadOp {
  double accelerator_s = 0;  // forward and backward
  double cpu_s = 0;
  double bytes = 0;
  bool on_accelerator = true;
};

struct MaxLoadTensor {
  std::vector<int> ops;  // its producer and its consumers, gradients likewise
  double seconds = 0;
};

struct MaxLoadInstance {
  int accelerators = 1;
  int cpus = 0;
  double accelerator_bytes = 0;
  std::vector<MaxLoadOp> ops;
  std::vector<std::vector<int>> successors;  // of the forward graph, acyclic
  std::vector<MaxLoadTensor> tensors;
};

struct MaxLoadLimits {
  std::size_t downsets = 60'000;
  std::int64_t pairs = 100'000'000;
  std::function<bool()> should_stop = {};
  Progress progress = {};  // from when the downsets are listed
};

struct MaxLoadStage {
  std::vector<int> ops;  // ascending
  bool on_cpu = false;
};

enum class MaxLoadOutcome { kFound, kNoPartition, kTooManyDownsets, kTooManyPairs, kStopped };

struct MaxLoadPartition {
  MaxLoadOutcome outcome = MaxLoadOutcome::kNoPartition;
  double load_s = 0;
  std::vector<MaxLoadStage> stages;  // in order; one a device
  std::size_t downsets = 0;
  std::int64_t pairs = 0;  // looked at
};

// Exact. O(pairs of nested downsets x (tensors that cross a border + devices)) time, O(downsets x
// devices) memory.
MaxLoadPartition partition_max_load(const MaxLoadInstance& instance, const MaxLoadLimits& limits);

}  // namespace graphpipe
