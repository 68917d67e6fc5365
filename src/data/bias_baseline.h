// The baseline that a recommender must beat: mean + user offset + film offset, fitted
// by regularised least squares on the training split.

#pragma once

#include <cstdint>
#include <optional>

#include "data/dataset.h"

namespace graphpipe {

struct BiasBaseline {
  double validation_rmse = 0;
  double test_rmse = 0;
  double regularisation = 0;  // chosen on the validation split
};

// None where the data set has no fields in memory: "user", "film" (int64) and "rating" (float32).
std::optional<BiasBaseline> bias_baseline(const Dataset& dataset, const Split& split);

}  // namespace graphpipe
