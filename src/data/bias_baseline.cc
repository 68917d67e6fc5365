// rating(u, f) ~ mean + user offset b_u + film offset b_f, the offsets drawn towards
// zero by a penalty:
//
//   sum over train of (r - mean - b_u - b_f)^2 + lambda * (sum of b_u^2 + sum of b_f^2)
//
// The baseline predictors of Koren, Bell and Volinsky, "Matrix factorization techniques
// for recommender systems", IEEE Computer 2009. Solved by turns: all b_f for given b_u,
// then all b_u for given b_f, each in closed form.

#include "data/bias_baseline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace graphpipe {
namespace {

constexpr std::array kRegularisations{0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0};
// Turns end when no offset changes by more than a millionth of a star.
constexpr double kTolerance = 1e-6;
constexpr int kMaxTurns = 500;

// Users and films by place among the ids that the data set has.
struct Ratings {
  std::vector<std::size_t> user;
  std::vector<std::size_t> film;
  std::vector<double> rating;
};

template <typename T>
std::vector<T> values_of(const Field& field, const std::vector<std::int64_t>& samples) {
  std::vector<T> values(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::memcpy(&values[i], field.data + samples[i] * field.bytes_per_sample(), sizeof(T));
  }
  return values;
}

std::vector<std::int64_t> distinct_values(const Field& field, const Split& split) {
  std::vector<std::int64_t> all;
  for (const auto* part : {&split.train, &split.validation, &split.test}) {
    const auto values = values_of<std::int64_t>(field, *part);
    all.insert(all.end(), values.begin(), values.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<std::size_t> places(const std::vector<std::int64_t>& sorted,
                                const std::vector<std::int64_t>& values) {
  std::vector<std::size_t> found;
  for (const std::int64_t value : values) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
    found.push_back(static_cast<std::size_t>(at - sorted.begin()));
  }
  return found;
}

const Field* scalar_field(const Dataset& dataset, const std::string& name, DType dtype) {
  const Field* field = dataset.field(name);
  return field && field->dtype == dtype && field->shape.empty() ? field : nullptr;
}

struct Offsets {
  double mean = 0;
  std::vector<double> user;
  std::vector<double> film;
};

// The best offsets of one side (`ids`) for given offsets of the `other` side. Returns
// the largest change.
double solve_side(const Ratings& train, double mean, double regularisation,
                  const std::vector<std::size_t>& ids, const std::vector<std::size_t>& other_ids,
                  const std::vector<double>& other, std::vector<double>& offsets) {
  std::vector<double> sums(offsets.size(), 0.0);
  std::vector<double> counts(offsets.size(), 0.0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    sums[ids[i]] += train.rating[i] - mean - other[other_ids[i]];
    counts[ids[i]] += 1;
  }
  double largest = 0;
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    const double solved = sums[k] / (counts[k] + regularisation);
    largest = std::max(largest, std::abs(solved - offsets[k]));
    offsets[k] = solved;
  }
  return largest;
}

Offsets fit(const Ratings& train, std::size_t users, std::size_t films, double regularisation) {
  Offsets offsets;
  for (const double r : train.rating) offsets.mean += r;
  offsets.mean /= static_cast<double>(train.rating.size());
  offsets.user.assign(users, 0.0);
  offsets.film.assign(films, 0.0);
  for (int turn = 0; turn < kMaxTurns; ++turn) {
    const double film_change = solve_side(train, offsets.mean, regularisation, train.film,
                                          train.user, offsets.user, offsets.film);
    const double user_change = solve_side(train, offsets.mean, regularisation, train.user,
                                          train.film, offsets.film, offsets.user);
    if (std::max(film_change, user_change) < kTolerance) break;
  }
  return offsets;
}

double rmse(const Offsets& offsets, const Ratings& ratings) {
  double sum = 0;
  for (std::size_t i = 0; i < ratings.rating.size(); ++i) {
    const double error = offsets.mean + offsets.user[ratings.user[i]] +
                         offsets.film[ratings.film[i]] - ratings.rating[i];
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(ratings.rating.size()));
}

}  // namespace

std::optional<BiasBaseline> bias_baseline(const Dataset& dataset, const Split& split) {
  const Field* user = scalar_field(dataset, "user", DType::kInt64);
  const Field* film = scalar_field(dataset, "film", DType::kInt64);
  const Field* rating = scalar_field(dataset, "rating", DType::kFloat32);
  if (!user || !film || !rating) return std::nullopt;
  if (!user->data || !film->data || !rating->data) return std::nullopt;  // samples made by code
  const std::vector<std::int64_t> users = distinct_values(*user, split);
  const std::vector<std::int64_t> films = distinct_values(*film, split);
  const auto read = [&](const std::vector<std::int64_t>& samples) {
    const std::vector<float> values = values_of<float>(*rating, samples);
    return Ratings{places(users, values_of<std::int64_t>(*user, samples)),
                   places(films, values_of<std::int64_t>(*film, samples)),
                   {values.begin(), values.end()}};
  };
  const Ratings train = read(split.train);
  const Ratings validation = read(split.validation);
  const Ratings test = read(split.test);
  std::optional<BiasBaseline> best;
  for (const double regularisation : kRegularisations) {
    const Offsets offsets = fit(train, users.size(), films.size(), regularisation);
    const double validation_rmse = rmse(offsets, validation);
    if (best && validation_rmse >= best->validation_rmse) continue;
    best = BiasBaseline{validation_rmse, rmse(offsets, test), regularisation};
  }
  return best;
}

}  // namespace graphpipe
