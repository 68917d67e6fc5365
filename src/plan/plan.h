// A plan: which stage runs which operators on which devices, with which micro-batch
// size and how many samples in flight. It is all that a Schedule is built from;
// nothing that runs re-derives any of it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "cluster/cluster.h"
#include "graph/graph.h"

namespace graphpipe {

enum class Replication {
  kSplit,       // each micro-batch's samples are divided over the stage's devices
  kRoundRobin,  // whole micro-batches go to the devices in turn
};

// A stage is <convex subgraph, micro-batch size, devices, schedule>.
struct Stage {
  std::vector<OpId> ops;          // ascending
  std::vector<DeviceId> devices;  // replica k runs on devices[k]
  Replication replication = Replication::kSplit;
  std::int64_t micro_batch = 1;        // b: samples per task
  std::int64_t in_flight_samples = 1;  // I: samples started forward and not yet done
                                       // backward, at most; free plan data
  int kfkb = 1;                        // k: forwards, and backwards, in a row
  bool recompute = false;  // keeps its inputs alone and runs the forward again right before
                           // the backward; nothing to a stage without a backward
  friend bool operator==(const Stage&, const Stage&) = default;
};

enum class EdgeKind {
  kData,   // tensors cross
  kOrder,  // imposed: carries nothing, orders the same sample ranges
};

struct StageEdge {
  StageId from;
  StageId to;
  EdgeKind kind = EdgeKind::kData;
  std::vector<TensorId> tensors;  // those that cross, ascending; one message carries all
  bool gradient = false;          // a gradient comes back for at least one of them (for an
                                  // order edge: an empty message comes back)
  friend bool operator==(const StageEdge&, const StageEdge&) = default;
};

enum class ScheduleKind {
  k1F1B,   // warm-up of I samples, then one backward and one forward in turn
  kGpipe,  // all forwards, then all backwards
  kZbH1,   // 1F1B with backwards in halves: of inputs at once, of weights later. In flight
           // counts to the weight half; what it allows beyond least_in_flight() may wait
};

// What a weight update keeps beside the weights and the gradients.
enum class OptimizerKind {
  kSgd,          // 8 bytes a float32 parameter: weight and gradient
  kSgdMomentum,  // 12
  kAdam,         // 16
};

// Which weights a mini-batch's forward and backward use (docs/papers.md). All but the first are
// asynchronous: mini-batches stream through the pipeline without a flush, and each stage steps
// once a mini-batch has come back to it.
enum class WeightPolicy {
  kSynchronous,   // the same everywhere: the pipeline runs dry before each step
  kStash,         // on each stage the newest at the forward, kept until the backward
  kVerticalSync,  // those that the input stages used when the mini-batch entered
  k2bw,           // those of a mini-batch of several micro-batches before; two are kept
  kNaive,         // the newest at the forward, and at the backward the newest then: wrong gradients
};
constexpr bool is_asynchronous(WeightPolicy policy) { return policy != WeightPolicy::kSynchronous; }

// What the planner expected; the simulator's word, kept for reports.
struct PlanEstimate {
  double iteration_s = 0;
  double throughput_samples_per_s = 0;
  double bubble_fraction = 0;
  double lower_bound_s = 0;  // no plan within the options is faster
  double search_s = 0;
  std::vector<double> stage_tps_s;               // [stage]
  std::vector<std::int64_t> stage_memory_bytes;  // [stage]: peak on its fullest device
  friend bool operator==(const PlanEstimate&, const PlanEstimate&) = default;
};

struct Plan {
  std::string model;  // the MODEL argument, by which `train` rebuilds the graph
  std::uint64_t graph_hash = 0;
  std::string planner;
  std::string cluster;          // the CLUSTER argument
  std::string options;          // "none", "dp", ...
  std::string costs;            // CostModel::name()
  std::int64_t mini_batch = 1;  // B
  ScheduleKind schedule = ScheduleKind::k1F1B;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  WeightPolicy weights = WeightPolicy::kSynchronous;
  std::vector<Stage> stages;     // in an order in which they can run
  std::vector<StageEdge> edges;  // sorted by (from, to, kind)
  PlanEstimate estimate;

