// PipeDream's profiles ("graph.txt"): a line a node, then a line an edge.
//
//   node4 -- Linear(in_features=8, ...) -- forward_compute_time=1.5, backward_compute_time=3.0,
//       activation_size=4096.0, parameter_size=[8; 16][ -- stage_id=0]      (one line)
//   <TAB>node3 -- node4

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct PipedreamNode {
  std::string id;
  std::string description;
  double forward_ms = 0;  // per mini-batch of the profiler
  double backward_ms = 0;
  double activation_bytes = 0;  // of its output; a list is summed
  double parameter_bytes = 0;
};

struct PipedreamProfile {
  std::vector<PipedreamNode> nodes;                        // in the order of the file
  std::vector<std::pair<std::size_t, std::size_t>> edges;  // without repeats
};

// Throws InputError("FILE:LINE", ...): a line that is neither, an unknown or repeated node, a
// figure that is negative, not finite or absurd, a cycle (then without a line), a file too large.
PipedreamProfile parse_pipedream(std::string_view text, const std::string& file);

// As PipeDream's optimiser does: without the sources whose description begins with "Input" (their
// time is that of loading data), then without the sinks that are "__getitem__" (once).
PipedreamProfile without_inputs(const PipedreamProfile& profile);

// `seconds_per_unit` 1e-3 is what PipeDream writes.
Graph pipedream_graph(const PipedreamProfile& profile, const std::string& name,
                      const std::string& file, double seconds_per_unit = 1e-3);

}  // namespace graphpipe
