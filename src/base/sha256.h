// SHA-256 (FIPS 180-4) and its keyed form (HMAC, RFC 2104): to show that one knows a secret
// without saying it.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace graphpipe {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
Sha256 hmac_sha256(std::string_view key, std::string_view bytes);

// Takes as long wherever they differ.
bool same_digest(const Sha256& a, const Sha256& b);

}  // namespace graphpipe
