// What the planners propose for ranks of one device each trains as one device does.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/dataset.h"
#include "equivalence/cases.h"
#include "equivalence/favourite.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "models/models.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 96;
constexpr std::int64_t kMiniBatch = 14;  // with micro-batches of 4 the last is short
constexpr std::uint64_t kSeed = 31;

class Planned : public testing::TestWithParam<std::string> {};

TEST_P(Planned, PlansTrainAsOneDevice) {
  const Graph graph = load_model(GetParam());
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < kSamples; ++i) ids.push_back(i);
  Lesson lesson;
  lesson.batches = {{ids.begin(), ids.begin() + 14},
                    {ids.begin() + 14, ids.begin() + 28},
                    {ids.begin() + 28, ids.begin() + 37}};
  lesson.evaluated = {ids.begin(), ids.begin() + 20};
  lesson.options.learning_rate = 0.05;
  lesson.options.momentum = 0.9;
  for (const std::int64_t micro_batch : {1, 4}) {
    const Outcome expected = train_on_one_device(graph, *dataset, lesson, micro_batch);
    for (const char* planner : {"graphpipe", "gpipe"}) {
      for (int ranks = 1; ranks <= 6; ++ranks) {
        SCOPED_TRACE(fmt::format("{} for {} ranks, micro-batch {}", planner, ranks, micro_batch));
        const Plan plan = favourite(planner_named(planner), graph, ranks, kMiniBatch, micro_batch);
        ASSERT_FALSE(plan.stages.empty());
        EXPECT_EQ(bitwise_difference(expected, train_by_plan(plan, graph, *dataset, lesson)), "");
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& model) {
  std::string name = model.param.substr(0, model.param.find(':'));
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Zoo, Planned, testing::ValuesIn(small_models()), name_of);
INSTANTIATE_TEST_SUITE_P(Mixing, Planned, testing::ValuesIn(small_mixing_models()), name_of);

}  // namespace
}  // namespace graphpipe
