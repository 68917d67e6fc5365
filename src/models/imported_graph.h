// What the importers of planners' input files share: a graph of opaque operators, whose costs
// are their attributes. A sample of such a graph is one profiled micro-batch.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "graph/graph.h"

namespace graphpipe {

// Beyond these a file is refused.
inline constexpr std::size_t kMostImportedBytes = std::size_t{64} << 20;  // of the file
inline constexpr std::size_t kMostImportedNodes = 20'000;
inline constexpr std::size_t kMostImportedEdges = 400'000;
inline constexpr double kMostImportedSeconds = 1e6;
inline constexpr double kMostImportedFigure = 0x1p41;  // bytes of a tensor, parameter, state

struct ImportedOp {
  std::string name;
  double forward_s = 0;
  double backward_s = 0;
  double saved_bytes = 0;   // kept for the backward, beyond inputs and outputs
  double params_bytes = 0;  // trained
  double fixed_bytes = 0;   // on the device all the time, without a gradient
};

struct ImportedTensor {
  std::size_t producer = 0;
  std::vector<std::size_t> consumers;  // without repeats
  double bytes = 0;
};

struct ImportedGraph {
  std::string name;
  std::vector<ImportedOp> ops;
  std::vector<ImportedTensor> tensors;
};

// The same as a Graph: operators sorted into an order in which they can run (ties: as they
// stand), sources read one input tensor of a number, every sink is a loss, and operators
// from which others depend on nothing trained hold one number, so that backwards are never left
// out. Throws InputError(where, ...) where there is a cycle, or no operator.
Graph opaque_graph(const ImportedGraph& imported, const std::string& where);

// Whether the graph stands for an imported profile.
bool is_imported(const Graph& graph);

// What users of an imported graph should know: what a sample is, and that seconds and bytes do
// not seem to go together, where compute takes an absurd multiple of what the tensors take over
// a link of 100 Gb/s. Empty for others.
std::vector<std::string> import_notes(const Graph& graph);

// A number from 0 to `most`; throws InputError where it is none.
double figure(const JsonReader& json, double most);

}  // namespace graphpipe
