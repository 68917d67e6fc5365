#include "base/json_reader.h"

#include <gtest/gtest.h>

#include "base/test_fault.h"

namespace graphpipe {
namespace {

std::string parse_fault(std::string_view text) {
  return input_fault([&] { parse_json(text, "f.json"); });
}

// What the reader says about `value` when asked by `ask`.
template <typename Ask>
std::string read_fault(const std::string& value, const Ask& ask) {
  const Json document = parse_json("{\"a\": [0, " + value + "]}", "f.json");
  return input_fault([&] { ask(JsonReader(document, "f.json")["a"].items()[1]); });
}

TEST(ParseJson, ReadsADocument) {
  const Json json = parse_json(R"({"b": 1, "a": [true, null, "x\"y", 2.5, -3]})", "f.json");
  EXPECT_EQ(json.dump(), R"({"b":1,"a":[true,null,"x\"y",2.5,-3]})");
}

TEST(ParseJson, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_EQ(parse_fault("{\n  \"a\": 1,\n  \"b\": tru\n}"),
            "f.json:3:11: not valid JSON: syntax error while parsing value - invalid literal; last "
            "read: '\"b\": tru<U+000A>'");
  for (const char* blank : {"", " \n\t"}) {
    EXPECT_EQ(parse_fault(blank), "f.json:1:1: not valid JSON: there is nothing in it");
  }
  EXPECT_EQ(parse_fault("{\"a\": 1} x"),
            "f.json:1:10: not valid JSON: syntax error while parsing value - invalid literal; last "
            "read: '1} x'; expected end of input");
}

TEST(ParseJson, RefusesNumbersBeyondADouble) {
  EXPECT_EQ(parse_fault("[1,\n 1e999]"),
            "f.json:2:7: not valid JSON: number overflow parsing '1e999'");
}

TEST(ParseJson, RefusesDuplicateKeysWhereTheSecondStands) {
  EXPECT_EQ(parse_fault("{\"a\": 1,\n  \"b\": 2, \"a\": 3}"),
            "f.json:2:11: the key \"a\" stands twice in one object; keep one");
  EXPECT_EQ(parse_fault(R"({"x\"": 1, "x\"": 2})"),
            R"(f.json:1:12: the key "x\"" stands twice in one object; keep one)");
}

TEST(ParseJson, TheSameKeyInTwoObjectsIsFine) {
  EXPECT_EQ(parse_fault(R"([{"a": {"a": 1}}, {"a": [{"a": 2}]}])"), "");
}

TEST(ParseJson, RefusesDeepNesting) {
  EXPECT_EQ(parse_fault(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_EQ(parse_fault(std::string(65, '[') + std::string(65, ']')),
            "f.json:1:65: nested deeper than 64 levels");
  EXPECT_EQ(parse_fault(std::string(1000000, '[')), "f.json:1:65: nested deeper than 64 levels");
}

TEST(JsonReader, ValuesOfTheRightKindAreRead) {
  const Json document =
      parse_json(R"({"i": -5, "x": 0.5, "b": true, "s": "t", "l": [1, 2]})", "f.json");
  const JsonReader json(document, "f.json");
  EXPECT_EQ(json["i"].integer(), -5);
  EXPECT_EQ(json["i"].number(), -5);
  EXPECT_EQ(json["x"].number_at_least(0.5), 0.5);
  EXPECT_TRUE(json["b"].boolean());
  EXPECT_EQ(json["s"].string(), "t");
  EXPECT_EQ(json["l"].items().size(), 2U);
  EXPECT_EQ(json["l"].items()[1].integer_at_least(2), 2);
  EXPECT_EQ(json.members()[1].first, "x");
  EXPECT_TRUE(json.has("i"));
  EXPECT_FALSE(json.has("j"));
}

TEST(JsonReader, ValuesOfAnotherKindAreRefused) {
  const auto integer = [](const JsonReader& r) { r.integer(); };
  const auto number = [](const JsonReader& r) { r.number(); };
  const auto boolean = [](const JsonReader& r) { r.boolean(); };
  const auto string = [](const JsonReader& r) { r.string(); };
  const auto items = [](const JsonReader& r) { r.items(); };
  const auto members = [](const JsonReader& r) { r.members(); };
  EXPECT_EQ(read_fault("1.5", integer), "f.json: /a/1: expected a whole number, found 1.5");
  EXPECT_EQ(read_fault("\"x\"", integer), "f.json: /a/1: expected a whole number, found \"x\"");
  EXPECT_EQ(read_fault("9223372036854775808", integer),
            "f.json: /a/1: expected a whole number, found 9223372036854775808");
  EXPECT_EQ(read_fault("9223372036854775807", integer), "");
  EXPECT_EQ(read_fault("[1]", number), "f.json: /a/1: expected a number, found an array");
  EXPECT_EQ(read_fault("0", boolean), "f.json: /a/1: expected true or false, found 0");
  EXPECT_EQ(read_fault("null", string), "f.json: /a/1: expected a string, found null");
  EXPECT_EQ(read_fault("{}", items), "f.json: /a/1: expected an array, found an object");
  EXPECT_EQ(read_fault("[]", members), "f.json: /a/1: expected an object, found an array");
  EXPECT_EQ(read_fault('"' + std::string(60, 'x') + '"', integer),
            "f.json: /a/1: expected a whole number, found \"" + std::string(39, 'x') + "...");
}

TEST(JsonReader, BoundsAreChecked) {
  EXPECT_EQ(read_fault("0", [](const JsonReader& r) { r.integer_at_least(1); }),
            "f.json: /a/1: expected a whole number of at least 1, found 0");
  EXPECT_EQ(read_fault("-0.5", [](const JsonReader& r) { r.number_at_least(0); }),
            "f.json: /a/1: expected a number of at least 0, found -0.5");
}

TEST(JsonReader, MissingAndUnknownKeysAreNamed) {
  EXPECT_EQ(read_fault("{}", [](const JsonReader& r) { r["kind"]; }),
            "f.json: /a/1: \"kind\" is missing");
  EXPECT_EQ(read_fault("3", [](const JsonReader& r) { r["kind"]; }),
            "f.json: /a/1: expected an object, found 3");
  EXPECT_EQ(read_fault(R"({"name": 1, "knid": 2})",
                       [](const JsonReader& r) {
                         r.only({"name", "kind"});
                       }),
            "f.json: /a/1: unknown key \"knid\" (did you mean \"kind\"?); known keys: name, kind");
  EXPECT_EQ(read_fault(R"({"zzz": 2})", [](const JsonReader& r) { r.only({"name"}); }),
            "f.json: /a/1: unknown key \"zzz\"; known keys: name");
}

TEST(JsonReader, PointersEscapeSlashAndTilde) {
  const Json document = parse_json(R"({"a/b~c": "x"})", "f.json");
  const JsonReader json(document, "f.json");
  EXPECT_EQ(json.where(), "f.json");
  EXPECT_EQ(json["a/b~c"].where(), "f.json: /a~1b~0c");
}

}  // namespace
}  // namespace graphpipe
