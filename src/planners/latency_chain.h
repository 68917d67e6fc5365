// The chain whose iteration is shortest: what DAPPLE and Alpa's inter-operator pass search for.
//
//   latency = sum over stages of (forward + backward + transfers)            fill and drain
//             + (M - 1) * the largest of them                                steady state
//             + what is left of gradient reductions behind the last backward
//
// M micro-batches. For each bound on the largest stage a dynamic program over the blocks of a
// chain, from the front, with the devices that are used.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/progress.h"

namespace graphpipe {

struct LatencyChain {
  int blocks = 0;
  int devices = 1;
  std::int64_t micro_batches = 1;
  std::vector<int> widths;  // that a stage may have, ascending
  // Of blocks [i, j) on `width` devices.
  struct Stage {
    double forward_s = 0;
    double backward_s = 0;
    double transfer_s = 0;  // to it, forward and backward
    double reduce_s = 0;    // gradients, once
    bool fits = true;
  };
  std::function<Stage(int i, int j, int width)> stage;
  bool all_devices = false;  // use every one (Alpa) or at most so many (DAPPLE)
  std::function<bool()> should_stop = {};
  Progress progress = {};
};

struct LatencyCut {
  int end = 0;  // blocks up to here
  int width = 1;
};

struct LatencyPartition {
  double latency_s = 0;
  std::vector<LatencyCut> stages;
};

// The best few that differ, the shortest first; empty: nothing fits, or it was stopped. The bounds
// tried are `bounds` of the stages' times, spread evenly over their ranks.
// O(bounds x blocks^2 x widths x devices).
std::vector<LatencyPartition> shortest_chains(const LatencyChain& chain, int bounds);

}  // namespace graphpipe
