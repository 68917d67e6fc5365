// The least devices for some of the branches of a parallel piece, by the level that they
// may reach: partitions into groups, where a group of one is planned by itself and a
// larger one is a single stage.
//
// Exact where the table over counts of equal branches is small (always up to 8
// branches); beyond, first-fit-decreasing.

#pragma once

#include <map>
#include <vector>

#include "planners/graphpipe/frontier.h"
#include "planners/graphpipe/stage_costs.h"
#include "planners/graphpipe/stage_tables.h"

namespace graphpipe {

// Branches of a parallel piece by class: each count at most that of the whole, and what is left.
bool within(const Counts& part, const Counts& whole);
Counts minus(Counts whole, const Counts& part);

struct BranchEntry {
  int level = 0;
  int devices = 0;
};

struct BranchGroup {
  Counts members;  // of each class
  int entry = -1;  // a group of one: the entry of its class's frontier
  int width = -1;  // a larger group, one stage: an index into StageCosts' widths
};

class BranchCosts {
 public:
  // `alone[c]`: the frontier of a branch of class c; they live longer than this.
  // `given`: the level that what follows has at its entry. `target_s`: most time per
  // sample of a stage.
  BranchCosts(const Pieces& pieces, StageTables& tables, const StageCosts& costs, int parallel,
              int given, double target_s, std::vector<const Frontier*> alone);

  // Levels ascend, devices descend; empty: no way.
  const std::vector<BranchEntry>& costs(const Counts& counts);
  // How an entry of costs(counts) comes about.
  std::vector<BranchGroup> partition(const Counts& counts, int level);
  // Groups of more than one branch worth trying as one stage.
  const std::vector<Counts>& groups() const { return groups_; }

 private:
  struct Cell {
    int devices = -1;   // -1: not asked yet
    BranchGroup group;  // the one that holds the first branch that is left
  };
  struct Packing {
    int devices = 0;
    std::vector<BranchGroup> groups;
  };
  Cell& cell(const Counts& counts, int level);
  Packing pack(const Counts& counts, int level);
  int entry_within(int branch_class, int level) const;
  int width_of(const Counts& group);
  double share_of_device(int branch_class);
  std::size_t index_of(const Counts& counts) const;
  std::vector<int> levels(const Counts& counts) const;
  void list_all_groups();
  void list_lightest_groups();

  const Pieces& pieces_;
  StageTables& tables_;
  const StageCosts& costs_;
  int parallel_;
  int given_;
  double target_s_;
  std::vector<const Frontier*> alone_;
  bool exact_ = true;
  std::size_t states_ = 1;  // exact: how many counts there are
  std::vector<Counts> groups_;
  std::map<Counts, int> width_of_group_;
  std::map<int, std::vector<Cell>> cells_;  // [level][index of counts]
  std::map<Counts, std::vector<BranchEntry>> entries_;
};

}  // namespace graphpipe
