#include "data/bias_baseline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/counter_random.h"
#include "data/memory_dataset.h"

namespace graphpipe {
namespace {

constexpr int kUsers = 20;
constexpr int kFilms = 30;

// Each user rates each film: mean + user offset + film offset + noise.
std::unique_ptr<MemoryDataset> ratings(double noise, std::int64_t id_step = 1) {
  const CounterRandom random(5);
  std::vector<std::int64_t> user;
  std::vector<std::int64_t> film;
  std::vector<float> rating;
  for (int u = 0; u < kUsers; ++u) {
    for (int f = 0; f < kFilms; ++f) {
      user.push_back(u * id_step);
      film.push_back(f * id_step);
      const double stars = 3.5 + 0.05 * (u - 10) + 0.03 * (f - 15);
      rating.push_back(static_cast<float>(stars + noise * random.normal(rating.size())));
    }
  }
  auto dataset = std::make_unique<MemoryDataset>("ratings", kUsers * kFilms);
  dataset->add("user", {}, std::span<const std::int64_t>(user));
  dataset->add("film", {}, std::span<const std::int64_t>(film));
  dataset->add("rating", {}, std::span<const float>(rating));
  return dataset;
}

float rating_at(const Dataset& dataset, std::int64_t sample) {
  return reinterpret_cast<const float*>(dataset.field("rating")->data)[sample];
}

// RMSE of the best constant: what offsets must beat.
double rmse_of_mean(const Dataset& dataset, const Split& split) {
  double mean = 0;
  for (const std::int64_t s : split.train) mean += rating_at(dataset, s);
  mean /= static_cast<double>(split.train.size());
  double sum = 0;
  for (const std::int64_t s : split.test) sum += std::pow(rating_at(dataset, s) - mean, 2);
  return std::sqrt(sum / static_cast<double>(split.test.size()));
}

TEST(BiasBaseline, FindsOffsetsWithoutNoise) {
  const auto dataset = ratings(0);
  const Split split = split_dataset(dataset->samples(), 1);
  const auto baseline = bias_baseline(*dataset, split);
  ASSERT_TRUE(baseline);
  // What is left is the pull of the penalty, which is then best at its weakest.
  EXPECT_LT(baseline->test_rmse, 0.05 * rmse_of_mean(*dataset, split));
  EXPECT_EQ(baseline->regularisation, 0.5);
}

TEST(BiasBaseline, NoiseIsWhatRemainsAndAsksForAStrongerPenalty) {
  const auto dataset = ratings(1);
  const Split split = split_dataset(dataset->samples(), 1);
  const auto baseline = bias_baseline(*dataset, split);
  ASSERT_TRUE(baseline);
  EXPECT_LT(baseline->test_rmse, rmse_of_mean(*dataset, split));
  EXPECT_GT(baseline->test_rmse, 0.8);
  EXPECT_LT(baseline->test_rmse, 1.2);
  EXPECT_GT(baseline->regularisation, 0.5);
}

TEST(BiasBaseline, TestRatingsDoNotMatterToTheFit) {
  const auto dataset = ratings(0.5);
  Split split = split_dataset(dataset->samples(), 1);
  const auto with = bias_baseline(*dataset, split);
  split.test.resize(split.test.size() / 2);
  const auto with_fewer = bias_baseline(*dataset, split);
  EXPECT_EQ(with->validation_rmse, with_fewer->validation_rmse);
  EXPECT_NE(with->test_rmse, with_fewer->test_rmse);
}

TEST(BiasBaseline, IdsNeedNotBeDense) {
  const auto dense = ratings(0.5);
  const auto sparse = ratings(0.5, std::int64_t{1} << 40);
  const Split split = split_dataset(dense->samples(), 1);
  EXPECT_EQ(bias_baseline(*dense, split)->test_rmse, bias_baseline(*sparse, split)->test_rmse);
}

// The plain way: gradient descent on the penalised sum of squares, until it rests.
TEST(BiasBaseline, SolvesThePenalisedLeastSquares) {
  const auto dataset = ratings(0.5);
  const Split split = split_dataset(dataset->samples(), 1);
  const auto baseline = bias_baseline(*dataset, split);
  double mean = 0;
  for (const std::int64_t s : split.train) mean += rating_at(*dataset, s);
  mean /= static_cast<double>(split.train.size());
  std::vector<double> b(kUsers + kFilms, 0.0);
  const auto error = [&](std::int64_t s) {
    return mean + b[static_cast<std::size_t>(s / kFilms)] +
           b[static_cast<std::size_t>(kUsers + s % kFilms)] - rating_at(*dataset, s);
  };
  for (int step = 0; step < 4000; ++step) {
    std::vector<double> gradient(b.size());
    for (std::size_t i = 0; i < b.size(); ++i) gradient[i] = baseline->regularisation * b[i];
    for (const std::int64_t s : split.train) {
      gradient[static_cast<std::size_t>(s / kFilms)] += error(s);
      gradient[static_cast<std::size_t>(kUsers + s % kFilms)] += error(s);
    }
    for (std::size_t i = 0; i < b.size(); ++i) b[i] -= 0.01 * gradient[i];
  }
  double sum = 0;
  for (const std::int64_t s : split.test) sum += error(s) * error(s);
  EXPECT_NEAR(baseline->test_rmse, std::sqrt(sum / static_cast<double>(split.test.size())), 1e-5);
}

TEST(BiasBaseline, IsForSetsOfRatings) {
  MemoryDataset other("other", 10);
  other.add("label", {}, std::span<const std::int64_t>(std::vector<std::int64_t>(10)));
  EXPECT_FALSE(bias_baseline(other, split_dataset(10, 1)));
}

}  // namespace
}  // namespace graphpipe
