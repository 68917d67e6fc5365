#include "base/hash.h"

#include <fmt/format.h>

namespace graphpipe {

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace graphpipe
