#include "planners/graphpipe/line_solver.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/numbers.h"

namespace graphpipe {
namespace {

// A run that rides with a branch's stage has at most so many items: longer ones fill
// stages of their own.
constexpr int kMostRiderItems = 16;

Counts one_of(std::size_t classes, int branch_class) {
  Counts counts(classes, 0);
  counts[at(branch_class)] = 1;
  return counts;
}

}  // namespace

int LineSolution::open_below(int item) const {
  const auto found = std::ranges::upper_bound(open, item, std::greater{});
  return found == open.end() ? -1 : *found;
}

const ParallelPiece& LineSolver::parallel_at(const LineSolution& solution, int item) const {
  return pieces_.parallel(line_of(solution).items[at(item)].parallel);
}

BranchCosts& LineSolver::branches_at(const LineSolution& solution, int item, int given) {
  return branches(line_of(solution).items[at(item)].parallel, given);
}

// Whether no width makes a stage of these positions fast enough, whatever it sends.
bool LineSolver::too_long(Span span) const {
  return costs_.compute_tps_s(span, costs_.width_count() - 1) > target_s_ * (1 + 1e-9);
}

const LineSolution& LineSolver::solve(double target_s) {
  target_s_ = target_s;
  branches_.clear();
  lines_.clear();
  return line(pieces_.line(0).line_class, 0);
}

const LineSolution& LineSolver::line(int line_class, int given) {
  std::unique_ptr<LineSolution>& known = lines_[{line_class, given}];
  if (known != nullptr) return *known;
  auto solution = std::make_unique<LineSolution>();
  solution->line = pieces_.class_line[at(line_class)];
  solution->at.resize(at(line_of(*solution).size() + 1));
  solution->at.back().push_back({given, 0, {}});
  solve_items(*solution);
  known = std::move(solution);
  return *known;
}

BranchCosts& LineSolver::branches(int parallel, int given) {
  std::unique_ptr<BranchCosts>& known = branches_[{parallel, given}];
  if (known == nullptr) {
    std::vector<const Frontier*> alone;
    for (const int line_class : pieces_.parallel(parallel).classes) {
      alone.push_back(&line(line_class, given).at.front());
    }
    known = std::make_unique<BranchCosts>(pieces_, tables_, costs_, parallel, given, target_s_,
                                          std::move(alone));
  }
  return *known;
}

// Fills F from the line's end to its beginning. Requires: what the line ends with is in.
void LineSolver::solve_items(LineSolution& solution) {
  const Line& line = line_of(solution);
  solution.longest.assign(at(costs_.width_count()), line.size());
  solution.open = {line.size()};
  for (int p = line.size(); p-- > 0;) {
    add_runs(solution, p);
    if (line.items[at(p)].parallel >= 0) add_parallel(solution, p);
    if (!beaten(solution.at[at(p)], solution.at[at(p + 1)])) solution.open.push_back(p);
  }
}

// For each width the longest run first. Where it fits whatever follows, a shorter one can
// only be better if what follows that is.
void LineSolver::add_runs(LineSolution& solution, int from) {
  const Line& line = line_of(solution);
  for (int width = 0; width < costs_.width_count(); ++width) {
    // Runs that begin earlier end no later.
    int& longest = solution.longest[at(width)];
    while (longest > from && costs_.compute_tps_s(line.span(from, longest), width) > target_s_) {
      --longest;
    }
    int to = longest;
    while (to > from) {
      const bool all_fit = add_runs_to(solution, from, to, width);
      to = all_fit ? solution.open_below(to) : to - 1;
    }
  }
}

// Returns whether no shorter run is better before what is no better than what follows this one.
bool LineSolver::add_runs_to(LineSolution& solution, int from, int to, int width) {
  const Frontier& behind = solution.at[at(to)];
  Frontier& here = solution.at[at(from)];
  const auto entry_before = [&](const Entry& next) {
    return Entry{costs_.level_above(next.level, width), next.devices + costs_.width(width), {}};
  };
  const auto may_help = [&](const Entry& entry) {
    return entry.devices <= costs_.device_count() && !beaten(here, entry.level, entry.devices);
  };
  if (std::ranges::none_of(behind, may_help, entry_before)) return true;
  const Line& line = line_of(solution);
  const StageSums& sums = tables_.run(line.line_class, from, to);
  const Span spans[] = {line.span(from, to)};
  if (costs_.tps_s(sums, spans, width) > target_s_) return false;
  work_ += static_cast<std::int64_t>(behind.size());
  bool all_fit = true;
  for (std::size_t e = 0; e < behind.size(); ++e) {
    Entry entry = entry_before(behind[e]);
    if (!may_help(entry)) continue;
    if (!costs_.fits(sums, spans, width, entry.level, target_s_)) {
      all_fit = false;
      continue;
    }
    entry.choice = {Choice::Kind::kRun, to, width, static_cast<int>(e)};
    insert(here, entry);
  }
  return all_fit;
}

void LineSolver::add_parallel(LineSolution& solution, int item) {
  make_anchors(solution, item);
  const int anchors = static_cast<int>(solution.anchors[item].size());
  for (int a = 0; a < anchors; ++a) combine(solution, item, a);
}

void LineSolver::make_anchors(LineSolution& solution, int item) {
  std::vector<Anchor>& anchors = solution.anchors[item];
  const ParallelPiece& parallel = parallel_at(solution, item);
  const Counts none(parallel.classes.size(), 0);
  const Frontier& behind = solution.at[at(item + 1)];
  for (std::size_t e = 0; e < behind.size(); ++e) {
    Anchor anchor;
    anchor.given = behind[e].level;
    anchor.removed = none;
    anchor.entries = {{behind[e].level, behind[e].devices}};
    anchor.next = static_cast<int>(e);
    anchors.push_back(std::move(anchor));
  }
  if (!rules_.seams) return;
  const Line& line = line_of(solution);
  std::set<int> levels;  // behind the runs that may ride
  for (int to = item + 2; to <= std::min(line.size(), item + 1 + kMostRiderItems); ++to) {
    if (too_long(line.span(item + 1, to))) break;
    for (const Entry& entry : solution.at[at(to)]) levels.insert(entry.level);
  }
  for (const int level : levels) {
    for (int c = 0; c < static_cast<int>(parallel.classes.size()); ++c) {
      add_tail_anchor(solution, item, c, level);
    }
    for (const Counts& group : branches_at(solution, item, level).groups()) {
      add_group_anchor(solution, item, group, level);
    }
  }
}

// The branch's line, begun from its last stage, which carries a run behind the join.
void LineSolver::add_tail_anchor(LineSolution& solution, int item, int branch_class, int level) {
  const Line& outer = line_of(solution);
  const ParallelPiece& parallel = parallel_at(solution, item);
  std::size_t last = parallel.branches.size();
  while (parallel.branch_class[--last] != branch_class) continue;
  Anchor anchor;
  anchor.kind = Anchor::Kind::kTail;
  anchor.given = level + 1;
  anchor.removed = one_of(parallel.classes.size(), branch_class);
  anchor.tail_branch = parallel.branches[last];
  const Line& branch = pieces_.line(anchor.tail_branch);
  anchor.tail = std::make_shared<LineSolution>();
  anchor.tail->line = pieces_.class_line[at(branch.line_class)];
  anchor.tail->at.resize(branch.items.size() + 1);
  for (int to = item + 2; to <= std::min(outer.size(), item + 1 + kMostRiderItems); ++to) {
    const Span run = outer.span(item + 1, to);
    if (too_long(run)) break;
    const Frontier& behind = solution.at[at(to)];
    const auto entry = std::ranges::find(behind, level, &Entry::level);
    if (entry == behind.end()) continue;
    for (int from = branch.size(); from-- > 0;) {
      if (too_long(branch.span(from, branch.size()))) break;
      const Candidate& stage = tables_.tail(anchor.tail_branch, from, run);
      const int width = costs_.least_width(stage.sums, stage.spans, level + 1, target_s_);
      ++work_;
      if (width < 0) continue;
      const int devices = entry->devices + costs_.width(width);
      if (devices > costs_.device_count()) continue;
      insert(anchor.tail->at[at(from)],
             {level + 1,
              devices,
              {Choice::Kind::kTail, to, width, static_cast<int>(entry - behind.begin())}});
    }
  }
  solve_items(*anchor.tail);
  for (const Entry& entry : anchor.tail->at.front()) {
    anchor.entries.push_back({entry.level, entry.devices});
  }
  const bool any =
      std::ranges::any_of(anchor.tail->at, [](const Frontier& f) { return !f.empty(); });
  if (any) solution.anchors[item].push_back(std::move(anchor));
}

void LineSolver::add_group_anchor(LineSolution& solution, int item, const Counts& group,
                                  int level) {
  const Line& line = line_of(solution);
  Anchor best;
  for (int to = item + 2; to <= std::min(line.size(), item + 1 + kMostRiderItems); ++to) {
    const Span run = line.span(item + 1, to);
    if (too_long(run)) break;
    const Frontier& behind = solution.at[at(to)];
    const auto entry = std::ranges::find(behind, level, &Entry::level);
    if (entry == behind.end()) continue;
    const Candidate& stage = tables_.group(line.items[at(item)].parallel, group, run);
    const int width = costs_.least_width(stage.sums, stage.spans, level + 1, target_s_);
    ++work_;
    if (width < 0) continue;
    const int devices = entry->devices + costs_.width(width);
    if (devices > costs_.device_count()) continue;
    if (!best.entries.empty() && best.entries[0].devices <= devices) continue;
    best.kind = Anchor::Kind::kGroup;
    best.entries = {{level + 1, devices}};
    best.to = to;
    best.width = width;
    best.next = static_cast<int>(entry - behind.begin());
  }
  if (best.entries.empty()) return;
  best.given = level + 1;
  best.removed = group;
  solution.anchors[item].push_back(std::move(best));
}

void LineSolver::combine(LineSolution& solution, int item, int anchor_index) {
  const Anchor anchor = solution.anchors[item][at(anchor_index)];
  const Counts& all = parallel_at(solution, item).class_size;
  if (!within(anchor.removed, all)) return;
  Combination way;
  way.item = item;
  way.anchor = anchor_index;
  way.others = minus(all, anchor.removed);
  const std::vector<BranchEntry>& others =
      branches_at(solution, item, anchor.given).costs(way.others);
  for (const BranchEntry& other : others) {
    way.others_level = other.level;
    for (std::size_t e = 0; e < anchor.entries.size(); ++e) {
      way.anchor_entry = static_cast<int>(e);
      add_way(solution, item, way, std::max(other.level, anchor.entries[e].level),
              other.devices + anchor.entries[e].devices);
    }
  }
  if (!rules_.seams) return;
  for (int from = item - 1; from >= std::max(0, item - kMostRiderItems); --from) {
    way.from = from;
    if (!add_heads(solution, way)) return;
  }
}

void LineSolver::add_way(LineSolution& solution, int item, const Combination& way, int level,
                         int devices) {
  ++work_;
  Frontier& frontier = solution.at[at(item)];
  if (devices > costs_.device_count() || beaten(frontier, level, devices)) return;
  const int index = static_cast<int>(solution.combinations.size());
  solution.combinations.push_back(way);
  insert(frontier, {level, devices, {Choice::Kind::kParallel, index, 0, 0}});
}

// All that may carry the run from `base.from` to the fork. Returns whether a longer run
// may be carried too.
bool LineSolver::add_heads(LineSolution& solution, Combination base) {
  const Span run = line_of(solution).span(base.from, base.item);
  if (too_long(run)) return false;
  const ParallelPiece& parallel = parallel_at(solution, base.item);
  const Anchor& anchor = solution.anchors[base.item][at(base.anchor)];
  const Counts left = base.others;
  if (anchor.kind == Anchor::Kind::kTail) {
    base.head = Combination::Head::kTail;
    base.branch = anchor.tail_branch;
    add_branch_heads(solution, base, *anchor.tail);
  }
  for (int c = 0; c < static_cast<int>(left.size()); ++c) {
    if (left[at(c)] == 0) continue;
    base.head = Combination::Head::kBranch;
    base.others = minus(left, one_of(left.size(), c));
    const auto first = std::ranges::find(parallel.branch_class, c);
    base.branch =
        parallel.branches[static_cast<std::size_t>(first - parallel.branch_class.begin())];
    add_branch_heads(solution, base, line(parallel.classes[at(c)], anchor.given));
  }
  base.head = Combination::Head::kGroup;
  const int index = line_of(solution).items[at(base.item)].parallel;
  for (const Counts& group : branches(index, anchor.given).groups()) {
    if (!within(group, left)) continue;
    base.group = group;
    base.others = minus(left, group);
    add_head(solution, base, tables_.group(index, group, run), {{anchor.given, 0, {}}});
  }
  return true;
}

void LineSolver::add_branch_heads(LineSolution& solution, Combination base,
                                  const LineSolution& rest) {
  const Span run = line_of(solution).span(base.from, base.item);
  const Line& branch = pieces_.line(base.branch);
  for (int to = 1; to <= branch.size(); ++to) {
    if (too_long(branch.span(0, to))) return;
    if (rest.at[at(to)].empty()) continue;
    base.to = to;
    add_head(solution, base, tables_.head(base.branch, to, run), rest.at[at(to)]);
  }
}

// `rest`: the ways to run what follows the stage in its branch.
void LineSolver::add_head(LineSolution& solution, Combination way, const Candidate& stage,
                          const Frontier& rest) {
  const Anchor& anchor = solution.anchors[way.item][at(way.anchor)];
  // Of kTail, the anchor's own branch carries the run, and what stands behind the join is
  // in `rest`.
  const std::vector<BranchEntry> in_rest = {{0, 0}};
  const bool own = way.head == Combination::Head::kTail;
  const std::vector<BranchEntry>& anchored = own ? in_rest : anchor.entries;
  for (const BranchEntry& other : branches_at(solution, way.item, anchor.given).costs(way.others)) {
    way.others_level = other.level;
    for (std::size_t a = 0; a < anchored.size(); ++a) {
      way.anchor_entry = static_cast<int>(a);
      for (std::size_t r = 0; r < rest.size(); ++r) {
        way.next = static_cast<int>(r);
        const int level = std::max({other.level, anchored[a].level, rest[r].level}) + 1;
        const int devices = other.devices + anchored[a].devices + rest[r].devices;
        if (devices >= costs_.device_count() ||
            beaten(solution.at[at(way.from)], level, devices + 1)) {
          continue;
        }
        way.width = costs_.least_width(stage.sums, stage.spans, level, target_s_);
        if (way.width < 0) continue;
        add_way(solution, way.from, way, level, devices + costs_.width(way.width));
      }
    }
  }
}

}  // namespace graphpipe
