// Measures the operators of a graph on this machine: the Profile that plans and predictions
// are made with.
//
// Seconds are CPU time of the rank's thread, not clock time: `load` workers measure at the
// same time, so caches and memory bandwidth are shared as they will be in the run, but who
// else had the core meanwhile makes no difference. A Profile holds wall times under its
// load; where more ranks measure than there are cores, CPU times are put down as the wall
// times of ranks that take turns evenly (times load / cores), which is what ProfiledCosts
// takes out again.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/progress.h"
#include "cost/profile.h"
#include "graph/graph.h"
#include "runtime/transport/transport.h"

namespace graphpipe {

// "libtorch 1.13.1, OpenBLAS 0.3.21 ...": what operators are computed by.
std::string library_name();

struct ProfileOptions {
  std::string model;                  // the MODEL argument, for the profile
  std::vector<std::int64_t> samples;  // ascending
  int repeats = 5;                    // of which the median is taken
  double least_s = 0.001;             // of one measurement, repeated to get there
  std::string cache = "";             // folder of what was measured before; "": all is measured
  bool fresh = false;                 // measures what the cache has too
  // Told by rank 0 how many of the points were there before; may be empty.
  std::function<void(std::int64_t known, std::int64_t all)> on_known = {};
};

// The operator that stands for each signature: the one with the most gradients to compute;
// of several, the first.
std::map<std::string, OpId> representatives(const Graph& graph);

// Measures every distinct operator signature once per sample count, forward and backward,
// with random inputs, on every rank at the same time; messages between ranks 0 and 1; and
// what the executor takes per task. Figures are means over the ranks. An operator that
// fails is recorded with its message, and the rest goes on. Points that the cache has are taken
// from there, and new ones are put there. `progress` is told what is measured next on this rank,
// and the part that is behind. Collective; the same on every rank.
// Requires: install_counting_allocator().
Profile measure_profile(const Graph& graph, const ProfileOptions& options, Transport& transport,
                        const PhaseProgress& progress);

// The one in the middle. Requires: there are some.
double median(std::vector<double> values);

// One operator at one sample count, on this thread, in CPU time. Throws what the library
// throws.
ProfilePoint measure_op(const Graph& graph, OpId op, std::int64_t samples, int repeats,
                        double least_s);

// The line t = latency + bytes / bandwidth through measured one-way times, by least squares
// of the relative error. Neither is below 0; a slope of 0 gives bandwidth 0 (not known).
struct TransferLine {
  double latency_s = 0;
  double bytes_per_s = 0;
  double residual = 0;  // root of the mean square of the relative errors
};
struct TransferTime {
  double bytes = 0;
  double seconds = 0;  // positive
};
TransferLine fit_transfer_line(const std::vector<TransferTime>& times);

// Times messages of several sizes between ranks 0 and 1; others return at once, with
// zeros, as does a transport of one rank. Collective for ranks 0 and 1.
TransferLine measure_transfers(Transport& transport, int repeats);

}  // namespace graphpipe
