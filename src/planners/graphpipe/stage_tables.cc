#include "planners/graphpipe/stage_tables.h"

#include <algorithm>

#include "base/numbers.h"

namespace graphpipe {
namespace {

// Rows grow as far as asked for, at least so much at a time.
constexpr int kRowStep = 32;

}  // namespace

StageTables::StageTables(const Pieces& pieces)
    : pieces_(pieces), accumulator_(pieces), runs_(pieces.class_line.size()) {
  for (std::size_t c = 0; c < runs_.size(); ++c) {
    runs_[c].resize(pieces.line(pieces.class_line[c]).items.size());
  }
}

const StageSums& StageTables::run(int line_class, int from, int to) {
  std::vector<StageSums>& row = runs_[at(line_class)][at(from)];
  const int length = to - from;
  if (static_cast<int>(row.size()) >= length) return row[at(length - 1)];
  const Line& line = pieces_.line(pieces_.class_line[at(line_class)]);
  const int wanted = std::min(
      line.size() - from, std::max(length, std::max(kRowStep, 2 * static_cast<int>(row.size()))));
  row.clear();
  accumulator_.clear();
  for (int i = 0; i < wanted; ++i) {
    accumulator_.add(line.span(from + i, from + i + 1));
    row.push_back(accumulator_.sums());
  }
  return row[at(length - 1)];
}

const std::vector<Candidate>& StageTables::tails(int branch, Span run) {
  const auto [found, fresh] = tails_.try_emplace({branch, run.begin, run.end});
  if (!fresh) return found->second;
  const Line& line = pieces_.line(branch);
  accumulator_.clear();
  accumulator_.add(run);
  std::vector<Candidate>& tails = found->second;
  tails.resize(line.items.size());
  for (int from = line.size(); from-- > 0;) {
    accumulator_.add(line.span(from, from + 1));
    tails[at(from)] = {{line.span(from, line.size()), run}, accumulator_.sums()};
  }
  return tails;
}

const std::vector<Candidate>& StageTables::heads(int branch, Span run) {
  const auto [found, fresh] = heads_.try_emplace({branch, run.begin, run.end});
  if (!fresh) return found->second;
  const Line& line = pieces_.line(branch);
  accumulator_.clear();
  accumulator_.add(run);
  for (int to = 1; to <= line.size(); ++to) {
    accumulator_.add(line.span(to - 1, to));
    found->second.push_back({{run, line.span(0, to)}, accumulator_.sums()});
  }
  return found->second;
}

const Candidate& StageTables::tail(int branch, int from, Span run) {
  return tails(branch, run)[at(from)];
}

const Candidate& StageTables::head(int branch, int to, Span run) {
  return heads(branch, run)[at(to - 1)];
}

std::vector<int> StageTables::first_branches(int parallel, const Counts& counts) const {
  const ParallelPiece& piece = pieces_.parallel(parallel);
  Counts left = counts;
  std::vector<int> branches;
  for (std::size_t i = 0; i < piece.branches.size(); ++i) {
    int& wanted = left[at(piece.branch_class[i])];
    if (wanted == 0) continue;
    --wanted;
    branches.push_back(piece.branches[i]);
  }
  return branches;
}

const Candidate& StageTables::group(int parallel, const Counts& counts, Span run) {
  const auto [found, fresh] = groups_.try_emplace({parallel, counts, run.begin, run.end});
  Candidate& group = found->second;
  if (!fresh) return group;
  accumulator_.clear();
  for (const int branch : first_branches(parallel, counts)) {
    const Line& line = pieces_.line(branch);
    group.spans.push_back(line.span(0, line.size()));
    accumulator_.add(group.spans.back());
  }
  if (run.end > run.begin) {
    group.spans.push_back(run);
    accumulator_.add(run);
  }
  group.sums = accumulator_.sums();
  return group;
}

}  // namespace graphpipe
