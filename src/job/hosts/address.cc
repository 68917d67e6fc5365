#include "job/hosts/address.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace graphpipe {

int parse_port(std::string_view text, const std::string& where) {
  const std::int64_t port = parse_integer(text, where);
  if (port >= 1 && port <= 65535) return static_cast<int>(port);
  throw InputError(where, fmt::format("expected a port from 1 to 65535, found {}", port));
}

std::pair<std::string, int> parse_address(std::string_view text, const std::string& where) {
  const std::vector<std::string> words = split_text(text, ' ');
  if (words.size() == 2 && !words[0].empty()) return {words[0], parse_port(words[1], where)};
  throw InputError(where, fmt::format("expected ADDRESS PORT, found \"{}\"", text));
}

}  // namespace graphpipe
