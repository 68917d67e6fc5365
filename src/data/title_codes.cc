#include "data/movielens.h"

namespace graphpipe {
namespace {

constexpr std::size_t kTitleLength = 32;

constexpr std::int64_t kFirstLetter = 1;
constexpr std::int64_t kFirstDigit = 27;
constexpr std::int64_t kBlank = 37;
constexpr std::int64_t kPart = 38;
constexpr std::int64_t kOther = 39;

// The letters of U+00C0 to U+00FF without their accents; '*' and '/' are the signs for
// times and divide.
constexpr std::string_view kLatin1 =
    "aaaaaaaceeeeiiiidnooooo*ouuuuyts"
    "aaaaaaaceeeeiiiidnooooo/ouuuuyty";

constexpr char32_t kReplacement = 0xFFFD;

// Takes one code point off the front of non-empty UTF-8 text; what is cut short counts as
// one.
char32_t take_code_point(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t code = length == 1 ? first : first & (0xFFU >> (length + 1));
  std::size_t taken = 1;
  while (taken < length && taken < text.size() && (byte(taken) & 0xC0U) == 0x80U) {
    code = (code << 6U) | (byte(taken) & 0x3FU);
    ++taken;
  }
  text.remove_prefix(taken);
  return taken == length ? code : kReplacement;
}

bool is_combining(char32_t code) { return code >= 0x300 && code < 0x370; }

std::int64_t code_of(char32_t code) {
  if (code >= 0xC0 && code <= 0xFF) code = static_cast<unsigned char>(kLatin1[code - 0xC0]);
  if (code >= 'a' && code <= 'z') return kFirstLetter + static_cast<std::int64_t>(code - 'a');
  if (code >= 'A' && code <= 'Z') return kFirstLetter + static_cast<std::int64_t>(code - 'A');
  if (code >= '0' && code <= '9') return kFirstDigit + static_cast<std::int64_t>(code - '0');
  if (code == ' ') return kBlank;
  const bool parts = code < 128 && std::string_view("-,:;()/").find(static_cast<char>(code)) !=
                                       std::string_view::npos;
  return parts ? kPart : kOther;
}

}  // namespace

std::vector<std::int64_t> title_codes(std::string_view title) {
  std::vector<std::int64_t> codes;
  while (!title.empty() && codes.size() < kTitleLength) {
    const char32_t code = take_code_point(title);
    if (!is_combining(code)) codes.push_back(code_of(code));
  }
  codes.resize(kTitleLength, 0);
  return codes;
}

}  // namespace graphpipe
