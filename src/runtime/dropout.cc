#include "runtime/dropout.h"

#include <cmath>

#include "base/hash.h"

namespace graphpipe {
namespace {

// 32-bit steps throughout, so that the compiler makes vectors of the loop below (there is
// no vector product of 64-bit numbers before AVX-512). The rounds are those of Ettinger's
// "lowbias32", with half of the key entering between them.
std::uint32_t element_bits(std::uint32_t low, std::uint32_t high, std::uint32_t element) {
  std::uint32_t x = element * 0x9e3779b9U ^ low;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= (x >> 15) ^ high;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

template <typename T>
void fill(std::uint64_t key, double rate, std::span<const std::int64_t> sample_ids,
          std::int64_t elements, T* mask) {
  const auto threshold = static_cast<std::uint32_t>(std::ldexp(rate, 32));  // rate < 1
  const T kept = static_cast<T>(1.0 / (1.0 - rate));
  for (const std::int64_t id : sample_ids) {
    const std::uint64_t sample_key = combine_hash(key, static_cast<std::uint64_t>(id));
    const auto low = static_cast<std::uint32_t>(sample_key);
    const auto high = static_cast<std::uint32_t>(sample_key >> 32);
    for (std::int64_t i = 0; i < elements; ++i) {
      const bool keep = element_bits(low, high, static_cast<std::uint32_t>(i)) >= threshold;
      mask[i] = keep ? kept : T{0};
    }
    mask += elements;
  }
}

}  // namespace

std::uint64_t dropout_key(std::uint64_t seed, std::string_view op_name, std::int64_t iteration) {
  return combine_hash(combine_hash(seed, hash_bytes(op_name)),
                      static_cast<std::uint64_t>(iteration));
}

void fill_dropout_mask(std::uint64_t key, double rate, std::span<const std::int64_t> sample_ids,
                       std::int64_t elements, float* mask) {
  fill(key, rate, sample_ids, elements, mask);
}

void fill_dropout_mask(std::uint64_t key, double rate, std::span<const std::int64_t> sample_ids,
                       std::int64_t elements, double* mask) {
  fill(key, rate, sample_ids, elements, mask);
}

}  // namespace graphpipe
