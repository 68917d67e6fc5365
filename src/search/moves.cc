#include "search/moves.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "search/op_groups.h"

namespace graphpipe {
namespace {

// With so many stages at most, operators are tried on all of them, else on neighbours alone.
constexpr std::size_t kMostTargets = 12;

// Operators are passed on from stage to stage over so many stages that pass them, in all.
constexpr int kMostPassed = 40;

// Of pairs of stages that may be merged, so many with the least work.
constexpr std::size_t kMostPairs = 256;

// With more stages none are made to change places.
constexpr std::size_t kMostPlaced = 128;

// Replicas share the samples of a micro-batch, or take turns with those of the mini-batch.
bool may_be_so_wide(const Problem& problem, const Stage& stage) {
  const auto width = static_cast<std::int64_t>(stage.devices.size());
  if (width > 1 && !problem.options.data_parallel) return false;
  const bool turns = stage.replication == Replication::kRoundRobin;
  return width <= (turns ? problem.mini_batch / stage.micro_batch : stage.micro_batch);
}

class MoveList {
 public:
  MoveList(Workbench& bench, const Layout& layout, double limit_s)
      : bench_(bench), layout_(layout), limit_s_(limit_s), stage_of_(bench.graph().op_count()) {
    std::vector<bool> used(static_cast<std::size_t>(bench.problem().cluster->device_count()));
    for (std::size_t s = 0; s < layout.stages.size(); ++s) {
      for (const DeviceId device : layout.stages[s].devices) used[device.index()] = true;
      for (const OpId op : layout.stages[s].ops) stage_of_[op.index()] = s;
    }
    for (std::size_t d = 0; d < used.size(); ++d) {
      if (!used[d]) unused_.emplace_back(d);
    }
  }

  const std::vector<std::size_t>& stage_of() const { return stage_of_; }

  // Replaces stages; a number one past the last is a new stage, one without operators goes.
  void add(std::vector<std::pair<std::size_t, Stage>> changed) {
    double slowest_s = 0;
    for (auto& [s, stage] : changed) {
      if (stage.ops.empty()) continue;
      if (plans_streams(bench_.problem())) {
        stage.replication =
            stage.devices.size() > 1 ? Replication::kRoundRobin : Replication::kSplit;
      }
      if (stage.devices.empty()) return;
      if (!may_be_so_wide(bench_.problem(), stage)) return;
      slowest_s = std::max(slowest_s, bench_.stage_s(stage));
      if (slowest_s >= limit_s_) return;
    }
    moves_.push_back({std::move(changed), layout_.hops, slowest_s});
  }

  // All stages with something changed.
  template <typename Change>
  void add_for_all(Change change) {
    std::vector<std::pair<std::size_t, Stage>> changed;
    for (std::size_t s = 0; s < layout_.stages.size(); ++s) {
      changed.emplace_back(s, layout_.stages[s]);
      change(changed.back().second);
    }
    add(std::move(changed));
  }
  // Of one stage.
  template <typename Change>
  void add_for(std::size_t s, Change change) {
    Stage stage = layout_.stages[s];
    change(stage);
    add({{s, std::move(stage)}});
  }
  void add_hops(std::int64_t hops) { moves_.push_back({{}, hops, 0}); }

  void move_operators(std::size_t from) {
    const Stage& source = layout_.stages[from];
    list_kinds();
    const double all_s = bench_.compute_s(source.ops, source);
    for (const Ops& group : groups_of(source.ops)) {
      group_s_.assign(kinds_.size(), -1);
      if (all_s - group_s(group, from) >= limit_s_) continue;
      Stage rest = source;
      rest.ops = without(source.ops, group);
      for (const std::size_t to : targets(from, group)) {
        if (own_s_[to] + group_s(group, to) >= limit_s_) continue;
        Stage more = layout_.stages[to];
        more.ops = joined(more.ops, group);
        add({{from, rest}, {to, std::move(more)}});
      }
      split_off(from, group, std::move(rest));
    }
  }

