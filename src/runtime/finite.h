// What a training run says of a number that is none.

#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace graphpipe {

// "loss is nan at iteration 3; try a smaller learning rate".
inline std::string not_finite_text(const char* name, double value, const std::string& at) {
  return fmt::format("{} is {} {}; try a smaller learning rate", name,
                     std::isnan(value) ? "nan" : "infinite", at);
}

}  // namespace graphpipe
