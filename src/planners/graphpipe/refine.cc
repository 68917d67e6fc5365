#include "planners/graphpipe/refine.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/numbers.h"

namespace graphpipe {
namespace {

// A step must make the slowest stage faster by this part of itself at least.
constexpr double kLeastGain = 1e-3;

// Of the steps that may gain by compute alone so many are worked out, the best first.
constexpr std::size_t kMostTried = 32;

constexpr int kMostSteps = 100;

// Of large graphs fewer: a step that is worked out counts with the dependencies that it looks
// through.
constexpr std::size_t kMostLookedThrough = 2'000'000;

// A stage of more operators is not coarse: moving one of them gains little. Swaps are
// tried where they are not more than this.
constexpr std::size_t kMostMembers = 256;
constexpr std::size_t kMostSwaps = 20'000;

struct RefinedStage {
  std::vector<int> positions;  // ascending
  int width = 0;               // an index into StageCosts' widths
  double tps_s = 0;
  double compute_tps_s = 0;  // without messages
  StageSums sums;
  std::vector<Span> spans;
};

std::vector<Span> runs_of(const std::vector<int>& positions) {
  std::vector<Span> spans;
  for (const int p : positions) {
    if (spans.empty() || spans.back().end != p) spans.push_back({p, p});
    ++spans.back().end;
  }
  return spans;
}

// Positions that move together, and what they compute by width.
struct Group {
  std::vector<int> positions;
  std::vector<double> compute_tps_s;
};

// What a step makes of a stage. A stage number one past the last is a new stage; one that
// is left without positions disappears.
struct Change {
  int stage = 0;
  int width = 0;
  const Group* without = nullptr;  // leaves
  const Group* with = nullptr;     // comes
};

constexpr std::size_t kMostChanges = 3;

struct Step {
  std::array<Change, kMostChanges> changes;
  std::size_t count = 0;
  double compute_tps_s = 0;  // of the slowest stage that changes, at least
  std::span<const Change> all() const { return std::span(changes).first(count); }
};

class Refiner {
 public:
  Refiner(SearchContext& context, const StageCosts& costs) : context_(context), costs_(costs) {
    for (std::size_t p = 0; p < context.pieces.positions.size(); ++p) {
      for (const TensorUse& use : context.pieces.positions[p].inputs) {
        const int producer = context.pieces.tensors[at(use.tensor)].producer;
        if (producer >= 0) dependencies_.emplace_back(producer, static_cast<int>(p));
      }
      single_.push_back(group_of({static_cast<int>(p)}));
    }
  }

  std::vector<StageDraft> refine(const std::vector<StageDraft>& drafts) {
    for (const StageDraft& draft : drafts) {
      RefinedStage stage;
      stage.width = draft.width;
      for (const Span span : draft.spans) {
        for (int p = span.begin; p < span.end; ++p) stage.positions.push_back(p);
      }
      stages_.push_back(worked_out(std::move(stage)));
    }
    update_times();
    for (int i = 0; i < kMostSteps && !spent() && !context_.stopped() && step(); ++i) continue;
    return drafts_of_stages();
  }

 private:
  bool spent() const { return looked_through_ >= kMostLookedThrough; }

  RefinedStage worked_out(RefinedStage stage) {
    std::ranges::sort(stage.positions);
    stage.spans = runs_of(stage.positions);
    context_.accumulator.clear();
    for (const Span span : stage.spans) context_.accumulator.add(span);
    stage.sums = context_.accumulator.sums();
    stage.tps_s = costs_.tps_s(stage.sums, stage.spans, stage.width);
    stage.compute_tps_s = compute_tps_s(stage.spans, stage.width);
    return stage;
  }

  double compute_tps_s(const std::vector<Span>& spans, int width) const {
    double tps = 0;
    for (const Span span : spans) tps += costs_.compute_tps_s(span, width);
    return tps;
  }