  // Operators passed on from stage to stage: each gives its neighbour the least that helps it,
  // until one has room. For each neighbour alone move_operators() knows better.
  void pass_on(std::size_t from) {
    left_to_expand_ = kMostPassed;
    passed_.assign(layout_.stages.size(), false);
    passed_[from] = true;
    passing_ = {{from, layout_.stages[from].ops}};
    pass_on_the_last();
  }

  // More devices for a stage: unused ones, or one or half of another's.
  void add_devices(std::size_t to) {
    const Stage& stage = layout_.stages[to];
    for (const std::size_t n : {std::size_t{1}, stage.devices.size()}) {
      if (n > unused_.size()) break;
      add({{to, with_devices(stage, nearest(unused_, stage, n))}});
    }
    for (std::size_t s = 0; s < layout_.stages.size(); ++s) {
      const Stage& giver = layout_.stages[s];
      if (s == to || giver.devices.size() < 2) continue;
      std::set<std::size_t> counts = {1, giver.devices.size() / 2};
      for (const std::size_t n : counts) {
        const std::vector<DeviceId> given = nearest(giver.devices, stage, n);
        Stage less = giver;
        std::erase_if(less.devices,
                      [&](DeviceId d) { return std::ranges::find(given, d) != given.end(); });
        add({{s, std::move(less)}, {to, with_devices(stage, given)}});
      }
    }
  }

  void merge_stages(std::vector<std::pair<std::size_t, std::size_t>> pairs) {
    if (pairs.size() > kMostPairs) {
      list_kinds();
      std::ranges::stable_sort(
          pairs, {}, [&](const auto& pair) { return own_s_[pair.first] + own_s_[pair.second]; });
      pairs.resize(kMostPairs);
    }
    for (const auto& [a, b] : pairs) {
      Stage both = layout_.stages[a];
      const Stage& other = layout_.stages[b];
      both.ops = joined(both.ops, other.ops);
      Stage wide = with_devices(both, other.devices);
      Stage gone = other;
      gone.ops.clear();
      const Stage& larger =
          layout_.stages[a].devices.size() >= other.devices.size() ? layout_.stages[a] : other;
      both.devices = larger.devices;
      add({{a, std::move(wide)}, {b, gone}});
      add({{a, std::move(both)}, {b, std::move(gone)}});
    }
  }

  std::vector<Move> take() {
    std::ranges::stable_sort(moves_, {}, &Move::slowest_s);
    return std::move(moves_);
  }

 private:
  static Stage with_devices(Stage stage, const std::vector<DeviceId>& more) {
    stage.devices.insert(stage.devices.end(), more.begin(), more.end());
    std::ranges::sort(stage.devices);
    return stage;
  }

  std::vector<Ops> groups_of(const Ops& ops) const {
    std::vector<Ops> groups = groups_that_may_leave(bench_.graph(), ops);
    for (const Ops& group : groups) bench_.count_ops(group.size());
    return groups;
  }

  // What a stage computes now; and kinds: stages on which operators take the same.
  void list_kinds() {
    if (!own_s_.empty()) return;
    const Cluster& cluster = *bench_.problem().cluster;
    std::map<std::tuple<int, std::int64_t, std::size_t, Replication>, std::size_t> known;
    for (std::size_t s = 0; s < layout_.stages.size(); ++s) {
      const Stage& stage = layout_.stages[s];
      own_s_.push_back(bench_.compute_s(stage.ops, stage));
      const std::tuple kind{cluster.device_type[stage.devices[0].index()], stage.micro_batch,
                            stage.devices.size(), stage.replication};
      kinds_.push_back(known.try_emplace(kind, known.size()).first->second);
    }
  }

  // What the group computes on a stage, over the mini-batch.
  double group_s(const Ops& group, std::size_t stage) {
    double& known_s = group_s_[kinds_[stage]];
    if (known_s < 0) known_s = bench_.compute_s(group, layout_.stages[stage]);
    return known_s;
  }

