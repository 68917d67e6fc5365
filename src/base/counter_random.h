// Random numbers by key and counter, without state: the number at (key, i) is the
// same whatever was drawn before, on whatever rank, in whatever order. Parameter
// initialisation, dropout, shuffling and seeded tests all draw from here.

#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace graphpipe {

class CounterRandom {
 public:
  // The constant keeps keys and counters apart: without it key 1, number 2 would be
  // key 2, number 1.
  explicit constexpr CounterRandom(std::uint64_t key)
      : key_(combine_hash(0x243f6a8885a308d3ULL, key)) {}

  constexpr std::uint64_t bits(std::uint64_t i) const { return combine_hash(key_, i); }

  // Uniform in [0, 1), 53 bits.
  constexpr double uniform(std::uint64_t i) const {
    return static_cast<double>(bits(i) >> 11) * 0x1.0p-53;
  }

  // Uniform in [0, n). Requires: n > 0. The bias is below n / 2^64.
  constexpr std::uint64_t below(std::uint64_t i, std::uint64_t n) const { return bits(i) % n; }

  // Standard normal (Box and Muller, the cosine half).
  double normal(std::uint64_t i) const {
    const double u = 1.0 - uniform(2 * i);  // (0, 1]
    const double v = uniform(2 * i + 1);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586477 * v);
  }

 private:
  std::uint64_t key_;
};

// Fisher and Yates, by key.
template <typename T>
void shuffle_by_key(std::vector<T>& items, std::uint64_t key) {
  const CounterRandom random(key);
  for (std::size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[random.below(i, i)]);
  }
}

}  // namespace graphpipe
