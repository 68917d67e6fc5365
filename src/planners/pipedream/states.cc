#include "planners/pipedream/states.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <numeric>

namespace graphpipe {
namespace {

class Bits {
 public:
  explicit Bits(std::size_t count = 0) : words_((count + 63) / 64, 0) {}
  bool operator[](std::size_t i) const { return (words_[i / 64] >> (i % 64)) & 1U; }
  void add(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  bool inside(const Bits& other) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] & ~other.words_[w]) != 0) return false;
    }
    return true;
  }
  friend auto operator<=>(const Bits&, const Bits&) = default;

 private:
  std::vector<std::uint64_t> words_;
};

class Antichains {
 public:
  Antichains(const std::vector<PipedreamOp>& ops, const std::vector<std::vector<int>>& successors)
      : ops_(ops), needs_(ops.size()), ancestors_(ops.size()), successors_(ops.size()) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const int s : successors[i]) {
        successors_[i].push_back(static_cast<std::size_t>(s));
        needs_[successors_[i].back()].push_back(i);
      }
    }
    for (std::size_t i = 0; i < ops.size(); ++i) {
      ancestors_[i] = Bits(ops.size());
      for (const std::size_t p : needs_[i]) close(ancestors_[i], p);
    }
  }

  PipedreamStateSpace states(std::size_t source, std::size_t most,
                             const std::function<bool()>& stop) {
    Bits first(ops_.size());
    close(first, source);
    meet(first);
    PipedreamStateSpace space;
    for (std::size_t at = 0; at < found_.size(); ++at) {
      if (found_.size() > most || (stop && stop())) {
        space.complete = false;
        return space;
      }
      const Bits set = found_[at];
      for (std::size_t i = 0; i < ops_.size(); ++i) {
        if (!set[i]) continue;
        for (const std::size_t s : successors_[i]) {
          if (set[s]) continue;
          Bits next = set;
          close(next, s);
          meet(next);
        }
      }
    }
    collect(space);
    return space;
  }

 private:
  // With all that it depends on.
  void close(Bits& set, std::size_t node) const {
    std::vector<std::size_t> stack = {node};
    while (!stack.empty()) {
      const std::size_t at = stack.back();
      stack.pop_back();
      if (set[at]) continue;
      set.add(at);
      for (const std::size_t p : needs_[at]) {
        if (!set[p]) stack.push_back(p);
      }
    }
  }

  void meet(const Bits& set) {
    if (known_.try_emplace(set, found_.size()).second) found_.push_back(set);
  }

  bool is_inside(const Bits& set, const std::vector<std::size_t>& nodes) const {
    return std::ranges::all_of(nodes, [&](std::size_t s) { return set[s]; });
  }

  // The optimiser's augmented antichain: the newest operators, and those of their ancestors that
  // something reads which is no ancestor of the same one. So the fork of branches that have all
  // ended and not met is counted, although nothing will read it. What nothing reads is not sent.
  bool is_sent(const Bits& set, const std::vector<std::size_t>& newest, std::size_t node) const {
    if (successors_[node].empty()) return false;
    if (!is_inside(set, successors_[node])) return true;
    return std::ranges::any_of(newest, [&](std::size_t a) {
      return ancestors_[a][node] && std::ranges::any_of(successors_[node], [&](std::size_t reader) {
               return reader != a && !ancestors_[a][reader];
             });
    });
  }

  void collect(PipedreamStateSpace& space) const {
    std::vector<std::size_t> order(found_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<std::vector<int>> members(found_.size());
    for (std::size_t f = 0; f < found_.size(); ++f) {
      for (std::size_t i = 0; i < ops_.size(); ++i) {
        if (found_[f][i]) members[f].push_back(static_cast<int>(i));
      }
    }
    std::ranges::stable_sort(order, {}, [&](std::size_t f) { return members[f].size(); });
    for (const std::size_t f : order) {
      add_state(found_[f], members[f], space.states);
      space.ops.push_back(members[f]);
    }
    for (std::size_t j = 0; j < order.size(); ++j) {
      space.states.before.emplace_back();
      for (std::size_t i = 0; i < j; ++i) {
        if (found_[order[i]].inside(found_[order[j]])) {
          space.states.before.back().push_back(static_cast<int>(i));
        }
      }
    }
  }

  void add_state(const Bits& set, const std::vector<int>& members, PipedreamStates& states) const {
    std::vector<std::size_t> newest;
    for (const int m : members) {
      const auto i = static_cast<std::size_t>(m);
      if (std::ranges::none_of(successors_[i], [&](std::size_t s) { return set[s]; })) {
        newest.push_back(i);
      }
    }
    PipedreamOp sum;
    double cut_bytes = 0;
    for (const int m : members) {
      const auto i = static_cast<std::size_t>(m);
      sum.compute_s += ops_[i].compute_s;
      sum.activation_bytes += ops_[i].activation_bytes;
      sum.parameter_bytes += ops_[i].parameter_bytes;
      if (is_sent(set, newest, i)) cut_bytes += ops_[i].activation_bytes;
    }
    states.compute_s.push_back(sum.compute_s);
    states.activation_bytes.push_back(sum.activation_bytes);
    states.parameter_bytes.push_back(sum.parameter_bytes);
    states.cut_bytes.push_back(cut_bytes);
  }

  const std::vector<PipedreamOp>& ops_;
  std::vector<std::vector<std::size_t>> needs_;
  std::vector<Bits> ancestors_;
  std::vector<std::vector<std::size_t>> successors_;
  std::vector<Bits> found_;
  std::map<Bits, std::size_t> known_;
};

}  // namespace

PipedreamStateSpace antichain_states(const std::vector<PipedreamOp>& ops,
                                     const std::vector<std::vector<int>>& successors, int source,
                                     std::size_t most, const std::function<bool()>& should_stop) {
  return Antichains(ops, successors).states(static_cast<std::size_t>(source), most, should_stop);
}

PipedreamStateSpace prefix_states(const std::vector<PipedreamOp>& ops,
                                  const std::vector<std::vector<int>>& successors,
                                  const std::vector<int>& order) {
  PipedreamStateSpace space;
  PipedreamStates& states = space.states;
  std::vector<int> place(ops.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  PipedreamOp sum;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const PipedreamOp& op = ops[static_cast<std::size_t>(order[i])];
    sum.compute_s += op.compute_s;
    sum.activation_bytes += op.activation_bytes;
    sum.parameter_bytes += op.parameter_bytes;
    double cut_bytes = 0;
    for (std::size_t k = 0; k <= i; ++k) {
      const auto at = static_cast<std::size_t>(order[k]);
      const bool read_later = std::ranges::any_of(successors[at], [&](int s) {
        return place[static_cast<std::size_t>(s)] > static_cast<int>(i);
      });
      if (read_later) cut_bytes += ops[at].activation_bytes;
    }
    states.compute_s.push_back(sum.compute_s);
    states.activation_bytes.push_back(sum.activation_bytes);
    states.parameter_bytes.push_back(sum.parameter_bytes);
    states.cut_bytes.push_back(cut_bytes);
    states.before.emplace_back();
    std::vector<int> members(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    std::ranges::sort(members);
    space.ops.push_back(std::move(members));
  }
  return space;
}

}  // namespace graphpipe
