#include "planners/pipedream/states.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace graphpipe {
namespace {

using Bits = std::vector<bool>;

class Antichains {
 public:
  Antichains(const std::vector<PipedreamOp>& ops, const std::vector<std::vector<int>>& successors)
      : ops_(ops), successors_(successors), needs_(ops.size()) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const int s : successors[i]) needs_[static_cast<std::size_t>(s)].push_back(static_cast<int>(i));
    }
  }

  PipedreamStateSpace states(int source, std::size_t most, const std::function<bool()>& stop) {
    std::deque<std::size_t> waiting;
    Bits first(ops_.size(), false);
    close(first, source);
    meet(first, waiting);
    PipedreamStateSpace space;
    while (!waiting.empty()) {
      if (found_.size() > most || (stop && stop())) {
        space.complete = false;
        return space;
      }
      const Bits set = found_[waiting.front()];
      waiting.pop_front();
      for (std::size_t i = 0; i < set.size(); ++i) {
        if (!set[i]) continue;
        for (const int s : successors_[i]) {
          if (set[static_cast<std::size_t>(s)]) continue;
          Bits next = set;
          close(next, s);
          meet(next, waiting);
        }
      }
    }
    collect(space);
    return space;
  }

 private:
  // With all that it depends on.
  void close(Bits& set, int node) const {
    std::vector<int> stack = {node};
    while (!stack.empty()) {
      const auto at = static_cast<std::size_t>(stack.back());
      stack.pop_back();
      if (set[at]) continue;
      set[at] = true;
      for (const int p : needs_[at]) {
        if (!set[static_cast<std::size_t>(p)]) stack.push_back(p);
      }
    }
  }

  void meet(const Bits& set, std::deque<std::size_t>& waiting) {
    if (!known_.try_emplace(set, found_.size()).second) return;
    waiting.push_back(found_.size());
    found_.push_back(set);
  }

  void collect(PipedreamStateSpace& space) const {
    std::vector<std::size_t> order(found_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto size = [&](std::size_t f) { return std::ranges::count(found_[f], true); };
    std::ranges::stable_sort(order, {}, size);
    PipedreamStates& states = space.states;
    for (const std::size_t f : order) {
      const Bits& set = found_[f];
      double compute_s = 0, activation_bytes = 0, parameter_bytes = 0, cut_bytes = 0;
      std::vector<int> members;
      for (std::size_t i = 0; i < set.size(); ++i) {
        if (!set[i]) continue;
        members.push_back(static_cast<int>(i));
        compute_s += ops_[i].compute_s;
        activation_bytes += ops_[i].activation_bytes;
        parameter_bytes += ops_[i].parameter_bytes;
        const auto inside = [&](int s) { return set[static_cast<std::size_t>(s)]; };
        if (!std::ranges::all_of(successors_[i], inside)) {
          cut_bytes += ops_[i].activation_bytes;
        }
      }
      states.compute_s.push_back(compute_s);
      states.activation_bytes.push_back(activation_bytes);
      states.parameter_bytes.push_back(parameter_bytes);
      states.cut_bytes.push_back(cut_bytes);
      space.ops.push_back(std::move(members));
    }
    for (std::size_t j = 0; j < order.size(); ++j) {
      states.before.emplace_back();
      for (std::size_t i = 0; i < j; ++i) {
        if (std::ranges::includes(space.ops[j], space.ops[i])) {
          states.before.back().push_back(static_cast<int>(i));
        }
      }
    }
  }

  const std::vector<PipedreamOp>& ops_;
  const std::vector<std::vector<int>>& successors_;
  std::vector<std::vector<int>> needs_;
  std::vector<Bits> found_;
  std::map<Bits, std::size_t> known_;
};

}  // namespace

PipedreamStateSpace antichain_states(const std::vector<PipedreamOp>& ops,
                                     const std::vector<std::vector<int>>& successors, int source,
                                     std::size_t most, const std::function<bool()>& should_stop) {
  return Antichains(ops, successors).states(source, most, should_stop);
}

PipedreamStateSpace prefix_states(const std::vector<PipedreamOp>& ops,
                                  const std::vector<std::vector<int>>& successors,
                                  const std::vector<int>& order) {
  PipedreamStateSpace space;
  PipedreamStates& states = space.states;
  std::vector<int> place(ops.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
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
