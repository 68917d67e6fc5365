// Where a rank listens, as ranks tell one another: "ADDRESS PORT".

#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace graphpipe {

// 1 to 65535. Throws InputError(where, ...).
int parse_port(std::string_view text, const std::string& where);

// "10.0.0.1 29500" -> {"10.0.0.1", 29500}. Throws InputError(where, ...).
std::pair<std::string, int> parse_address(std::string_view text, const std::string& where);

}  // namespace graphpipe
