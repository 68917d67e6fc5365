// A model of a thousand operators as the few boxes that a picture of a plan has room for.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace graphpipe {

struct ModelPiece {
  StageId stage = {};
  std::string branch;     // what its operators' names have in common: "branch0"; "" of the trunk
  std::vector<OpId> ops;  // ascending
};

struct PieceEdge {
  int from = 0;  // pieces
  int to = 0;
  std::int64_t bytes = 0;  // of a sample, tensors that several operators read counted once
};

struct ModelPieces {
  std::vector<ModelPiece> pieces;  // by stage, then by first operator
  std::vector<PieceEdge> edges;    // by ends
};

// Operators of one stage in one branch of the graph's series-parallel tree are a piece; one piece
// a stage where that would be more than `most`.
ModelPieces model_pieces(const Plan& plan, const Graph& graph, int most = 400);

}  // namespace graphpipe
