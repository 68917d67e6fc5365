#include "base/error.h"

#include <string_view>
#include <utility>

namespace graphpipe {

InputError::InputError(std::string where, std::string what)
    : std::runtime_error(where.empty() ? what : where + ": " + what),
      where_(std::move(where)),
      message_(std::move(what)) {}

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
  const std::string_view path(file);
  const auto src = path.rfind("/src/");
  throw InternalError(fmt::format("{}:{}: {}: {}",
                                  src == std::string_view::npos ? path : path.substr(src + 1), line,
                                  condition, message));
}

}  // namespace graphpipe