  // Of the given devices n, those in the stage's nodes first.
  std::vector<DeviceId> nearest(const std::vector<DeviceId>& devices, const Stage& stage,
                                std::size_t n) const {
    const Cluster& cluster = *bench_.problem().cluster;
    std::vector<std::pair<int, DeviceId>> sorted;
    for (const DeviceId d : devices) {
      int least = static_cast<int>(cluster.levels.size());
      for (const DeviceId own : stage.devices) {
        least = std::min(least, d == own ? 0 : level_between(cluster, d, own));
      }
      sorted.emplace_back(least, d);
    }
    std::ranges::stable_sort(sorted, {}, &std::pair<int, DeviceId>::first);
    std::vector<DeviceId> taken;
    for (const auto& [distance, d] : sorted) {
      if (taken.size() < n) taken.push_back(d);
    }
    return taken;
  }

  // passing_: the stages that have passed something on, with what they have left, and at the end
  // the one that is to go on.
  void pass_on_the_last() {
    if (left_to_expand_ == 0) return;
    --left_to_expand_;
    const std::size_t from = passing_.back().first;
    const Ops ops = passing_.back().second;
    const Stage& source = layout_.stages[from];
    const double all_s = bench_.compute_s(ops, source);
    std::map<std::size_t, std::pair<double, Ops>> least;  // by neighbour: seconds, operators
    for (Ops& group : groups_of(ops)) {
      const double group_s = bench_.compute_s(group, source);
      if (all_s - group_s >= limit_s_) continue;
      for (const std::size_t to : neighbours(from, group)) {
        if (passed_[to]) continue;
        const auto [found, fresh] = least.try_emplace(to, group_s, group);
        if (!fresh && group_s < found->second.first) found->second = {group_s, group};
      }
    }
    for (const auto& [to, given] : least) {
      const Ops& group = given.second;
      passing_.back().second = without(ops, group);
      passing_.emplace_back(to, joined(layout_.stages[to].ops, group));
      Stage more = layout_.stages[to];
      more.ops = passing_.back().second;
      if (bench_.stage_s(more) < limit_s_) {
        if (passing_.size() > 2) add_passing();
      } else {
        for (const OpId op : group) stage_of_[op.index()] = to;
        passed_[to] = true;
        pass_on_the_last();
        passed_[to] = false;
        for (const OpId op : group) stage_of_[op.index()] = from;
      }
      passing_.pop_back();
    }
    passing_.back().second = ops;
  }

  void add_passing() {
    std::vector<std::pair<std::size_t, Stage>> changed;
    for (const auto& [s, ops] : passing_) {
      changed.emplace_back(s, layout_.stages[s]);
      changed.back().second.ops = ops;
    }
    add(std::move(changed));
  }

  std::vector<std::size_t> neighbours(std::size_t from, const Ops& group) const {
    std::vector<std::size_t> near;
    for (const OpId op : group) {
      for (const OpId other : bench_.neighbours(op)) {
        const std::size_t s = stage_of_[other.index()];
        if (s != from && std::ranges::find(near, s) == near.end()) near.push_back(s);
      }
    }
    std::ranges::sort(near);
    return near;
  }

  std::vector<std::size_t> targets(std::size_t from, const Ops& group) const {
    const std::size_t count = layout_.stages.size();
    if (count > kMostTargets) return neighbours(from, group);
    std::vector<std::size_t> targets;
    for (std::size_t s = 0; s < count; ++s) {
      if (s != from) targets.push_back(s);
    }
    return targets;
  }

  // A stage of its own, on unused devices or on a fair share of the stage's.
  void split_off(std::size_t from, const Ops& group, Stage rest) {
    const Stage& source = layout_.stages[from];
    Stage alone = source;
    alone.ops = group;
    if (!unused_.empty()) {
      alone.devices = nearest(unused_, source, source.devices.size());
      add({{from, rest}, {layout_.stages.size(), alone}});
      if (alone.devices.size() > 1) {
        alone.devices.resize(1);
        add({{from, rest}, {layout_.stages.size(), alone}});
      }
    }
    const std::size_t width = source.devices.size();
    if (width < 2) return;
    const double share = group_s(group, from) / bench_.compute_s(source.ops, source);
    const auto fair = static_cast<std::ptrdiff_t>(std::clamp<double>(
        share * static_cast<double>(width) + 0.5, 1, static_cast<double>(width - 1)));
    alone.devices.assign(source.devices.begin(), source.devices.begin() + fair);
    rest.devices.assign(source.devices.begin() + fair, source.devices.end());
    add({{from, std::move(rest)}, {layout_.stages.size(), std::move(alone)}});
  }

