#include "planners/downsets.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace graphpipe {
namespace {

constexpr std::size_t kAskEvery = 4096;

std::uint64_t hash_words(const std::uint64_t* words, std::size_t count) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (std::size_t i = 0; i < count; ++i) {
    hash = (hash ^ words[i]) * 1099511628211ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

Downsets::Downsets(const Successors& successors, std::size_t most,
                   const std::function<bool()>& should_stop)
    : nodes_(static_cast<int>(successors.size())), words_((successors.size() + 63) / 64) {
  words_ = std::max<std::size_t>(words_, 1);
  const auto n = successors.size();
  std::vector<std::vector<std::uint64_t>> needs(n, std::vector<std::uint64_t>(words_, 0));
  for (std::size_t i = 0; i < n; ++i) {
    for (const int s : successors[i])
      needs[static_cast<std::size_t>(s)][i / 64] |= 1ULL << (i % 64);
  }
  // Level by level: a set of k + 1 nodes is a set of k and a node whose predecessors it has. Sets
  // of a level are looked up by hash (lookups only: no order comes out of the table).
  bits_.assign(words_, 0);
  below_.emplace_back();
  std::size_t begin = 0;
  std::vector<std::uint64_t> next(words_);
  while (begin < below_.size()) {
    const std::size_t end = below_.size();
    std::unordered_multimap<std::uint64_t, std::size_t> level;
    for (std::size_t set = begin; set < end; ++set) {
      if (set % kAskEvery == 0 && should_stop && should_stop()) complete_ = false;
      if (!complete_) return;
      for (std::size_t node = 0; node < n; ++node) {
        const std::uint64_t* have = bits_.data() + set * words_;
        if ((have[node / 64] >> (node % 64)) & 1U) continue;
        bool ready = true;
        for (std::size_t w = 0; w < words_ && ready; ++w) ready = (needs[node][w] & ~have[w]) == 0;
        if (!ready) continue;
        std::copy(have, have + words_, next.begin());
        next[node / 64] |= 1ULL << (node % 64);
        const std::uint64_t hash = hash_words(next.data(), words_);
        std::size_t found = SIZE_MAX;
        const auto [first, last] = level.equal_range(hash);
        for (auto it = first; it != last; ++it) {
          if (std::equal(next.begin(), next.end(), bits_.data() + it->second * words_)) {
            found = it->second;
          }
        }
        if (found == SIZE_MAX) {
          if (below_.size() > most) {
            complete_ = false;
            return;
          }
          found = below_.size();
          below_.emplace_back();
          bits_.insert(bits_.end(), next.begin(), next.end());
          level.emplace(hash, found);
        }
        below_[found].push_back({set, static_cast<int>(node)});
      }
    }
    begin = end;
  }
  seen_.assign(below_.size(), 0);
}

void Downsets::inside(std::size_t set, std::vector<std::uint32_t>& inside) {
  ++round_;
  inside.clear();
  for (const Less& less : below_[set]) {
    seen_[less.set] = round_;
    inside.push_back(static_cast<std::uint32_t>(less.set));
  }
  for (std::size_t i = 0; i < inside.size(); ++i) {
    for (const Less& less : below_[inside[i]]) {
      if (seen_[less.set] == round_) continue;
      seen_[less.set] = round_;
      inside.push_back(static_cast<std::uint32_t>(less.set));
    }
  }
}

}  // namespace graphpipe