  // One more than the highest successor's; none where stages wait in a circle.
  std::optional<std::vector<int>> levels() const {
    // Of the stages, each pair once: dependencies that follow one another are mostly alike.
    std::vector<std::pair<int, int>> edges;
    for (auto edge = dependencies_.rbegin(); edge != dependencies_.rend(); ++edge) {
      const std::pair between{stage_of_[at(edge->first)], stage_of_[at(edge->second)]};
      if (between.first == between.second) continue;
      if (edges.empty() || edges.back() != between) edges.push_back(between);
    }
    std::vector<int> level(stages_.size() + 1, 1);
    // Later positions first, so that mostly one round does. A circle never settles.
    for (std::size_t round = 0; round <= stages_.size() + 1; ++round) {
      bool changed = false;
      for (const auto& [from, to] : edges) {
        if (level[at(from)] > level[at(to)]) continue;
        level[at(from)] = level[at(to)] + 1;
        changed = true;
      }
      if (!changed) return level;
    }
    return std::nullopt;
  }

  int spare_devices() const {
    int spare = costs_.device_count();
    for (const RefinedStage& stage : stages_) spare -= costs_.width(stage.width);
    return spare;
  }

  Group group_of(std::vector<int> positions) const {
    Group group{std::move(positions), {}};
    const std::vector<Span> spans = runs_of(group.positions);
    for (int width = 0; width < costs_.width_count(); ++width) {
      group.compute_tps_s.push_back(compute_tps_s(spans, width));
    }
    return group;
  }

  // Takes the best step for the slowest stage, if there is one.
  bool step() {
    number_stages();
    const auto slowest = std::ranges::max_element(stages_, {}, &RefinedStage::tps_s);
    slowest_ = static_cast<int>(slowest - stages_.begin());
    bound_s_ = slowest->tps_s * (1 - kLeastGain);
    steps_.clear();
    best_.clear();
    propose_moves();
    propose_widths();
    const std::size_t tried = std::min(kMostTried, steps_.size());
    std::ranges::partial_sort(steps_, steps_.begin() + static_cast<std::ptrdiff_t>(tried), {},
                              &Step::compute_tps_s);
    for (std::size_t i = 0; i < tried && !spent() && steps_[i].compute_tps_s < bound_s_; ++i) {
      try_step(steps_[i]);
    }
    if (best_.empty()) return false;
    take_best();
    update_times();
    return true;
  }

  // Where memory asks for it a stage runs forwards again, and that depends on its level.
  void update_times() {
    number_stages();
    const std::optional<std::vector<int>> level = levels();
    GP_CHECK(level, "the stages wait in a circle");
    for (int s = 0; s < count(); ++s) {
      RefinedStage& stage = stages_[at(s)];
      stage.tps_s = costs_.tps_at_level_s(stage.sums, stage.spans, stage.width, (*level)[at(s)]);
    }
  }

  void number_stages() {
    stage_of_.assign(context_.pieces.positions.size(), 0);
    for (int s = 0; s < count(); ++s) {
      for (const int p : stage(s).positions) stage_of_[at(p)] = s;
    }
  }

  const RefinedStage& stage(int s) const { return stages_[at(s)]; }
  int count() const { return static_cast<int>(stages_.size()); }

  // Groups of the slowest stage that may leave it: each operator, alone, with all before it
  // and with all after it in the stage.
  void list_groups() {
    groups_.clear();
    const std::vector<int>& members = stage(slowest_).positions;
    if (members.size() > kMostMembers) return;
    std::vector<std::vector<int>> before(members.size());
    std::vector<std::vector<int>> after(members.size());
    const auto index = [&](int p) {
      return static_cast<std::size_t>(std::ranges::lower_bound(members, p) - members.begin());
    };
    const auto inside = [&](int p) { return stage_of_[at(p)] == slowest_; };
    const auto join = [](std::vector<int>& set, const std::vector<int>& more, int p) {
      std::vector<int> both;
      std::ranges::set_union(set, more, std::back_inserter(both));
      const auto place = std::ranges::lower_bound(both, p);
      if (place == both.end() || *place != p) both.insert(place, p);
      set = std::move(both);
    };
    // Positions are in an order in which they can run.
    for (const auto& [from, to] : dependencies_) {
      if (inside(from) && inside(to)) join(before[index(to)], before[index(from)], from);
    }
    for (auto edge = dependencies_.rbegin(); edge != dependencies_.rend(); ++edge) {
      const auto& [from, to] = *edge;
      if (inside(from) && inside(to)) join(after[index(from)], after[index(to)], to);
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (std::vector<int>* set : {&before[i], &after[i]}) {
        if (set->empty()) continue;
        join(*set, {}, members[i]);
        if (set->size() < members.size()) groups_.push_back(group_of(std::move(*set)));
      }
    }
  }

