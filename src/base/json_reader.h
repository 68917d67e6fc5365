// Reading JSON with errors that point: every fault names the file and the JSON
// pointer ("plan.json: /stages/3/ops"), what was expected and what was found.
// Included by *_json.cc files (and models/) only: the JSON header is heavy.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace graphpipe {

using Json = nlohmann::ordered_json;

// A value with its place. Cheap to copy; the document must outlive it.
class JsonReader {
 public:
  JsonReader(const Json& value, std::string file, std::string pointer = "");

  // Throw InputError where the value is not of the kind asked for. Whole numbers
  // must be within range of int64; numbers must be finite.
  std::int64_t integer() const;
  std::int64_t integer_at_least(std::int64_t low) const;
  std::int64_t integer_between(std::int64_t low, std::int64_t high) const;
  int int_at_least(int low) const;  // and no more than an int holds
  double number() const;
  double number_at_least(double low) const;
  bool boolean() const;
  std::string string() const;
  std::uint64_t hash() const;  // 16 lower-case hexadecimal digits, as hash_text() writes them

  // The head of a file form. Throws where the members "format" and "version" are not these,
  // saying what the file is not (`kind`: "a plan") and what to do about another version
  // (`remedy`: "plan anew with this program").
  void expect_format(std::string_view format, std::int64_t version, std::string_view kind,
                     std::string_view remedy) const;

  // Member of an object; the first form throws where it is missing.
  JsonReader operator[](const std::string& key) const;
  bool has(const std::string& key) const;
  // Elements of an array; members of an object in file order.
  std::vector<JsonReader> items() const;
  std::vector<std::pair<std::string, JsonReader>> members() const;

  // Throws where the object has a member that is not named here (with the nearest
  // of the known names), so that a misspelt key is never ignored in silence.
  void only(const std::vector<std::string>& known) const;

  const Json& value() const { return *value_; }
  std::string where() const;                              // "plan.json: /stages/3"
  [[noreturn]] void fail(const std::string& what) const;  // InputError(where(), what)

 private:
  const Json* value_;
  std::string file_;
  std::string pointer_;
};

// Parses text. Throws InputError("FILE:LINE:COLUMN", ...) on a syntax error, a
// duplicate key, or nesting deeper than 64.
Json parse_json(std::string_view text, const std::string& file);

}  // namespace graphpipe
