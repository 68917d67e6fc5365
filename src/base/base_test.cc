#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/counter_random.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/id.h"

namespace graphpipe {
namespace {

TEST(InputError, PlaceAndMessageMakeTheText) {
  const InputError error("plan.json: /stages/3", "expected 4");
  EXPECT_STREQ(error.what(), "plan.json: /stages/3: expected 4");
  EXPECT_EQ(error.where(), "plan.json: /stages/3");
  EXPECT_EQ(error.message(), "expected 4");
  EXPECT_STREQ(InputError("", "expected 4").what(), "expected 4");
}

TEST(GpCheck, SaysWhereAndWhat) {
  const int n = -1;
  std::string text;
  try {
    GP_CHECK(n > 0, "n is {}", n);
  } catch (const InternalError& error) {
    text = error.what();
  }
  EXPECT_EQ(text.substr(0, text.find(':')), "src/base/base_test.cc");
  EXPECT_EQ(text.substr(text.find(": ")), ": n > 0: n is -1");
}

TEST(Hash, IsTheSameEverywhere) {
  // FNV-1a's published values.
  EXPECT_EQ(hash_bytes(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_bytes("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_bytes("foobar"), 0x85944171f73967e8ULL);
  // SplitMix64's first output for seed 0.
  EXPECT_EQ(mix_bits(0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(hash_text(0xabcULL), "0000000000000abc");
}

TEST(Hash, CombiningKnowsTheOrder) { EXPECT_NE(combine_hash(1, 2), combine_hash(2, 1)); }

TEST(Id, DefaultIsNone) {
  EXPECT_FALSE(OpId().valid());
  EXPECT_TRUE(OpId(0).valid());
  EXPECT_LT(OpId(1), OpId(2));
}

TEST(CounterRandom, UniformHasTheRightMoments) {
  const CounterRandom random(7);
  const int n = 20000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.01);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.01);
}

TEST(CounterRandom, NormalHasTheRightMoments) {
  const CounterRandom random(8);
  const int n = 20000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.03);
  EXPECT_NEAR(squares / n, 1, 0.04);
}

TEST(CounterRandom, KeysAndCountersDiffer) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t key = 0; key < 50; ++key) {
    for (std::uint64_t i = 0; i < 50; ++i) seen.insert(CounterRandom(key).bits(i));
  }
  EXPECT_EQ(seen.size(), 2500U);
}

TEST(ShuffleByKey, IsAPermutationThatTheKeyDecides) {
  std::vector<int> first(100), second(100), other(100);
  for (auto* items : {&first, &second, &other}) std::iota(items->begin(), items->end(), 0);
  const std::vector<int> sorted = first;
  shuffle_by_key(first, 1);
  shuffle_by_key(second, 1);
  shuffle_by_key(other, 2);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_NE(first, sorted);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), sorted.begin()));
}

}  // namespace
}  // namespace graphpipe
