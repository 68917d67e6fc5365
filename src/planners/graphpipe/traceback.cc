#include "planners/graphpipe/traceback.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/numbers.h"

namespace graphpipe {
namespace {

// Where in a line's solution one stands. Lines are solved for the first of their class;
// `shift` leads to the positions of the line that is meant.
struct Stand {
  const LineSolution* solution = nullptr;
  int item = 0;
  int entry = 0;
  int shift = 0;
  // Of a tail: where its line is a branch.
  const Stand* outer = nullptr;
};

// The branches of a parallel piece that no group has taken yet, by class.
class Pool {
 public:
  explicit Pool(const ParallelPiece& parallel) : by_class_(parallel.classes.size()) {
    for (std::size_t b = 0; b < parallel.branches.size(); ++b) {
      by_class_[at(parallel.branch_class[b])].push_back(parallel.branches[b]);
    }
  }
  void take(int branch) {
    for (std::vector<int>& branches : by_class_) std::erase(branches, branch);
  }
  std::vector<int> take(const Counts& counts) {
    std::vector<int> taken;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      const auto end = by_class_[c].begin() + counts[c];
      taken.insert(taken.end(), by_class_[c].begin(), end);
      by_class_[c].erase(by_class_[c].begin(), end);
    }
    return taken;
  }

 private:
  std::vector<std::vector<int>> by_class_;
};

class Tracer {
 public:
  Tracer(const Pieces& pieces, LineSolver& solver) : pieces_(pieces), solver_(solver) {}

  void trace(Stand stand) {
    while (true) {
      const Entry& entry = stand.solution->at[at(stand.item)][at(stand.entry)];
      const Choice& choice = entry.choice;
      const Line& line = pieces_.line(stand.solution->line);
      switch (choice.kind) {
        case Choice::Kind::kEnd:
          return;
        case Choice::Kind::kRun:
          add({shifted(line.span(stand.item, choice.to), stand.shift)}, choice.width, entry.level);
          stand.item = choice.to;
          stand.entry = choice.next;
          break;
        case Choice::Kind::kTail: {
          GP_CHECK(stand.outer != nullptr, "a tail outside its branch");
          const Stand& outer = *stand.outer;
          const Line& around = pieces_.line(outer.solution->line);
          add({shifted(line.span(stand.item, line.size()), stand.shift),
               shifted(around.span(outer.item + 1, choice.to), outer.shift)},
              choice.width, entry.level);
          stand = {outer.solution, choice.to, choice.next, outer.shift, outer.outer};
          break;
        }
        case Choice::Kind::kParallel:
          stand = trace_parallel(stand, choice.to, entry.level);
          if (stand.solution == nullptr) return;
          break;
      }
    }
  }

  std::vector<StageDraft> take() && {
    for (StageDraft& stage : stages_) {
      std::ranges::sort(stage.spans, {}, &Span::begin);
    }
    std::ranges::sort(stages_, {}, [](const StageDraft& s) { return s.spans[0].begin; });
    return std::move(stages_);
  }

 private:
  static Span shifted(Span span, int shift) { return {span.begin + shift, span.end + shift}; }

  void add(std::vector<Span> spans, int width, int level) {
    stages_.push_back({std::move(spans), width, level});
  }

  Span branch_span(int branch, int shift) const {
    const Line& line = pieces_.line(branch);
    return shifted(line.span(0, line.size()), shift);
  }

  // From the first line of a branch's class to the branch.
  int shift_of(int branch, int shift) const {
    const int first = pieces_.class_line[at(pieces_.line(branch).line_class)];
    return shift + pieces_.line(branch).start[0] - pieces_.line(first).start[0];
  }

  void add_group(const std::vector<int>& branches, Span run, int shift, int width, int level) {
    std::vector<Span> spans;
    for (const int branch : branches) spans.push_back(branch_span(branch, shift));
    if (run.end > run.begin) spans.push_back(shifted(run, shift));
    add(std::move(spans), width, level);
  }