  Workbench& bench_;
  const Layout& layout_;
  double limit_s_;
  std::vector<std::size_t> stage_of_;  // [op]
  std::vector<DeviceId> unused_;
  std::vector<Move> moves_;
  std::vector<double> own_s_;       // [stage]
  std::vector<std::size_t> kinds_;  // [stage]
  std::vector<double> group_s_;     // [kind]: of the group at hand; below 0: not asked yet
  int left_to_expand_ = 0;
  std::vector<bool> passed_;  // [stage]
  std::vector<std::pair<std::size_t, Ops>> passing_;
};

// Pairs that send to one another or to the same stage.
std::vector<std::pair<std::size_t, std::size_t>> near_pairs(
    const Workbench& bench, const std::vector<std::size_t>& stage_of) {
  std::set<std::pair<std::size_t, std::size_t>> pairs;
  std::map<std::size_t, std::set<std::size_t>> feeders;
  for (const auto& [from, to] : bench.dependencies()) {
    const std::size_t a = stage_of[from.index()];
    const std::size_t b = stage_of[to.index()];
    if (a == b) continue;
    pairs.insert(std::minmax(a, b));
    feeders[b].insert(a);
  }
  for (const auto& [to, from] : feeders) {
    for (const std::size_t a : from) {
      for (const std::size_t b : from) {
        if (a < b) pairs.insert({a, b});
      }
    }
  }
  return {pairs.begin(), pairs.end()};
}

// The next smaller and the next larger; none where `size` is not among them.
std::vector<std::int64_t> next_sizes(const std::vector<std::int64_t>& sizes, std::int64_t size) {
  std::vector<std::int64_t> next;
  const auto at = std::ranges::find(sizes, size);
  if (at == sizes.end()) return next;
  if (at != sizes.begin()) next.push_back(*(at - 1));
  if (at + 1 != sizes.end()) next.push_back(*(at + 1));
  return next;
}

// One stage with the next larger or smaller size; other k, for all stages or one.
void add_own_sizes(MoveList& list, const Layout& layout, const PlanOptions& options,
                   const std::vector<std::int64_t>& sizes) {
  for (std::size_t s = 0; s < layout.stages.size(); ++s) {
    if (options.per_stage_micro_batch) {
      for (const std::int64_t other : next_sizes(sizes, layout.stages[s].micro_batch)) {
        list.add_for(s, [&](Stage& stage) { stage.micro_batch = other; });
      }
    }
    for (const int k : options.kfkb) {
      if (k == layout.stages[s].kfkb) continue;
      list.add_for(s, [&](Stage& stage) { stage.kfkb = k; });
      if (s == 0) list.add_for_all([&](Stage& stage) { stage.kfkb = k; });
    }
  }
}

// Bytes a sample that go from node to node, of stages on other devices than the plan's.
class NodeTraffic {
 public:
  NodeTraffic(const Workbench& bench, const Layout& layout, const Plan& plan)
      : cluster_(*bench.problem().cluster), edges_of_(layout.stages.size()) {
    std::map<OpId, std::size_t> by_first;
    for (std::size_t s = 0; s < layout.stages.size(); ++s) {
      by_first[layout.stages[s].ops.front()] = s;
      devices_.push_back(&layout.stages[s].devices);
    }
    for (const StageEdge& edge : plan.edges) {
      double bytes = 0;
      for (const TensorId tensor : edge.tensors) {
        bytes += static_cast<double>(tensor_bytes(bench.graph().tensor(tensor), 1));
      }
      const std::size_t from = by_first.at(plan.stage(edge.from).ops.front());
      const std::size_t to = by_first.at(plan.stage(edge.to).ops.front());
      edges_of_[from].push_back(edges_.size());
      edges_of_[to].push_back(edges_.size());
      edges_.push_back({from, to, bytes});
    }
  }

