// Which stages run a graph with every stage's time per sample at most t, on the fewest
// devices for each number of levels.
//
// Jeon et al., ASPLOS 2025, section on the partitioner, turned round: their dynamic
// program asks for the least in-flight samples of a given number of devices; with one
// micro-batch size, in-flight samples are a level times it, and here the least devices
// are found for every level. So devices are never split over branches by trial.
//
// Symbols: F(k)   ways to run a line from item k to its end: a frontier of (level, devices)
//          given  the level that what follows the line has at its entry
//
//   series     F(p) from F(q) and a stage of items p to q, of one level more
//   parallel   F(k) from F(k + 1) and the branches: partitions into groups (BranchCosts)
//   seams      a branch's last stage carries the run k + 1 to e: F(k) from F(e), the others
//              given one level more; a branch's first stage carries the run s to k:
//              F(s), one level above the rest of that branch and all others. Whole groups
//              of branches may carry such a run too.
//
// A departure from the paper: it cuts a branch's ends only at the fork and the join.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "planners/graphpipe/branch_costs.h"
#include "planners/graphpipe/frontier.h"
#include "planners/graphpipe/stage_costs.h"
#include "planners/graphpipe/stage_tables.h"

namespace graphpipe {

struct LineSolution;

// Ways to run what stands at and behind a join, with what the branches still miss.
struct Anchor {
  enum class Kind { kPlain, kTail, kGroup };
  Kind kind = Kind::kPlain;
  int given = 0;                     // to the other branches
  Counts removed;                    // branches that are in it
  std::vector<BranchEntry> entries;  // of kTail: those of tail's first item
  // kPlain: entry `next` behind the parallel piece. kGroup: these branches and the run up
  // to `to` on width `width`, then entry `next` there.
  int to = 0;
  int width = 0;
  int next = 0;
  std::shared_ptr<LineSolution> tail;  // kTail: the branch, its last stage with the run
  int tail_branch = -1;
};

// An anchor with the branches that it misses, and what carries the run before the fork.
struct Combination {
  enum class Head { kNone, kBranch, kTail, kGroup };
  int item = 0;  // the parallel piece
  int anchor = 0;
  int anchor_entry = 0;
  Counts others;  // branches that are neither in the anchor nor carry the run
  int others_level = 0;
  Head head = Head::kNone;
  int from = 0;  // the run's first item
  int width = 0;
  int branch = -1;  // kBranch, kTail: what carries it, up to item `to`; then entry `next`
  int to = 0;
  int next = 0;
  Counts group;  // kGroup: what carries it
};

struct LineSolution {
  int line = -1;             // its class's first
  std::vector<Frontier> at;  // [item]: F; one more for the line's end
  std::vector<int> open;     // items that the next one is not as good as, from the line's end
  std::vector<int> longest;  // [width]: where the longest run from the item at hand ends
  std::vector<Combination> combinations;
  std::map<int, std::vector<Anchor>> anchors;  // [item]

  // The next of `open` before this item; -1: none.
  int open_below(int item) const;
};

class LineSolver {
 public:
  LineSolver(const Pieces& pieces, StageTables& tables, const StageCosts& costs,
             const SearchRules& rules)
      : pieces_(pieces), tables_(tables), costs_(costs), rules_(rules) {}

  // The root line for target t; valid until the next call.
  const LineSolution& solve(double target_s);
  // Frontiers are kept by class of lines and given level.
  const LineSolution& line(int line_class, int given);
  BranchCosts& branches(int parallel, int given);
  std::int64_t work() const { return work_; }

 private:
  void solve_items(LineSolution& solution);
  void add_runs(LineSolution& solution, int from);
  bool add_runs_to(LineSolution& solution, int from, int to, int width);
  void add_parallel(LineSolution& solution, int item);
  void make_anchors(LineSolution& solution, int item);
  void add_tail_anchor(LineSolution& solution, int item, int branch_class, int level);
  void add_group_anchor(LineSolution& solution, int item, const Counts& group, int level);
  void combine(LineSolution& solution, int item, int anchor);
  bool add_heads(LineSolution& solution, Combination base);
  void add_branch_heads(LineSolution& solution, Combination base, const LineSolution& rest);
  void add_head(LineSolution& solution, Combination way, const Candidate& stage,
                const Frontier& rest);
  void add_way(LineSolution& solution, int item, const Combination& way, int level, int devices);

  const Line& line_of(const LineSolution& solution) const { return pieces_.line(solution.line); }
  const ParallelPiece& parallel_at(const LineSolution& solution, int item) const;
  BranchCosts& branches_at(const LineSolution& solution, int item, int given);
  bool too_long(Span span) const;

  const Pieces& pieces_;
  StageTables& tables_;
  const StageCosts& costs_;
  const SearchRules& rules_;
  double target_s_ = 0;
  std::map<std::pair<int, int>, std::unique_ptr<LineSolution>> lines_;
  std::map<std::pair<int, int>, std::unique_ptr<BranchCosts>> branches_;
  std::int64_t work_ = 0;
};

}  // namespace graphpipe
