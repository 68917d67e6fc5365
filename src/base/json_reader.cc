#include "base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace graphpipe {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;  // in memory it takes many times as much
constexpr std::size_t kMaxShownLetters = 40;

// A value as it stands in "expected ..., found ...".
std::string found_text(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMaxShownLetters) text = text.substr(0, kMaxShownLetters) + "...";
  return text;
}

// One step of a JSON pointer (RFC 6901).
std::string pointer_step(const std::string& key) {
  std::string step = "/";
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

// "FILE:LINE:COLUMN" of the letter at `offset`, both from 1.
std::string place(std::string_view text, std::size_t offset, const std::string& file) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return fmt::format("{}:{}:{}", file, line, column);
}

// Walks over the text and tells how far the parser has come.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(std::string_view text, std::size_t at, std::size_t* consumed)
      : text_(text), at_(at), consumed_(consumed) {}
  reference operator*() const { return text_[at_]; }
  CountingIterator& operator++() {
    *consumed_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  std::string_view text_;
  std::size_t at_;
  std::size_t* consumed_;
};

// The offset of the quote that opens the string which ends before `end`.
std::size_t string_start(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;  // the closing quote
  while (at > 0) {
    --at;
    if (text[at] != '"') continue;
    std::size_t slashes = 0;
    while (slashes < at && text[at - 1 - slashes] == '\\') ++slashes;
    if (slashes % 2 == 0) break;
  }
  return at;
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: MESSAGE" -> MESSAGE
std::string library_message(const std::string& what) {
  const std::size_t column = what.find("column ");
  if (column != std::string::npos) {
    const std::size_t colon = what.find(": ", column);
    if (colon != std::string::npos) return what.substr(colon + 2);
  }
  const std::size_t bracket = what.find("] ");
  return bracket == std::string::npos ? what : what.substr(bracket + 2);
}

}  // namespace

JsonReader::JsonReader(const Json& value, std::string file, std::string pointer)
    : value_(&value), file_(std::move(file)), pointer_(std::move(pointer)) {}

std::string JsonReader::where() const { return pointer_.empty() ? file_ : file_ + ": " + pointer_; }

void JsonReader::fail(const std::string& what) const { throw InputError(where(), what); }

std::int64_t JsonReader::integer() const {
  const bool fits = value_->is_number_integer() &&
                    (!value_->is_number_unsigned() ||
                     value_->get<std::uint64_t>() <=
                         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits) fail("expected a whole number, found " + found_text(*value_));
  return value_->get<std::int64_t>();
}

std::int64_t JsonReader::integer_at_least(std::int64_t low) const {
  const std::int64_t n = integer();
  if (n < low) fail(fmt::format("expected a whole number of at least {}, found {}", low, n));
  return n;
}

std::int64_t JsonReader::integer_between(std::int64_t low, std::int64_t high) const {
  const std::int64_t n = integer_at_least(low);
  if (n > high) fail(fmt::format("expected a whole number of at most {}, found {}", high, n));
  return n;
}

int JsonReader::int_at_least(int low) const {
  return static_cast<int>(integer_between(low, std::numeric_limits<int>::max()));
}

double JsonReader::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) {
    fail("expected a number, found " + found_text(*value_));
  }
  return value_->get<double>();
}

double JsonReader::number_at_least(double low) const {
  const double x = number();
  if (x < low) fail(fmt::format("expected a number of at least {}, found {}", low, x));
  return x;
}

bool JsonReader::boolean() const {
  if (!value_->is_boolean()) fail("expected true or false, found " + found_text(*value_));
  return value_->get<bool>();
}

std::string JsonReader::string() const {
  if (!value_->is_string()) fail("expected a string, found " + found_text(*value_));
  return value_->get<std::string>();
}

std::uint64_t JsonReader::hash() const {
  const std::string text = string();
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || stop != end || hash_text(value) != text) {
    fail(fmt::format("expected 16 lower-case hexadecimal digits, found \"{}\"", text));
  }
  return value;
}

void JsonReader::expect_format(std::string_view format, std::int64_t version, std::string_view kind,
                               std::string_view remedy) const {
  const JsonReader its_format = (*this)["format"];
  if (const std::string found = its_format.string(); found != format) {
    its_format.fail(
        fmt::format("expected \"{}\", found \"{}\"; this is not {}", format, found, kind));
  }
  const JsonReader its_version = (*this)["version"];
  if (const std::int64_t found = its_version.integer(); found != version) {
    its_version.fail(fmt::format("expected {}, found {}; {}", version, found, remedy));
  }
}

JsonReader JsonReader::operator[](const std::string& key) const {
  if (!has(key)) fail(fmt::format("\"{}\" is missing", key));
  return {value_->at(key), file_, pointer_ + pointer_step(key)};
}

bool JsonReader::has(const std::string& key) const {
  if (!value_->is_object()) fail("expected an object, found " + found_text(*value_));
  return value_->contains(key);
}

std::vector<JsonReader> JsonReader::items() const {
  if (!value_->is_array()) fail("expected an array, found " + found_text(*value_));
  std::vector<JsonReader> readers;
  readers.reserve(value_->size());
  for (const Json& item : *value_) {
    readers.emplace_back(item, file_, fmt::format("{}/{}", pointer_, readers.size()));
  }
  return readers;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  if (!value_->is_object()) fail("expected an object, found " + found_text(*value_));
  std::vector<std::pair<std::string, JsonReader>> readers;
  for (const auto& [key, value] : value_->items()) {
    readers.emplace_back(key, JsonReader(value, file_, pointer_ + pointer_step(key)));
  }
  return readers;
}

void JsonReader::only(const std::vector<std::string>& known) const {
  for (const auto& [key, reader] : members()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_word(key, known);
    fail(fmt::format("unknown key \"{}\"{}; known keys: {}", key,
                     near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                     fmt::join(known, ", ")));
  }
}

Json parse_json(std::string_view text, const std::string& file) {
  if (text.size() > kMaxBytes) {
    throw InputError(file,
                     fmt::format("{} bytes of JSON, expected at most {}", text.size(), kMaxBytes));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw InputError(place(text, 0, file), "not valid JSON: there is nothing in it");
  }
  std::size_t consumed = 0;
  std::vector<std::set<std::string>> keys;  // of each open object; empty sets for arrays
  const Json::parser_callback_t watch = [&](int, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      keys.emplace_back();
      if (keys.size() > kMaxDepth) {
        throw InputError(place(text, consumed - 1, file),
                         fmt::format("nested deeper than {} levels", kMaxDepth));
      }
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw InputError(
          place(text, string_start(text, consumed), file),
          fmt::format("the key {} stands twice in one object; keep one", found_text(parsed)));
    }
    return true;
  };
  try {
    return Json::parse(CountingIterator(text, 0, &consumed),
                       CountingIterator(text, text.size(), &consumed), watch);
  } catch (const Json::parse_error& error) {
    throw InputError(place(text, error.byte == 0 ? 0 : error.byte - 1, file),
                     "not valid JSON: " + library_message(error.what()));
  } catch (const Json::exception& error) {
    throw InputError(place(text, consumed == 0 ? 0 : consumed - 1, file),
                     "not valid JSON: " + library_message(error.what()));
  }
}

}  // namespace graphpipe
