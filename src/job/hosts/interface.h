// Addresses of this machine.

#pragma once

#include <optional>
#include <string>

namespace graphpipe {

// Numeric; IPv4 where it has one. Throws InputError(where, ...) that names those there are.
std::string address_of_interface(const std::string& interface, const std::string& where);

// Numeric; none where the name is not known.
std::optional<std::string> resolve_host(const std::string& host);
bool is_address_of_this_machine(const std::string& address);

// From which this machine would speak to that one; nothing is sent. None where there is no way.
std::optional<std::string> address_towards(const std::string& address);

// Where a rank is to listen. `interface`: "": rank 0 at the address that `host` (its own, as the
// others call it) stands for, the others where their way to it begins. Throws InputError.
std::string listening_address(bool is_rank_0, const std::string& host,
                              const std::string& interface);

}  // namespace graphpipe
