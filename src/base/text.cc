#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace graphpipe {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 9> kByteUnits{{{"B", 1},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"KiB", 0x1p10},
                                          {"MiB", 0x1p20},
                                          {"GiB", 0x1p30},
                                          {"TiB", 0x1p40}}};

constexpr std::array<Unit, 14> kBandwidthUnits{{{"B/s", 1},
                                                {"kB/s", 1e3},
                                                {"MB/s", 1e6},
                                                {"GB/s", 1e9},
                                                {"TB/s", 1e12},
                                                {"KiB/s", 0x1p10},
                                                {"MiB/s", 0x1p20},
                                                {"GiB/s", 0x1p30},
                                                {"TiB/s", 0x1p40},
                                                {"b/s", 1.0 / 8},
                                                {"kb/s", 1e3 / 8},
                                                {"Mb/s", 1e6 / 8},
                                                {"Gb/s", 1e9 / 8},
                                                {"Tb/s", 1e12 / 8}}};

// Divisors, so that "5us" is the double nearest to 5e-6.
constexpr std::array<Unit, 4> kSecondUnits{{{"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}}};

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// The number at the front of `text`, which is moved behind it.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

struct Quantity {
  double value = 0;
  double factor = 1;  // 1 where no unit stands behind the number
};

template <std::size_t n>
Quantity parse_quantity(std::string_view text, const std::array<Unit, n>& units,
                        std::string_view expected, const std::string& where) {
  std::string_view rest = trimmed(text);
  const std::optional<double> value = take_number(rest);
  rest = trimmed(rest);
  if (value && *value >= 0) {
    if (rest.empty()) return {*value, 1};
    for (const Unit& unit : units) {
      if (rest == unit.name) return {*value, unit.factor};
    }
  }
  std::string names;
  for (const Unit& unit : units) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  throw InputError(where, fmt::format("expected {}, with one of the units {}; found \"{}\"",
                                      expected, names, text));
}

// Three significant digits.
std::string short_number(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      next[j + 1] = std::min({row[j] + (a[i] != b[j] ? 1U : 0U), row[j + 1] + 1, next[j] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) {
        next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
      }
    }
    before = row;
    std::swap(row, next);
  }
  return row[b.size()];
}

}  // namespace

std::string bytes_text(double bytes) {
  static constexpr std::array<std::string_view, 7> kNames{"B",   "KiB", "MiB", "GiB",
                                                          "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1023.5 && unit + 1 < kNames.size()) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{} {}", short_number(bytes), kNames[unit]);
}

std::string seconds_text(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size >= 0.9995) return short_number(seconds) + " s";
  if (size >= 0.9995e-3) return short_number(seconds * 1e3) + " ms";
  if (size >= 0.9995e-6) return short_number(seconds * 1e6) + " us";
  return short_number(seconds * 1e9) + " ns";
}

std::string count_text(std::int64_t n) {
  std::string text = fmt::format("{}", n);
  const int sign = n < 0 ? 1 : 0;
  for (int i = static_cast<int>(text.size()) - 3; i > sign; i -= 3) {
    text.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return text;
}

double parse_bytes(std::string_view text, const std::string& where) {
  const Quantity q =
      parse_quantity(text, kByteUnits, "a number of bytes such as 512 or 2GiB", where);
  return q.value * q.factor;
}

double parse_bandwidth(std::string_view text, const std::string& where) {
  const Quantity q = parse_quantity(
      text, kBandwidthUnits,
      "a bandwidth such as 25GiB/s or 100Gb/s (lower-case b: bits), or bytes per second", where);
  return q.value * q.factor;
}

double parse_seconds(std::string_view text, const std::string& where) {
  const Quantity q = parse_quantity(text, kSecondUnits, "a time such as 5us or 2s", where);
  return q.value / q.factor;
}

std::int64_t parse_integer(std::string_view text, const std::string& where) {
  const std::string_view digits = trimmed(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) {
    throw InputError(where,
                     fmt::format("expected a whole number of at most 63 bits, found \"{}\"", text));
  }
  if (error != std::errc() || end != digits.data() + digits.size()) {
    throw InputError(where, fmt::format("expected a whole number, found \"{}\"", text));
  }
  return value;
}

double parse_number(std::string_view text, const std::string& where) {
  std::string_view rest = trimmed(text);
  const std::optional<double> value = take_number(rest);
  if (!value || !rest.empty()) {
    throw InputError(where, fmt::format("expected a finite number, found \"{}\"", text));
  }
  return *value;
}

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> items;
  if (trimmed(text).empty()) return items;
  while (true) {
    const std::size_t end = text.find(separator);
    items.emplace_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return items;
    text.remove_prefix(end + 1);
  }
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  constexpr std::size_t kLongestWord = 100;  // the distance takes the product of two lengths
  if (word.size() > kLongestWord) return best;
  std::size_t best_distance = (word.size() + 2) / 3 + 1;  // a third of the letters may be wrong
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace graphpipe
