// The layouts that lie one step from a plan.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "search/workbench.h"

namespace graphpipe {

struct Move {
  // Stages that change, by their place; one past the last is new, one without operators goes.
  std::vector<std::pair<std::size_t, Stage>> changed;
  std::int64_t hops = 1;
  double slowest_s = 0;  // of the stages that change: Workbench::stage_s()
};

Layout after(const Layout& layout, const Move& move);

// Steps that take work from a stage: operators of it - one with all before it in the stage, one
// with all after it, a part that hangs together - to another stage, to a new one on some of the
// stage's own devices or on unused ones; operators passed on over several
// stages to one that has room; and devices from other stages or unused ones to it.
// Only those whose changed stages take less than `limit_s`; those with the fastest slowest
// stage first.
std::vector<Move> moves_from(Workbench& bench, const Layout& layout, std::size_t stage,
                             double limit_s);

// Steps that change the whole: two stages that send to one another or to the same stage made
// one, other micro-batch sizes, other counts in flight. Of sizes, and of k, those of the problem's
// options, which also say whether stages may differ.
std::vector<Move> whole_moves(Workbench& bench, const Layout& layout, double limit_s);

// Two stages that change places, where less then goes from node to node; the greatest saving
// first. Bytes are those of the plan's edges.
std::vector<Move> placement_moves(Workbench& bench, const Layout& layout, const Plan& plan);

}  // namespace graphpipe
