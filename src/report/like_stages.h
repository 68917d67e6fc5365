// Stages that are alike, for tables of large plans.

#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace graphpipe {

// Stages first to last of a plan.
struct StageRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

// The plan's stages in order. A range of several is a chain, each stage the next one's only
// predecessor and with it as its only successor; all have as many operators, bytes of weights and
// devices, one micro-batch size, one kind of replication, take the same time a sample to 1 %, and
// hand on as many bytes. Their samples in flight differ. Requires: time_s[stage], computing time a
// sample.
std::vector<StageRange> like_stages(const Plan& plan, const Graph& graph,
                                    const std::vector<double>& time_s);

// Each stage by itself.
std::vector<StageRange> single_stages(const Plan& plan);

// Of an edge's tensors, a sample.
std::int64_t edge_bytes(const StageEdge& edge, const Graph& graph);

}  // namespace graphpipe
