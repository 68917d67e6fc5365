#include "search/moves.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "graph/order.h"

namespace graphpipe {
namespace {

// A stage of more operators is cut where its work halves, quarters, ... only: one operator more
// or less gains little.
constexpr std::size_t kMostMembers = 192;

// With so many stages at most, operators are tried on all of them, else on neighbours alone.
constexpr std::size_t kMostTargets = 12;

// Operators are passed on from stage to stage over so many stages that pass them, in all.
constexpr int kMostPassed = 40;

using Ops = std::vector<OpId>;

Ops without(const Ops& ops, const Ops& part) {
  Ops rest;
  std::ranges::set_difference(ops, part, std::back_inserter(rest));
  return rest;
}

Ops joined(const Ops& a, const Ops& b) {
  Ops both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

std::vector<std::size_t> stages_of_ops(const Graph& graph, const std::vector<Stage>& stages) {
  std::vector<std::size_t> stage_of(graph.op_count());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const OpId op : stages[s].ops) stage_of[op.index()] = s;
  }
  return stage_of;
}

bool may_be_so_wide(const Problem& problem, std::size_t devices, std::int64_t micro_batch) {
  if (devices > 1 && !problem.options.data_parallel) return false;
  return static_cast<std::int64_t>(devices) <= micro_batch;
}

// A stage's operators with what they depend on inside the stage.
class Members {
 public:
  Members(const Graph& graph, const Ops& ops) : ops_(ops) {
    std::map<OpId, std::size_t> index;
    for (std::size_t i = 0; i < ops.size(); ++i) index[ops[i]] = i;
    before_.resize(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const TensorId in : graph.op(ops[i]).inputs) {
        const auto from = index.find(graph.tensor(in).producer);
        if (from != index.end()) before_[i].push_back(from->second);
      }
    }
  }

  // Operators that may leave together.
  std::vector<Ops> groups() const {
    std::set<Ops> groups;
    for (Ops& part : parts()) {
      if (part.size() <= kMostMembers) {
        add_cones(part, groups);
      } else {
        add_cuts(part, groups);
      }
      groups.insert(std::move(part));
    }
    groups.erase(ops_);
    return {groups.begin(), groups.end()};
  }

 private:
  std::size_t root(std::vector<std::size_t>& parent, std::size_t i) const {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  }

  // What hangs together, each ascending.
  std::vector<Ops> parts() const {
    std::vector<std::size_t> parent(ops_.size());
    std::iota(parent.begin(), parent.end(), std::size_t{0});
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const std::size_t from : before_[i]) parent[root(parent, from)] = root(parent, i);
    }
    std::map<std::size_t, Ops> parts;
    for (std::size_t i = 0; i < ops_.size(); ++i) parts[root(parent, i)].push_back(ops_[i]);
    std::vector<Ops> list;
    for (auto& [first, part] : parts) list.push_back(std::move(part));
    return list;
  }

  // Each operator with all before it, and with all after it.
  void add_cones(const Ops& part, std::set<Ops>& groups) const {
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (std::ranges::binary_search(part, ops_[i])) at.push_back(i);
    }
    std::vector<std::vector<char>> behind(ops_.size());  // [i][j]: j is before i
    for (const std::size_t i : at) {
      std::vector<char>& own = behind[i];
      own.assign(ops_.size(), 0);
      own[i] = 1;
      for (const std::size_t from : before_[i]) {
        for (std::size_t j = 0; j <= from; ++j) own[j] = own[j] | behind[from][j];
      }
    }
    for (const std::size_t i : at) {
      Ops up;
      Ops down;
      for (const std::size_t j : at) {
        if (behind[i][j] != 0) up.push_back(ops_[j]);
        if (behind[j][i] != 0) down.push_back(ops_[j]);
      }
      groups.insert(std::move(up));
      groups.insert(std::move(down));
    }
  }

  // Heads and tails of 1, 2, 4, ... operators.
  static void add_cuts(const Ops& part, std::set<Ops>& groups) {
    const auto size = static_cast<std::ptrdiff_t>(part.size());
    for (std::ptrdiff_t n = 1; n < size; n *= 2) {
      groups.insert(Ops(part.begin(), part.begin() + n));
      groups.insert(Ops(part.end() - n, part.end()));
    }
  }

  const Ops& ops_;
  std::vector<std::vector<std::size_t>> before_;  // indices
};

class MoveList {
 public:
  MoveList(Workbench& bench, const Layout& layout, double limit_s)
      : bench_(bench), layout_(layout), limit_s_(limit_s) {
    std::vector<bool> used(static_cast<std::size_t>(bench.problem().cluster->device_count()));
    for (const Stage& stage : layout.stages) {
      for (const DeviceId device : stage.devices) used[device.index()] = true;
    }
    for (std::size_t d = 0; d < used.size(); ++d) {
      if (!used[d]) unused_.emplace_back(d);
    }
  }