  // Operators of the slowest stage to other stages, alone or for one of theirs, and to a new
  // stage on spare devices, on some of the stage's own, or on some of another's.
  void propose_moves() {
    list_groups();
    const std::vector<int>& members = stage(slowest_).positions;
    const bool swaps = members.size() * single_.size() <= kMostSwaps;
    for (const int p : members) {
      const Group& group = single_[at(p)];
      propose_move(group);
      if (!swaps) continue;
      const RefinedStage& slow = stage(slowest_);
      const double room_s = bound_s_ - slow.compute_tps_s + group.compute_tps_s[at(slow.width)];
      for (int s = 0; s < count(); ++s) {
        if (s == slowest_) continue;
        for (const int q : stage(s).positions) {
          const Group& back = single_[at(q)];
          if (back.compute_tps_s[at(slow.width)] < room_s) propose_swap(group, s, back);
        }
      }
    }
    for (const Group& group : groups_) propose_move(group);
  }

  void propose_swap(const Group& group, int other, const Group& back) {
    propose({{slowest_, stage(slowest_).width, &group, &back},
             {other, stage(other).width, &back, &group}});
  }

  void propose_move(const Group& group) {
    const Change leaves = {slowest_, stage(slowest_).width, &group, nullptr};
    const Change alone = {count(), 0, nullptr, &group};
    if (spare_devices() > 0) propose({leaves, alone});
    for (int s = 0; s < count(); ++s) {
      const int width = stage(s).width;
      if (s != slowest_) propose({leaves, {s, width, nullptr, &group}});
      if (width == 0) continue;
      if (s == slowest_) {
        propose({{s, width - 1, &group, nullptr}, alone});
      } else {
        propose({leaves, {s, width - 1, nullptr, nullptr}, alone});
      }
    }
  }

  // Other devices for the slowest stage: spare ones, or some of another's.
  void propose_widths() {
    const RefinedStage& slow = stage(slowest_);
    const int spare = spare_devices();
    for (int wider = slow.width + 1; wider < costs_.width_count(); ++wider) {
      const int more = costs_.width(wider) - costs_.width(slow.width);
      if (more <= spare) propose({{slowest_, wider, nullptr, nullptr}});
      for (int s = 0; s < count(); ++s) {
        if (s == slowest_) continue;
        for (int width = 0; width < stage(s).width; ++width) {
          if (more > spare + costs_.width(stage(s).width) - costs_.width(width)) continue;
          propose({{slowest_, wider, nullptr, nullptr}, {s, width, nullptr, nullptr}});
        }
      }
    }
  }

  // What the changed stage computes.
  double changed_compute_s(const Change& change) const {
    double tps = 0;
    if (change.stage < count()) {
      const RefinedStage& before = stage(change.stage);
      tps = change.width == before.width ? before.compute_tps_s
                                         : compute_tps_s(before.spans, change.width);
    }
    if (change.without != nullptr) tps -= change.without->compute_tps_s[at(change.width)];
    if (change.with != nullptr) tps += change.with->compute_tps_s[at(change.width)];
    return tps;
  }

  void propose(std::initializer_list<Change> changes) {
    double compute_tps_s = 0;
    for (const Change& change : changes) {
      compute_tps_s = std::max(compute_tps_s, changed_compute_s(change));
      if (compute_tps_s >= bound_s_) return;
    }
    Step& step = steps_.emplace_back();
    step.count = changes.size();
    step.compute_tps_s = compute_tps_s;
    std::ranges::copy(changes, step.changes.begin());
  }

