#include "base/progress.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace graphpipe {
namespace {

using Told = std::vector<std::pair<std::string, double>>;

TEST(Progress, PartsAreOfTheWhole) {
  std::vector<double> told;
  const Progress whole = [&](double done) { told.push_back(done); };
  for (std::size_t i = 0; i < 2; ++i) {
    const Progress half = part_of(whole, i, 2);
    tell(part_of(half, 1, 4), 1);
    tell(half, 1.5);
  }
  EXPECT_EQ(told, (std::vector<double>{0.25, 0.5, 0.75, 1}));
}

TEST(Progress, APhaseBeginsAtZeroAndNeverFalls) {
  Told told;
  const PhaseProgress phases = [&](const std::string& phase, double done) {
    told.emplace_back(phase, done);
  };
  const Progress first = begin_phase(phases, "first");
  for (const double done : {0.5, 0.25, 2.0}) tell(first, done);
  begin_phase(phases, "second");
  EXPECT_EQ(told,
            (Told{{"first", 0}, {"first", 0.5}, {"first", 0.5}, {"first", 1}, {"second", 0}}));
}

TEST(Progress, MayBeEmpty) {
  tell({}, 0.5);
  tell(part_of({}, 0, 1), 0.5);
  EXPECT_FALSE(begin_phase({}, "none"));
}

}  // namespace
}  // namespace graphpipe
