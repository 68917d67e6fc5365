// Ways to run a piece that no other beats in both level and devices.

#pragma once

#include <algorithm>
#include <vector>

namespace graphpipe {

// How an entry came about; what the fields mean stands with each kind.
struct Choice {
  enum class Kind : char {
    kEnd,       // nothing is left of the line
    kRun,       // a stage up to item `to`, then entry `next` there
    kTail,      // a branch's last stage, with the run behind the join up to item `to` of the
                // line that the branch is in, then entry `next` there
    kParallel,  // a parallel piece: combination `to` of the line's solution
  };
  Kind kind = Kind::kEnd;
  int to = 0;
  int width = 0;  // of the stage: an index into StageCosts' widths
  int next = 0;
};

struct Entry {
  int level = 0;    // the highest of the stages that what precedes feeds
  int devices = 0;  // of the piece and all that follows it in its line
  Choice choice;
};

// Levels ascend, devices descend.
using Frontier = std::vector<Entry>;

inline bool beaten(const Frontier& frontier, int level, int devices) {
  return std::ranges::any_of(
      frontier, [&](const Entry& e) { return e.level <= level && e.devices <= devices; });
}

// Of equal ones the first stays. Returns whether it went in.
inline bool insert(Frontier& frontier, const Entry& entry) {
  if (beaten(frontier, entry.level, entry.devices)) return false;
  std::erase_if(frontier, [&](const Entry& e) {
    return e.level >= entry.level && e.devices >= entry.devices;
  });
  frontier.insert(std::ranges::upper_bound(frontier, entry.level, {}, &Entry::level), entry);
  return true;
}

// Whether every way of `a` is beaten by one of `b`.
inline bool beaten(const Frontier& a, const Frontier& b) {
  return std::ranges::all_of(a, [&](const Entry& e) { return beaten(b, e.level, e.devices); });
}

}  // namespace graphpipe