  // Replaces stages; a number one past the last is a new stage, one without operators goes.
  void add(std::vector<std::pair<std::size_t, Stage>> changed) {
    double slowest_s = 0;
    for (const auto& [s, stage] : changed) {
      if (stage.ops.empty()) continue;
      if (stage.devices.empty()) return;
      if (!may_be_so_wide(bench_.problem(), stage.devices.size(), stage.micro_batch)) return;
      slowest_s = std::max(slowest_s, bench_.stage_s(stage));
      if (slowest_s >= limit_s_) return;
    }
    Move move{layout_, slowest_s};
    for (auto& [s, stage] : changed) {
      if (s == move.layout.stages.size()) move.layout.stages.emplace_back();
      move.layout.stages[s] = std::move(stage);
    }
    std::erase_if(move.layout.stages, [](const Stage& stage) { return stage.ops.empty(); });
    moves_.push_back(std::move(move));
  }
  void add_whole(Layout layout) {
    double slowest_s = 0;
    for (const Stage& stage : layout.stages) {
      if (!may_be_so_wide(bench_.problem(), stage.devices.size(), stage.micro_batch)) return;
      slowest_s = std::max(slowest_s, bench_.stage_s(stage));
    }
    if (slowest_s < limit_s_) moves_.push_back({std::move(layout), slowest_s});
  }

  void move_operators(std::size_t from) {
    const Stage& source = layout_.stages[from];
    for (const Ops& group : Members(bench_.graph(), source.ops).groups()) {
      Stage rest = source;
      rest.ops = without(source.ops, group);
      const double rest_s = bench_.stage_s(rest);
      if (rest_s >= limit_s_) continue;
      for (const std::size_t to : targets(from, group)) {
        Stage more = layout_.stages[to];
        more.ops = joined(more.ops, group);
        add({{from, rest}, {to, std::move(more)}});
      }
      split_off(from, group);
    }
  }

  // Operators passed on from stage to stage: each gives its neighbour the least that helps it,
  // until one has room. For each neighbour alone move_operators() knows better.
  void pass_on(std::size_t from) {
    left_to_expand_ = kMostPassed;
    std::vector<bool> passed(layout_.stages.size());
    passed[from] = true;
    pass_on(layout_.stages, from, passed, 0);
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

  void merge_stages(const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
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

  // Of the given devices n, those in the stage's nodes first.
  std::vector<DeviceId> nearest(const std::vector<DeviceId>& devices, const Stage& stage,
                                std::size_t n) const {
    const Cluster& cluster = *bench_.problem().cluster;
    std::vector<DeviceId> sorted = devices;
    const auto distance = [&](DeviceId d) {
      int least = static_cast<int>(cluster.levels.size());
      for (const DeviceId own : stage.devices) {
        least = std::min(least, d == own ? 0 : level_between(cluster, d, own));
      }
      return least;
    };
    std::ranges::stable_sort(sorted, {}, distance);
    sorted.resize(std::min(n, sorted.size()));
    return sorted;
  }

  void pass_on(const std::vector<Stage>& stages, std::size_t from, std::vector<bool>& passed,
               int steps) {
    if (left_to_expand_-- == 0) return;
    const std::vector<std::size_t> stage_of = stages_of_ops(bench_.graph(), stages);
    std::map<std::size_t, std::pair<double, Ops>> least;  // by neighbour: seconds, operators
    for (Ops& group : Members(bench_.graph(), stages[from].ops).groups()) {
      const double group_s = bench_.task_s(group, stages[from]);
      const std::vector<std::size_t> near = neighbours(stage_of, from, group);
      const bool any = std::ranges::any_of(near, [&](std::size_t to) {
        return !passed[to] && (!least.contains(to) || group_s < least[to].first);
      });
      if (!any) continue;
      Stage rest = stages[from];
      rest.ops = without(rest.ops, group);
      if (bench_.stage_s(rest) >= limit_s_) continue;
      for (const std::size_t to : near) {
        if (passed[to]) continue;
        const auto [found, fresh] = least.try_emplace(to, group_s, group);
        if (!fresh && group_s < found->second.first) found->second = {group_s, group};
      }
    }
    for (const auto& [to, given] : least) {
      std::vector<Stage> changed = stages;
      changed[from].ops = without(stages[from].ops, given.second);
      changed[to].ops = joined(stages[to].ops, given.second);
      if (bench_.stage_s(changed[to]) < limit_s_) {
        if (steps > 0) add_stages(std::move(changed));
        continue;
      }
      passed[to] = true;
      pass_on(changed, to, passed, steps + 1);
      passed[to] = false;
    }
  }

  void add_stages(std::vector<Stage> stages) {
    Layout changed = layout_;
    changed.stages = std::move(stages);
    add_whole(std::move(changed));
  }

  std::vector<std::size_t> neighbours(const std::vector<std::size_t>& stage_of, std::size_t from,
                                      const Ops& group) const {
    std::vector<std::size_t> near;
    for (const OpId op : group) {
      for (const OpId other : bench_.neighbours(op)) {
        const std::size_t s = stage_of[other.index()];
        if (s != from && std::ranges::find(near, s) == near.end()) near.push_back(s);
      }
    }
    std::ranges::sort(near);
    return near;
  }

  std::vector<std::size_t> targets(std::size_t from, const Ops& group) const {
    const std::size_t count = layout_.stages.size();
    std::vector<bool> wanted(count, count <= kMostTargets);
    if (count > kMostTargets) {
      const std::vector<std::size_t> stage_of = stages_of_ops(bench_.graph(), layout_.stages);
      for (const OpId op : group) {
        for (const OpId other : bench_.neighbours(op)) wanted[stage_of[other.index()]] = true;
      }
    }
    std::vector<std::size_t> targets;
    for (std::size_t s = 0; s < count; ++s) {
      if (wanted[s] && s != from) targets.push_back(s);
    }
    return targets;
  }

  // A stage of its own, on unused devices or on a fair share of the stage's.
  void split_off(std::size_t from, const Ops& group) {
    const Stage& source = layout_.stages[from];
    Stage alone = source;
    alone.ops = group;
    Stage rest = source;
    rest.ops = without(source.ops, group);
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
    const double share = bench_.task_s(group, source) / bench_.task_s(source.ops, source);
    const auto fair = static_cast<std::ptrdiff_t>(std::clamp<double>(
        share * static_cast<double>(width) + 0.5, 1, static_cast<double>(width - 1)));
    alone.devices.assign(source.devices.begin(), source.devices.begin() + fair);
    rest.devices.assign(source.devices.begin() + fair, source.devices.end());
    add({{from, std::move(rest)}, {layout_.stages.size(), std::move(alone)}});
  }

  Workbench& bench_;
  const Layout& layout_;
  double limit_s_;
  std::vector<DeviceId> unused_;
  std::vector<Move> moves_;
  int left_to_expand_ = 0;
};

// Pairs that send to one another or to the same stage.
std::vector<std::pair<std::size_t, std::size_t>> near_pairs(Workbench& bench,
                                                            const Layout& layout) {
  const std::vector<std::size_t> stage_of = stages_of_ops(bench.graph(), layout.stages);
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
        Layout changed = layout;
        changed.stages[s].micro_batch = other;
        list.add_whole(std::move(changed));
      }
    }
    for (const int k : options.kfkb) {
      if (k == layout.stages[s].kfkb) continue;
      Layout changed = layout;
      changed.stages[s].kfkb = k;
      list.add_whole(std::move(changed));
      if (s > 0) continue;
      changed = layout;
      for (Stage& stage : changed.stages) stage.kfkb = k;
      list.add_whole(std::move(changed));
    }
  }
}

}  // namespace

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
    Layout changed = layout;
    for (Stage& stage : changed.stages) stage.micro_batch = other;
    list.add_whole(std::move(changed));
  }
  add_own_sizes(list, layout, problem.options, sizes);
  for (const std::int64_t hops :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, Layout::kAllInFlight}) {
    if (hops == layout.hops || layout.stages.size() == 1) continue;
    Layout changed = layout;
    changed.hops = hops;
    list.add_whole(std::move(changed));
  }
  list.merge_stages(near_pairs(bench, layout));
  return list.take();
}