  // How much less there is when two stages change places.
  double saved_by(std::size_t a, std::size_t b) {
    const double before = around(a, b);
    std::swap(devices_[a], devices_[b]);
    const double after = around(a, b);
    std::swap(devices_[a], devices_[b]);
    return before - after;
  }

 private:
  struct Edge {
    std::size_t from = 0;
    std::size_t to = 0;
    double bytes = 0;
  };

  double around(std::size_t a, std::size_t b) const {
    double bytes = 0;
    for (const std::size_t edge : edges_of_[a]) bytes += bytes_apart(edges_[edge]);
    for (const std::size_t edge : edges_of_[b]) {
      const bool counted = edges_[edge].from == a || edges_[edge].to == a;
      if (!counted) bytes += bytes_apart(edges_[edge]);
    }
    return bytes;
  }

  double bytes_apart(const Edge& edge) const {
    double apart = 0;
    for (const DeviceId a : *devices_[edge.from]) {
      for (const DeviceId b : *devices_[edge.to]) {
        apart += level_between(cluster_, a, b) > 0 ? 1 : 0;
      }
    }
    const std::size_t pairs = devices_[edge.from]->size() * devices_[edge.to]->size();
    return edge.bytes * apart / static_cast<double>(pairs);
  }

  const Cluster& cluster_;
  std::vector<const std::vector<DeviceId>*> devices_;  // [stage]
  std::vector<Edge> edges_;
  std::vector<std::vector<std::size_t>> edges_of_;  // [stage]
};

}  // namespace

Layout after(const Layout& layout, const Move& move) {
  Layout next = layout;
  next.hops = move.hops;
  for (const auto& [s, stage] : move.changed) {
    if (s == next.stages.size()) next.stages.emplace_back();
    next.stages[s] = stage;
  }
  std::erase_if(next.stages, [](const Stage& stage) { return stage.ops.empty(); });
  return next;
}

std::vector<Move> moves_from(Workbench& bench, const Layout& layout, std::size_t stage,
                             double limit_s) {
  MoveList list(bench, layout, limit_s);
  list.move_operators(stage);
  list.pass_on(stage);
  list.add_devices(stage);
  return list.take();
}

std::vector<Move> whole_moves(Workbench& bench, const Layout& layout, double limit_s) {
  MoveList list(bench, layout, limit_s);
  const Problem& problem = bench.problem();
  const std::vector<std::int64_t> sizes = micro_batch_sizes(problem);
  for (const std::int64_t other : next_sizes(sizes, layout.stages[0].micro_batch)) {
    list.add_for_all([&](Stage& stage) { stage.micro_batch = other; });
  }
  add_own_sizes(list, layout, problem.options, sizes);
  for (const std::int64_t hops :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, Layout::kAllInFlight}) {
    if (hops != layout.hops && layout.stages.size() > 1) list.add_hops(hops);
  }
  list.merge_stages(near_pairs(bench, list.stage_of()));
  return list.take();
}

std::vector<Move> placement_moves(Workbench& bench, const Layout& layout, const Plan& plan) {
  std::vector<Move> moves;
  if (layout.stages.size() > kMostPlaced) return moves;
  NodeTraffic traffic(bench, layout, plan);
  for (std::size_t a = 0; a < layout.stages.size(); ++a) {
    for (std::size_t b = a + 1; b < layout.stages.size(); ++b) {
      Stage left = layout.stages[a];
      Stage right = layout.stages[b];
      if (left.devices.size() != right.devices.size()) continue;
      const double saved = traffic.saved_by(a, b);
      if (saved <= 0) continue;
      std::swap(left.devices, right.devices);
      moves.push_back({{{a, std::move(left)}, {b, std::move(right)}}, layout.hops, -saved});
    }
  }
  std::ranges::stable_sort(moves, {}, &Move::slowest_s);
  return moves;
}

}  // namespace graphpipe
