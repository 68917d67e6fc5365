// Dropout masks by sample: whether an element is kept depends on (seed, operator's name,
// iteration, sample id, element) and on nothing else. The library's generator would make
// it depend on the partition and on what was drawn before.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace graphpipe {

// What the masks of one operator in one iteration are keyed by.
std::uint64_t dropout_key(std::uint64_t seed, std::string_view op_name, std::int64_t iteration);

// mask: (sample_ids.size(), elements), row-major. An element is 0 with probability `rate`,
// else 1 / (1 - rate). The same elements are dropped in either type.
void fill_dropout_mask(std::uint64_t key, double rate, std::span<const std::int64_t> sample_ids,
                       std::int64_t elements, float* mask);
void fill_dropout_mask(std::uint64_t key, double rate, std::span<const std::int64_t> sample_ids,
                       std::int64_t elements, double* mask);

}  // namespace graphpipe
