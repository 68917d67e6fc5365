// From an entry of a solved line back to its stages.

#pragma once

#include <vector>

#include "planners/graphpipe/line_solver.h"

namespace graphpipe {

struct StageDraft {
  std::vector<Span> spans;  // ascending
  int width = 0;            // an index into StageCosts' widths
  int level = 0;            // as the search had it
  friend bool operator==(const StageDraft&, const StageDraft&) = default;
};

// The stages of entry `entry` at the beginning of the solver's root line, by first position:
// depth first along branches. Requires: the solver's last solve() made the entry.
std::vector<StageDraft> trace_stages(const Pieces& pieces, LineSolver& solver,
                                     const LineSolution& root, int entry);

}  // namespace graphpipe