  const Stage& stage(StageId id) const { return stages[id.index()]; }
  const StageEdge& edge(EdgeId id) const { return edges[id.index()]; }
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Invariants, checked by validate() in this order:
//   P1  every operator of the graph is in exactly one stage, a stage's are ascending, and
//       no stage is without
//   P2  every stage is convex
//   P3  the stage graph (data and order edges) is acyclic, and stages stand in an order
//       in which they can run
//   P4  edges are sorted without repeats; data edges are exactly those that the graph
//       implies, with their tensors and gradient flags; order edges carry no tensor
//   P5  every stage has devices that exist in the cluster, and none twice; a device may be in
//       several stages, whose tasks it then runs in one order
//   P6  1 <= micro-batch <= mini-batch <= 2^26; in flight >= k * micro-batch (or the mini-batch,
//       where that is smaller), <= 2^30, a multiple of the micro-batch where it is below the
//       mini-batch; 1 <= k <= 1024; no more devices than samples in a split micro-batch
//   P7  the graph's hash is the plan's
//   P8  of an asynchronous plan: 1F1B, k = 1, no device in two stages, no recomputation, no shared
//       parameter; replicas in turn have as many micro-batches in flight each, split ones a share
//       each; micro-batches are mini-batches, of 2BW of one size, and as many of them in a
//       mini-batch as a stage has in flight, at least. In flight (P6) has no other bound
// Throws InputError(where + ": /stages/3/ops", "P2: ...") naming the first broken.
void validate(const Plan& plan, const Graph& graph, const Cluster& cluster,
              const std::string& where);

// The data edges that a partition implies, sorted. Tensors that the graph's input
// provides cross no edge: every rank reads them itself. A gradient comes back where an
// operator that reads the tensor passes one on (a metric does not).
std::vector<StageEdge> data_edges(const Graph& graph, const std::vector<Stage>& stages);
// The same for callers that ask often: `needs` is needs_gradient(graph).
std::vector<StageEdge> data_edges(const Graph& graph, const std::vector<bool>& needs,
                                  const std::vector<Stage>& stages);

// Tensors that other stages read of this one, ascending.
std::vector<TensorId> leaving_tensors(const Plan& plan, StageId stage);

// Adds order edges between consecutive stages (by position) where no data joins them:
// the chain that sequential planners assume.
void add_chain_order(Plan& plan);

// Sorts stages into an order in which they can run (ties: the stage with the smallest
// operator first) and rebuilds data edges. Requires: convex stages, acyclic.
void canonicalise(Plan& plan, const Graph& graph);
void canonicalise(Plan& plan, const Graph& graph, const std::vector<bool>& needs);

// Stages on the longest path (data and order edges). Requires: acyclic.
int pipeline_depth(const Plan& plan);

// Samples that a schedule runs over: the mini-batch; of an asynchronous plan, for the simulator
// and the verifier, a stream of them that is long enough to show the steady state.
std::int64_t schedule_samples(const Plan& plan);

// How many samples a stage may have in flight.
std::int64_t most_in_flight(const Plan& plan);

// Least in-flight samples by the rule of docs/papers.md, from the sinks backwards over
// data and order edges:
//   I(sink) = g(sink);  I(s) = roundup to b(s) of
//   max over successors j of [ I(j) + max(g(s), b(j)) + max(0, b(s) - g(j)) ],  g = k b
// with b d for b and k b d for g on a round-robin stage of d devices. Capped at
// most_in_flight(). An estimate: in-flight counts are free plan data.
std::vector<std::int64_t> least_in_flight(const Plan& plan);

// [stage]: samples started forward before the first backward, at most: those in flight; of
// kind zb-h1 the least in flight, where that is less.
std::vector<std::int64_t> warm_up_samples(const Plan& plan);

// Whether any device is in several stages.
bool shares_devices(const Plan& plan);

// How many devices the plan uses.
int devices_used(const Plan& plan);

// Leaves out cosmetic fields (estimate, planner, names).
std::uint64_t plan_hash(const Plan& plan);

std::string_view schedule_kind_name(ScheduleKind kind);  // "1f1b", "gpipe", "zb-h1"
std::string_view optimizer_name(OptimizerKind kind);     // "sgd", "sgd-momentum", "adam"
// "synchronous", "stash", "vertical-sync", "2bw", "naive"
std::string_view weight_policy_name(WeightPolicy policy);

}  // namespace graphpipe
