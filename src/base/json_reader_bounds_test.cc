#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_reader.h"

namespace graphpipe {
namespace {

TEST(ParseJson, RefusesWhatWouldFillTheMemory) {
  const std::string text = "{}";  // of which no more than the size is looked at
  try {
    parse_json(std::string_view(text.data(), (std::size_t{256} << 20) + 1), "f.json");
    FAIL() << "it was read";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "f.json: 268435457 bytes of JSON, expected at most 268435456");
  }
}

TEST(JsonReader, IntegersHaveBothBounds) {
  const auto refusal = [](const std::string& value, const auto& ask) -> std::string {
    const Json document = parse_json("[" + value + "]", "f.json");
    try {
      ask(JsonReader(document, "f.json").items()[0]);
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  const auto port = [](const JsonReader& json) { json.integer_between(0, 65535); };
  EXPECT_EQ(refusal("65535", port), "");
  EXPECT_EQ(refusal("70000", port),
            "f.json: /0: expected a whole number of at most 65535, found 70000");
  EXPECT_EQ(refusal("-1", port), "f.json: /0: expected a whole number of at least 0, found -1");
  EXPECT_EQ(refusal("4294967297", [](const JsonReader& json) { json.int_at_least(0); }),
            "f.json: /0: expected a whole number of at most 2147483647, found 4294967297");
}

}  // namespace
}  // namespace graphpipe
