#include "job/profile_lines.h"

#include <gtest/gtest.h>

namespace graphpipe {
namespace {

TEST(ProfileLines, WhatIsMeasuredNext) {
  const MeasuringLine line{"linear 64x32", 0.25};
  const std::string text = to_json_line(line);
  EXPECT_EQ(text, R"({"measuring":"linear 64x32","done":0.25})");
  EXPECT_EQ(parse_measuring_line(text), line);
}

TEST(ProfileLines, OthersAreNone) {
  for (const char* line : {"", "3 of 5 measurements", "{", R"({"done":true})",
                           R"({"measuring":3,"done":0.5})", R"({"measuring":"x"})"}) {
    EXPECT_FALSE(parse_measuring_line(line)) << line;
  }
}

}  // namespace
}  // namespace graphpipe
