// Downsets of a DAG (sets that hold every predecessor of their members), by number, smaller
// ones first: the states of planners whose stages are differences of nested downsets.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace graphpipe {

using Successors = std::vector<std::vector<int>>;  // [node], of an acyclic graph

class Downsets {
 public:
  // Enumerates them, the empty one (number 0) and the whole (the last) among them; stops when there
  // are more than `most` (complete() is false then) or `should_stop` says so.
  Downsets(const Successors& successors, std::size_t most,
           const std::function<bool()>& should_stop = {});

  bool complete() const { return complete_; }
  std::size_t count() const { return below_.size(); }
  int node_count() const { return nodes_; }
  bool contains(std::size_t set, int node) const {
    return (bits(set)[static_cast<std::size_t>(node) / 64] >> (node % 64)) & 1U;
  }
  const std::uint64_t* bits(std::size_t set) const { return bits_.data() + set * words_; }
  std::size_t words() const { return words_; }

  // The downsets with one node less, with that node.
  struct Less {
    std::size_t set;
    int node;
  };
  const std::vector<Less>& below(std::size_t set) const { return below_[set]; }

  // All downsets strictly inside `set`, into `inside`, in no particular order that could differ
  // between runs. O(their number times the width).
  void inside(std::size_t set, std::vector<std::uint32_t>& inside);

 private:
  int nodes_ = 0;
  std::size_t words_ = 1;
  bool complete_ = true;
  std::vector<std::uint64_t> bits_;
  std::vector<std::vector<Less>> below_;
  std::vector<std::uint32_t> seen_;  // [set]: when inside() met it last
  std::uint32_t round_ = 0;
};

}  // namespace graphpipe
