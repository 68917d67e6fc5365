// Numbers with units as people write and read them.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graphpipe {

// "1.50 GiB", "12 B". Three significant digits or so; for people.
std::string bytes_text(double bytes);

// "1.23 ms", "45.6 us", "2.00 s"; for people.
std::string seconds_text(double seconds);

// "1,234,567".
std::string count_text(std::int64_t n);

// "2GiB" -> 2147483648, "16GB" -> 16e9, "512" -> 512; B, kB, MB, GB, TB, KiB, MiB,
// GiB, TiB. Throws InputError(where, ...) with the accepted units.
double parse_bytes(std::string_view text, const std::string& where);

// "25GiB/s", "12.5e9", "100Gb/s" (bits: lower-case b) -> bytes per second.
double parse_bandwidth(std::string_view text, const std::string& where);

// "5us", "0.1ms", "2s", "2" -> seconds.
double parse_seconds(std::string_view text, const std::string& where);

// A whole number, nothing beside it. Throws InputError(where, ...).
std::int64_t parse_integer(std::string_view text, const std::string& where);

// A finite number, nothing beside it. Throws InputError(where, ...).
double parse_number(std::string_view text, const std::string& where);

// "a,b,c" -> {"a", "b", "c"}; "" -> {}. Blanks around items are dropped.
std::vector<std::string> split_text(std::string_view text, char separator);

// The candidate nearest to `word` by edit distance, or "" where none is near:
// for "did you mean".
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace graphpipe
