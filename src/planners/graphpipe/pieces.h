// The series-parallel tree as the search walks it: lines of items, an item being an
// operator (in very long lines a few) or a parallel piece whose branches are lines again.
//
//     x -> [a -> b | c -> d] -> concat     line 0: x, parallel 0, concat
//                                          line 1: a, b    line 2: c, d
//
// Operators are numbered by *position*: along the root line, branch after branch. So a
// run of a line's items is a range of positions, and equal lines differ by a shift.

#pragma once

#include <cstdint>
#include <vector>

#include "graph/series_parallel.h"
#include "plan/stage_memory.h"
#include "planners/cost_table.h"

namespace graphpipe {

// Positions [begin, end).
struct Span {
  int begin = 0;
  int end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

struct Line {
  struct Item {
    int parallel = -1;  // -1: operators, one after the other; more than one in long lines
    int operators = 0;
  };
  std::vector<Item> items;
  std::vector<int> start;  // [item]: its first position; one more for the line's end
  std::vector<int> reach;  // [item]: operators on the longest path through the items before;
                           // one more for the line's end
  int parent = -1;         // the line that it is a branch in, and the item there
  int parent_item = -1;
  int line_class = -1;

  int size() const { return static_cast<int>(items.size()); }
  Span span(int from, int to) const {
    return {start[static_cast<std::size_t>(from)], start[static_cast<std::size_t>(to)]};
  }
};

struct ParallelPiece {
  std::vector<int> branches;  // lines, by position
  // Branches of one class are equal in structure and costs.
  std::vector<int> classes;       // distinct line classes of the branches, by first branch
  std::vector<int> class_size;    // [index in classes]: how many branches have it
  std::vector<int> branch_class;  // [branch]: index in classes
};

// What a tensor is to stages: bytes = constant + per sample.
struct TensorSize {
  std::int64_t per_sample_bytes = 0;
  std::int64_t constant_bytes = 0;
  bool gradient = false;     // one flows back into it
  bool stays = true;         // to the backward of what makes it; else only if it leaves a stage
  int producer = -1;         // position; -1: an input of the graph
  int consumers = 0;         // operators that read it
  std::int64_t between = 0;  // sum of their TensorUse::between
};

// An operator reads a tensor. `between` bounds how many stages can lie on a path between
// the stage that makes it and the stage that reads it.
struct TensorUse {
  int tensor = 0;
  int between = 0;
};

struct PositionInfo {
  OpId op;
  std::vector<TensorUse> inputs;  // distinct
  std::vector<int> outputs;       // tensors
  std::vector<int> params;        // distinct
};

struct Pieces {
  std::vector<PositionInfo> positions;
  std::vector<TensorSize> tensors;
  std::vector<ParamMemory> params;
  std::vector<int> param_holders;  // [parameter]: positions that hold it
  std::vector<Line> lines;         // 0 is the root; a branch's line comes after the line it is in
  std::vector<ParallelPiece> parallels;
  std::vector<int> class_line;  // [line class]: its first line, which stands for all

  const Line& line(int i) const { return lines[static_cast<std::size_t>(i)]; }
  const ParallelPiece& parallel(int i) const { return parallels[static_cast<std::size_t>(i)]; }
};

// With `through_residuals`, a parallel piece with one branch that is not empty counts as
// that branch alone: a residual's detour is cut like any other run, and the tensor that
// skips it crosses as well.
Pieces make_pieces(CostTable& table, const SpTree& tree, bool through_residuals);

}  // namespace graphpipe
