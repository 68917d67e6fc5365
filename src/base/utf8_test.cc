#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace graphpipe {
namespace {

TEST(Utf8, HasCodePointsOfOneToFourBytes) {
  for (const char* text :
       {"", "abc", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(Utf8, HasNoOverlongFormsNoSurrogatesAndAnEnd) {
  for (const char* text :
       {"\x80", "\xc1\xbf", "\xc2", "\xc2z", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "ab\xc3"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

}  // namespace
}  // namespace graphpipe
