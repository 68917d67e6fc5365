// Numbers that the standard library says at length.

#pragma once

#include <cstddef>
#include <limits>

namespace graphpipe {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// For subscripts: values[at(i)].
constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace graphpipe