  // Returns where the line goes on; nowhere, where a tail has already gone on.
  Stand trace_parallel(const Stand& stand, int combination, int level) {
    const LineSolution& solution = *stand.solution;
    const Combination& way = solution.combinations[at(combination)];
    const Anchor& anchor = solution.anchors.at(way.item)[at(way.anchor)];
    const Line& line = pieces_.line(solution.line);
    const int parallel = line.items[at(way.item)].parallel;
    const Span before = line.span(way.from, way.item);
    // Here the tail's line is a branch.
    const Stand join = {&solution, way.item, 0, stand.shift, stand.outer};
    Pool pool(pieces_.parallel(parallel));
    if (anchor.kind == Anchor::Kind::kTail) pool.take(anchor.tail_branch);

    switch (way.head) {
      case Combination::Head::kNone:
        break;
      case Combination::Head::kTail:
        add_head(way, before, stand.shift, level);
        trace({anchor.tail.get(), way.to, way.next, shift_of(way.branch, stand.shift), &join});
        break;
      case Combination::Head::kBranch: {
        pool.take(way.branch);
        add_head(way, before, stand.shift, level);
        const LineSolution& rest = solver_.line(pieces_.line(way.branch).line_class, anchor.given);
        trace({&rest, way.to, way.next, shift_of(way.branch, stand.shift), nullptr});
        break;
      }
      case Combination::Head::kGroup:
        add_group(pool.take(way.group), before, stand.shift, way.width, level);
        break;
    }
    trace_others(way, anchor.given, parallel, stand.shift, pool);
    return trace_anchor(way, anchor, join, pool);
  }

  void add_head(const Combination& way, Span before, int shift, int level) {
    add({shifted(before, shift), shifted(pieces_.line(way.branch).span(0, way.to), shift)},
        way.width, level);
  }

  void trace_others(const Combination& way, int given, int parallel, int shift, Pool& pool) {
    BranchCosts& costs = solver_.branches(parallel, given);
    for (const BranchGroup& group : costs.partition(way.others, way.others_level)) {
      const std::vector<int> branches = pool.take(group.members);
      if (group.width >= 0) {
        add_group(branches, {}, shift, group.width, given + 1);
        continue;
      }
      const LineSolution& alone = solver_.line(pieces_.line(branches[0]).line_class, given);
      trace({&alone, 0, group.entry, shift_of(branches[0], shift), nullptr});
    }
  }

  Stand trace_anchor(const Combination& way, const Anchor& anchor, const Stand& join, Pool& pool) {
    const Line& line = pieces_.line(join.solution->line);
    switch (anchor.kind) {
      case Anchor::Kind::kPlain:
        return {join.solution, way.item + 1, anchor.next, join.shift, join.outer};
      case Anchor::Kind::kTail:
        if (way.head != Combination::Head::kTail) {
          trace({anchor.tail.get(), 0, way.anchor_entry, shift_of(anchor.tail_branch, join.shift),
                 &join});
        }
        return {};
      case Anchor::Kind::kGroup:
        add_group(pool.take(anchor.removed), line.span(way.item + 1, anchor.to), join.shift,
                  anchor.width, anchor.given);
        return {join.solution, anchor.to, anchor.next, join.shift, join.outer};
    }
    GP_CHECK(false, "unknown anchor {}", static_cast<int>(anchor.kind));
    return {};
  }

  const Pieces& pieces_;
  LineSolver& solver_;
  std::vector<StageDraft> stages_;
};

}  // namespace

std::vector<StageDraft> trace_stages(const Pieces& pieces, LineSolver& solver,
                                     const LineSolution& root, int entry) {
  Tracer tracer(pieces, solver);
  tracer.trace({&root, 0, entry, 0, nullptr});
  return std::move(tracer).take();
}

}  // namespace graphpipe
