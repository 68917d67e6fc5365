#include "runtime/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace graphpipe {
namespace {

std::vector<float> mask(std::uint64_t seed, std::string_view op, std::int64_t iteration,
                        const std::vector<std::int64_t>& ids, std::int64_t elements,
                        double rate = 0.3) {
  std::vector<float> values(ids.size() * static_cast<std::size_t>(elements));
  fill_dropout_mask(dropout_key(seed, op, iteration), rate, ids, elements, values.data());
  return values;
}

double share_dropped(const std::vector<float>& values) {
  double zeros = 0;
  for (const float v : values) zeros += v == 0.0F;
  return zeros / static_cast<double>(values.size());
}

// Share of places where both masks drop or both keep.
double agreement(const std::vector<float>& a, const std::vector<float>& b) {
  double equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += (a[i] == 0.0F) == (b[i] == 0.0F);
  return equal / static_cast<double>(a.size());
}

TEST(Dropout, DropsTheShareThatItIsToldTo) {
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    // 100,000 draws: the standard deviation of the share is below 0.0016.
    EXPECT_NEAR(share_dropped(mask(1, "drop", 0, {3, 4, 5, 6}, 25000, rate)), rate, 0.008) << rate;
  }
}

TEST(Dropout, KeptElementsAreScaledToKeepTheMean) {
  for (const float v : mask(1, "drop", 0, {0}, 1000, 0.2)) {
    EXPECT_TRUE(v == 0.0F || v == 1.25F) << v;
  }
}

TEST(Dropout, AMaskBelongsToTheSampleAndNotToItsPlaceInTheBatch) {
  const auto both = mask(7, "drop", 3, {10, 20}, 64);
  const auto second = mask(7, "drop", 3, {20}, 64);
  EXPECT_EQ(std::vector<float>(both.begin() + 64, both.end()), second);
}

TEST(Dropout, SeedOperatorIterationAndSampleEachGiveAnotherMask) {
  const auto base = mask(1, "drop", 0, {0}, 20000, 0.5);
  const std::vector<std::vector<float>> others = {
      mask(2, "drop", 0, {0}, 20000, 0.5),  mask(1, "other", 0, {0}, 20000, 0.5),
      mask(1, "drop", 1, {0}, 20000, 0.5),  mask(1, "drop", 0, {1}, 20000, 0.5),
      mask(1, "drop", 0, {-1}, 20000, 0.5),
  };
  // Independent masks at rate 1/2 agree in half of the places, give or take 0.0035.
  for (const auto& other : others) EXPECT_NEAR(agreement(base, other), 0.5, 0.018);
}

TEST(Dropout, NeighbouringElementsAreIndependent) {
  const auto values = mask(5, "drop", 0, {42}, 100000, 0.5);
  for (const std::size_t shift : {1U, 2U, 16U, 256U, 4096U}) {
    const std::vector<float> head(values.begin(),
                                  values.end() - static_cast<std::ptrdiff_t>(shift));
    const std::vector<float> tail(values.begin() + static_cast<std::ptrdiff_t>(shift),
                                  values.end());
    EXPECT_NEAR(agreement(head, tail), 0.5, 0.008) << shift;
  }
}

TEST(Dropout, BothTypesDropTheSameElements) {
  const std::vector<std::int64_t> ids = {1, 2};
  const auto single = mask(9, "drop", 2, ids, 100);
  std::vector<double> twice(200);
  fill_dropout_mask(dropout_key(9, "drop", 2), 0.3, ids, 100, twice.data());
  for (std::size_t i = 0; i < single.size(); ++i)
    EXPECT_EQ(single[i] == 0.0F, twice[i] == 0.0) << i;
}

}  // namespace
}  // namespace graphpipe
