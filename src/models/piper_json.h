// Piper's planner input: nodes with alternatives of time and memory for each tensor-parallel
// degree, edges with bytes per micro-batch, and the devices. Ids stand as they do in the file.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "graph/graph.h"

namespace graphpipe {

// Time, memory and parallelism configuration of a node at a tensor-parallel degree.
struct PiperConfig {
  std::string id;
  double seconds = 0;                           // forward and backward of a micro-batch
  double parameter_bytes = 0;                   // per device
  double memory_a = 0;                          // bytes a micro-batch in flight
  double memory_b = 0;                          // bytes
  std::map<std::size_t, double> sync_fw_bytes;  // by predecessor (place in `nodes`)
  std::map<std::size_t, double> sync_bw_bytes;  // by successor
};

struct PiperNode {
  std::string name;
  std::map<int, std::vector<PiperConfig>> configs;  // by tensor-parallel degree; at most 2 each
};

struct PiperEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  double bytes = 0;  // per micro-batch
};

struct PiperFile {
  int devices = 1;
  double memory_bytes = 0;
  double bandwidth_bytes_per_s = 0;
  std::int64_t micro_batches = 1;
  std::vector<PiperNode> nodes;
  std::vector<PiperEdge> edges;
};

bool is_piper(const Json& document);

// Throws InputError("FILE: /nodes/3/TMPCs/1", ...). `seconds_per_unit` is that of timePerSample
// (1 by the format; 1e-3 for files that hold milliseconds).
PiperFile parse_piper(const Json& document, const std::string& file, double seconds_per_unit = 1);

// By degree 1: forward and backward are told apart by what recomputation adds, or else as 1 to 2;
// one tensor for all edges of a node that carry as many bytes.
Graph piper_graph(const PiperFile& piper, const std::string& name, const std::string& file);

}  // namespace graphpipe
