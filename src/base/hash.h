// Hashes that are the same on every machine and in every run. Not for secrets.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graphpipe {

// FNV-1a, 64 bits.
constexpr std::uint64_t hash_bytes(std::string_view bytes,
                                   std::uint64_t start = 0xcbf29ce484222325ULL) {
  std::uint64_t h = start;
  for (const char c : bytes) {
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return h;
}

// The finaliser of SplitMix64: every bit of the result depends on every bit of x.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t combine_hash(std::uint64_t a, std::uint64_t b) {
  return mix_bits(a ^ mix_bits(b));
}

// 16 lower-case hexadecimal digits; how hashes stand in files.
std::string hash_text(std::uint64_t hash);

}  // namespace graphpipe
