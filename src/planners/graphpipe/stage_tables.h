// The sums of every candidate stage that the search has met, kept over targets and
// micro-batch sizes. Four forms of stages:
//
//     run     items p to q of a line
//     tail    a branch from item p to its end, and the run that follows the join
//     head    the run that precedes the fork, and a branch up to item q
//     group   whole branches, alone or with such a run
//
//     .. -> s -> [ a -> b -> c ] -> k -> ..      head: s a     tail: c k
//                [ d ----------]                 group: d      with run: d k

#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "planners/graphpipe/stage_sums.h"

namespace graphpipe {

// How many branches of each class of a parallel piece.
using Counts = std::vector<int>;

// A candidate's positions and sums.
struct Candidate {
  std::vector<Span> spans;
  StageSums sums;
};

class StageTables {
 public:
  explicit StageTables(const Pieces& pieces);

  // Of a class's first line.
  const StageSums& run(int line_class, int from, int to);
  // The run is given by its positions; an empty one is none.
  const Candidate& tail(int branch, int from, Span run);
  const Candidate& head(int branch, int to, Span run);
  // The first branches of each class.
  const Candidate& group(int parallel, const Counts& counts, Span run);
  // The first `count` branches of each class, by class.
  std::vector<int> first_branches(int parallel, const Counts& counts) const;

 private:
  using RiderKey = std::tuple<int, int, int>;  // branch, run
  const std::vector<Candidate>& tails(int branch, Span run);
  const std::vector<Candidate>& heads(int branch, Span run);

  const Pieces& pieces_;
  StageAccumulator accumulator_;
  std::vector<std::vector<std::vector<StageSums>>> runs_;  // [class][from][to - from - 1]
  std::map<RiderKey, std::vector<Candidate>> tails_;       // [from]
  std::map<RiderKey, std::vector<Candidate>> heads_;       // [to - 1]
  std::map<std::tuple<int, Counts, int, int>, Candidate> groups_;
};

}  // namespace graphpipe
