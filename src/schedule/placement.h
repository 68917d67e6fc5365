// Where a plan's stages run, seen from the ranks: what building, lowering and
// verification ask of a plan before they look at any order.

#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace graphpipe {

// One replica of a stage, as a rank's work.
struct Placement {
  StageId stage;
  int replica = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// The devices that the plan uses, ascending: rank r runs on the r-th.
std::vector<DeviceId> used_devices(const Plan& plan);

// [rank]: its stages in the order of the plan.
std::vector<std::vector<Placement>> placements(const Plan& plan);

// The plan's ranks with empty programs.
std::vector<RankProgram> empty_programs(const Plan& plan);

// Edges by the stage they enter and leave, ascending.
struct StageEdges {
  std::vector<std::vector<EdgeId>> in;   // [stage]
  std::vector<std::vector<EdgeId>> out;  // [stage]
};
StageEdges stage_edges(const Plan& plan);

// Whether messages go back over the edge in training: its gradient flag, where both ends
// have a backward. `backward` is stages_with_backward(). Indexed by edge.
std::vector<bool> edges_with_backward(const Plan& plan, const std::vector<bool>& backward);

}  // namespace graphpipe
