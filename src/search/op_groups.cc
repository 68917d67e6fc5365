#include "search/op_groups.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>

namespace graphpipe {
namespace {

// Parts of more operators are cut where 1, 2, 4, ... are on one side: one operator more or less
// gains little.
constexpr std::size_t kMostMembers = 192;

// Operators of a stage by their place in it, with what they depend on inside.
class Members {
 public:
  Members(const Graph& graph, const Ops& ops) : ops_(ops), before_(ops.size()) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const TensorId in : graph.op(ops[i]).inputs) {
        const OpId producer = graph.tensor(in).producer;
        if (!producer.valid()) continue;
        const auto from = std::ranges::lower_bound(ops, producer);
        if (from == ops.end() || *from != producer) continue;
        before_[i].push_back(static_cast<std::size_t>(from - ops.begin()));
      }
    }
  }

  std::vector<Ops> groups() {
    for (const std::vector<std::size_t>& part : parts()) {
      if (part.size() <= kMostMembers) {
        add_cones(part);
      } else {
        add_cuts(part);
      }
      add(part);
    }
    std::ranges::sort(groups_);
    const auto repeats = std::ranges::unique(groups_);
    groups_.erase(repeats.begin(), repeats.end());
    return std::move(groups_);
  }

 private:
  using Row = std::vector<std::uint64_t>;  // a bit for each operator of a part

  std::size_t root(std::vector<std::size_t>& parent, std::size_t i) const {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  }

  // What hangs together, each ascending.
  std::vector<std::vector<std::size_t>> parts() const {
    std::vector<std::size_t> parent(ops_.size());
    std::iota(parent.begin(), parent.end(), std::size_t{0});
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const std::size_t from : before_[i]) parent[root(parent, from)] = root(parent, i);
    }
    std::vector<std::vector<std::size_t>> by_root(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) by_root[root(parent, i)].push_back(i);
    std::erase_if(by_root, [](const auto& part) { return part.empty(); });
    return by_root;
  }

  void add(const std::vector<std::size_t>& members) {
    if (members.size() == ops_.size()) return;
    Ops group;
    group.reserve(members.size());
    for (const std::size_t i : members) group.push_back(ops_[i]);
    groups_.push_back(std::move(group));
  }

  // Each operator with all before it, and with all after it.
  void add_cones(const std::vector<std::size_t>& part) {
    std::vector<std::size_t> place(ops_.size());
    for (std::size_t k = 0; k < part.size(); ++k) place[part[k]] = k;
    const std::size_t words = (part.size() + 63) / 64;
    std::vector<Row> up(part.size(), Row(words, 0));
    std::vector<Row> down(part.size(), Row(words, 0));
    for (std::size_t k = 0; k < part.size(); ++k) {
      up[k][k / 64] |= std::uint64_t{1} << (k % 64);
      down[k] = up[k];
      for (const std::size_t from : before_[part[k]]) merge(up[k], up[place[from]]);
    }
    for (std::size_t k = part.size(); k-- > 0;) {
      for (const std::size_t from : before_[part[k]]) merge(down[place[from]], down[k]);
    }
    std::vector<Row> rows = std::move(up);
    rows.insert(rows.end(), std::make_move_iterator(down.begin()),
                std::make_move_iterator(down.end()));
    std::ranges::sort(rows);
    const auto repeats = std::ranges::unique(rows);
    rows.erase(repeats.begin(), repeats.end());
    for (const Row& row : rows) {
      std::vector<std::size_t> members;
      for (std::size_t k = 0; k < part.size(); ++k) {
        if ((row[k / 64] >> (k % 64) & 1) != 0) members.push_back(part[k]);
      }
      if (members.size() < part.size()) add(members);
    }
  }

  static void merge(Row& into, const Row& more) {
    for (std::size_t w = 0; w < into.size(); ++w) into[w] |= more[w];
  }

  void add_cuts(const std::vector<std::size_t>& part) {
    const auto size = static_cast<std::ptrdiff_t>(part.size());
    for (std::ptrdiff_t n = 1; n < size; n *= 2) {
      add({part.begin(), part.begin() + n});
      add({part.end() - n, part.end()});
    }
  }

  const Ops& ops_;
  std::vector<std::vector<std::size_t>> before_;  // [place]: places
  std::vector<Ops> groups_;
};

}  // namespace

std::vector<Ops> groups_that_may_leave(const Graph& graph, const Ops& ops) {
  return Members(graph, ops).groups();
}

Ops without(const Ops& ops, const Ops& part) {
  Ops rest;
  rest.reserve(ops.size());
  std::ranges::set_difference(ops, part, std::back_inserter(rest));
  return rest;
}

Ops joined(const Ops& a, const Ops& b) {
  Ops both;
  both.reserve(a.size() + b.size());
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

}  // namespace graphpipe
