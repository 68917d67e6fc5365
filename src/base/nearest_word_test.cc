#include <gtest/gtest.h>

#include "base/text.h"

namespace graphpipe {
namespace {

// The distance takes the product of two lengths.
TEST(NearestWord, LongWordsHaveNone) {
  const std::string word(100'000, 'a');
  EXPECT_EQ(nearest_word(word, {word + "b"}), "");
}

}  // namespace
}  // namespace graphpipe
