// Whole numbers divided, rounded up.

#pragma once

#include <cstdint>

namespace graphpipe {

// Requires: a >= 0, b > 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace graphpipe
