// PipeDream's partition: the hierarchical dynamic program over the states of a linearised graph
// (Harlap et al. 2018, section 3.2; variant `code` as the public optimiser computes it).
//
// Symbols as there:
//   states  0..n-1: downsets of the operators, growing; a stage is the difference of two
//   T, w    seconds and parameter bytes of a stage; a  bytes of all tensors alive at a cut
//   m       replicas;  B  bandwidth of the level;  M  machines of the level

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace graphpipe {

struct PipedreamStates {
  std::vector<double> compute_s;         // of the state's operators, forward and backward
  std::vector<double> activation_bytes;  // likewise: all their outputs
  std::vector<double> parameter_bytes;
  std::vector<double> cut_bytes;         // alive where the graph is cut behind the state
  std::vector<std::vector<int>> before;  // states inside, ascending; empty vector: all smaller
  std::size_t count() const { return compute_s.size(); }
};

enum class PipedreamVariant {
  kPaper,  // a stage takes max(compute, synchronisation) / m; cuts cost always
  kCode,   // (compute + synchronisation) / m; cuts as `count_activations` has it
};

struct PipedreamLevel {
  int machines = 1;
  double bandwidth_bytes_per_s = 1;
};

struct PipedreamOptions {
  PipedreamVariant variant = PipedreamVariant::kPaper;
  bool count_activations = true;
  bool straight = false;    // no replicas in a stage of a split
  double memory_bytes = 0;  // 0: no limit; else as the code counts it: in-flight copies of
                            // activations and parameters
  std::function<bool()> should_stop = {};
};

struct PipedreamStage {
  int first = 0;  // the stage is state `last` less state `first` - 1 (0: nothing less)
  int last = 0;
  int replicas = 1;
  friend bool operator==(const PipedreamStage&, const PipedreamStage&) = default;
};

struct PipedreamPartition {
  bool found = false;
  double bottleneck_s = 0;             // a mini-batch takes no longer in the steady state
  std::vector<PipedreamStage> stages;  // of the innermost level, in order; replicas are products
                                       // over the levels
  std::int64_t work = 0;               // cells of the tables
};

// `levels` from the inside out. Ties go to fewer, later-cut stages. O(n^3 M^2) for all levels but
// the last, O(n^2 M^2) for that.
PipedreamPartition partition_pipedream(const PipedreamStates& states,
                                       const std::vector<PipedreamLevel>& levels,
                                       const PipedreamOptions& options);

}  // namespace graphpipe