  void try_step(const Step& step) {
    ++context_.work;
    looked_through_ += dependencies_.size();
    std::vector<std::pair<int, RefinedStage>> changed;
    double slowest_s = 0;
    for (const Change& change : step.all()) {
      RefinedStage next = change.stage < count() ? stage(change.stage) : RefinedStage();
      next.width = change.width;
      if (change.without != nullptr) {
        std::erase_if(next.positions, [&](int p) {
          return std::ranges::binary_search(change.without->positions, p);
        });
      }
      if (change.with != nullptr) {
        next.positions.insert(next.positions.end(), change.with->positions.begin(),
                              change.with->positions.end());
      }
      changed.emplace_back(change.stage, worked_out(std::move(next)));
      slowest_s = std::max(slowest_s, changed.back().second.tps_s);
      if (slowest_s >= bound_s_) return;
    }
    const auto put = [&](const Group* group, int s) {
      if (group == nullptr) return;
      for (const int p : group->positions) stage_of_[at(p)] = s;
    };
    for (const Change& change : step.all()) put(change.with, change.stage);
    const std::optional<double> reached_s = slowest_of(changed);
    for (const Change& change : step.all()) put(change.without, change.stage);
    if (!reached_s) return;
    bound_s_ = *reached_s;
    best_ = std::move(changed);
  }

  // The time per sample of the slowest stage that changes, with the positions where stage_of_
  // has them; none where that is not within the bound, a stage that does not change gets slower
  // than the bound, or one does not fit.
  std::optional<double> slowest_of(const std::vector<std::pair<int, RefinedStage>>& changed) const {
    const std::optional<std::vector<int>> level = levels();
    if (!level) return std::nullopt;
    const auto fits = [&](const RefinedStage& stage, int s, double limit_s) {
      return stage.positions.empty() ||
             costs_.fits(stage.sums, stage.spans, stage.width, (*level)[at(s)], limit_s);
    };
    for (int s = 0; s < count(); ++s) {
      const bool changes =
          std::ranges::any_of(changed, [&](const auto& c) { return c.first == s; });
      if (!changes && !fits(stage(s), s, std::max(bound_s_, stage(s).tps_s))) return std::nullopt;
    }
    double slowest_s = 0;
    for (const auto& [s, next] : changed) {
      if (!fits(next, s, bound_s_)) return std::nullopt;
      if (next.positions.empty()) continue;
      slowest_s = std::max(
          slowest_s, costs_.tps_at_level_s(next.sums, next.spans, next.width, (*level)[at(s)]));
    }
    return slowest_s;
  }

  void take_best() {
    for (auto& [s, next] : best_) {
      if (s == count()) stages_.emplace_back();
      stages_[at(s)] = std::move(next);
    }
    std::erase_if(stages_, [](const RefinedStage& stage) { return stage.positions.empty(); });
  }

  std::vector<StageDraft> drafts_of_stages() {
    number_stages();
    const std::optional<std::vector<int>> level = levels();
    GP_CHECK(level, "the stages wait in a circle");
    std::vector<StageDraft> drafts;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      drafts.push_back({stages_[s].spans, stages_[s].width, (*level)[s]});
    }
    std::ranges::sort(drafts, {}, [](const StageDraft& draft) { return draft.spans[0].begin; });
    return drafts;
  }

  SearchContext& context_;
  const StageCosts& costs_;
  std::vector<std::pair<int, int>> dependencies_;  // positions
  std::vector<RefinedStage> stages_;
  std::vector<int> stage_of_;  // [position]
  std::vector<Group> single_;  // [position]
  std::vector<Group> groups_;  // of the slowest stage
  int slowest_ = 0;
  std::vector<Step> steps_;  // that may gain
  double bound_s_ = 0;       // the slowest stage that the best step so far changes
  std::vector<std::pair<int, RefinedStage>> best_;  // its stages; empty: none yet
  std::size_t looked_through_ = 0;                  // dependencies
};

}  // namespace

std::vector<StageDraft> refine_stages(SearchContext& context, const StageCosts& costs,
                                      const std::vector<StageDraft>& stages) {
  return Refiner(context, costs).refine(stages);
}

}  // namespace graphpipe
