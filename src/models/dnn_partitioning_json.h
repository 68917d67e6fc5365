// Training graphs of the dnn-partitioning project (NeurIPS 2020): forward and backward nodes with
// latencies on an accelerator and on a CPU, edges with the time that the source's output takes.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "graph/graph.h"

namespace graphpipe {

struct DnnNode {
  std::string name;
  double accelerator_s = 0;
  double cpu_s = 0;
  double bytes = 0;  // weights and activations
  bool on_accelerator = true;
  bool backward = false;
  std::int64_t color_class = -1;  // nodes of one share a device; -1: alone
};

struct DnnEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  double seconds = 0;  // of the output of `from`, whoever reads it
};

struct DnnFile {
  double accelerator_bytes = 0;
  int accelerators = 1;
  int cpus = 0;
  std::vector<DnnNode> nodes;
  std::vector<DnnEdge> edges;
};

inline constexpr double kDnnLinkBytesPerS = 0x1p31;  // times of edges are for 2 GiB/s

bool is_dnn_partitioning(const Json& document);

// Throws InputError("FILE: /edges/3/cost", ...). Latencies are milliseconds; edges are
// `edge_seconds_per_unit` (1e-3, or 1 for the files that have seconds there).
DnnFile parse_dnn_partitioning(const Json& document, const std::string& file,
                               double edge_seconds_per_unit = 1e-3);

// What must share a device is one group; the groups' forward parts make an acyclic graph. Colour
// classes are joined, a backward class without a forward gets one of no cost with mirrored edges,
// strongly connected ones are fused, and one without forward time goes to its only neighbour.
struct DnnGroup {
  std::vector<std::size_t> nodes;       // of the file, ascending; forward and backward ones
  std::vector<std::size_t> successors;  // groups that the forward part feeds, ascending
};
std::vector<DnnGroup> dnn_groups(const DnnFile& file);

// An operator a group. Gradients are taken to be as large as the tensors forward; the whole size
// is memory that stays, because the file does not tell weights from activations.
Graph dnn_graph(const DnnFile& dnn, const std::string& name, const std::string& file);

}  // namespace graphpipe