std::vector<Move> placement_moves(Workbench& bench, const Layout& layout, const Plan& plan) {
  const Cluster& cluster = *bench.problem().cluster;
  const auto bytes = [&](const std::vector<Stage>& stages) {
    std::map<OpId, const Stage*> by_first;
    for (const Stage& stage : stages) by_first[stage.ops.front()] = &stage;
    double total = 0;
    for (const StageEdge& edge : plan.edges) {
      const Stage& from = *by_first.at(plan.stage(edge.from).ops.front());
      const Stage& to = *by_first.at(plan.stage(edge.to).ops.front());
      double apart = 0;
      for (const DeviceId a : from.devices) {
        for (const DeviceId b : to.devices) apart += level_between(cluster, a, b) > 0 ? 1 : 0;
      }
      double per_sample = 0;
      for (const TensorId tensor : edge.tensors) {
        per_sample += static_cast<double>(tensor_bytes(bench.graph().tensor(tensor), 1));
      }
      total += per_sample * apart / static_cast<double>(from.devices.size() * to.devices.size());
    }
    return total;
  };
  const double now = bytes(layout.stages);
  std::vector<Move> moves;
  for (std::size_t a = 0; a < layout.stages.size(); ++a) {
    for (std::size_t b = a + 1; b < layout.stages.size(); ++b) {
      const Stage& left = layout.stages[a];
      const Stage& right = layout.stages[b];
      if (left.devices.size() != right.devices.size()) continue;
      Layout swapped = layout;
      std::swap(swapped.stages[a].devices, swapped.stages[b].devices);
      const double then = bytes(swapped.stages);
      if (then < now) moves.push_back({std::move(swapped), then});
    }
  }
  std::ranges::stable_sort(moves, {}, &Move::slowest_s);
  return moves;
}

}  // namespace graphpipe
