// The models of other papers, at small size: training by any plan equals training on one device.
// To the last bit where a tensor's gradient is the sum of two at most and no stages share a
// parameter, for then no order of sums is the plan's; else by norm in float64.

#include <gtest/gtest.h>

#include <algorithm>

#include "data/dataset.h"
#include "equivalence/cases.h"
#include "equivalence/favourite.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "models/models.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 128;
constexpr std::uint64_t kSeed = 606;
constexpr std::size_t kCases = 3;  // of each model; bench/equality has more
constexpr double kTolerance = 1e-11;
constexpr int kRanks = 4;
constexpr std::size_t kSteps = 40;
constexpr std::int64_t kMiniBatch = 14;  // with micro-batches of 4 the last is short

class ZooInEveryBit : public testing::TestWithParam<std::string> {};
class ZooByNorm : public testing::TestWithParam<std::string> {};
class ZooAgainstAFullBatch : public testing::TestWithParam<std::string> {};
class ZooLearns : public testing::TestWithParam<std::string> {};
class ZooTiedTable : public testing::TestWithParam<std::string> {};

std::string name_of(const testing::TestParamInfo<std::string>& model) {
  std::string name = model.param.substr(0, model.param.find(':'));
  std::erase(name, '-');
  return name + (model.param.find("batch_norm=1") != std::string::npos ? "WithBatchNorms" : "");
}

struct Trial {
  std::string name;
  Plan plan;
  Lesson lesson;
};

// Plans cut at random, and the planner's.
std::vector<Trial> trials(const std::string& model, const Graph& graph) {
  std::vector<Trial> list;
  for (const EqualityCase& c : sampled_cases(model, kCases, kSeed)) {
    const Plan plan = plan_of(c, graph);
    list.push_back({to_text(c), plan, lesson_of(c, plan, kSamples)});
  }
  const Plan plan = favourite(planner_named("graphpipe"), graph, kRanks, kMiniBatch, kMicroBatch);
  list.push_back({model + " by graphpipe", plan, lesson_of({.model = model}, plan, kSamples)});
  return list;
}

TEST_P(ZooInEveryBit, WithTheSameMicroBatches) {
  const Graph graph = load_model(GetParam());
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  for (const auto& [name, plan, lesson] : trials(GetParam(), graph)) {
    SCOPED_TRACE(name);
    const Outcome expected =
        train_on_one_device(graph, *dataset, lesson, plan.stages[0].micro_batch);
    EXPECT_EQ(bitwise_difference(expected, train_by_plan(plan, graph, *dataset, lesson)), "");
  }
}

void expect_equal_by_norm(const std::string& model, bool full_batch) {
  const Graph graph = load_model(model, DType::kFloat64);
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  for (const auto& [name, plan, drawn] : trials(model, graph)) {
    SCOPED_TRACE(name);
    const Lesson lesson = with_plain_sgd(drawn);
    const Outcome expected = train_on_one_device(
        graph, *dataset, lesson, full_batch ? plan.mini_batch : plan.stages[0].micro_batch);
    const Outcome got = train_by_plan(plan, graph, *dataset, lesson);
    const Difference difference = largest_difference(expected, got);
    EXPECT_LE(difference.relative, kTolerance) << difference.where;
    EXPECT_EQ(got.holders_differ, "");
  }
}

TEST_P(ZooByNorm, WithTheSameMicroBatches) { expect_equal_by_norm(GetParam(), false); }
TEST_P(ZooAgainstAFullBatch, InFloat64) { expect_equal_by_norm(GetParam(), true); }

// Two stages hold the table, so the equality above is that of their sum.
TEST_P(ZooTiedTable, IsHeldByTwoStages) {
  const Graph graph = load_model(GetParam());
  const auto holds = [&](const Stage& stage) {
    return std::ranges::any_of(stage_params(graph, stage.ops), [&](ParamId param) {
      return graph.param(param).name == "tokens.weight";
    });
  };
  EXPECT_EQ(
      std::ranges::count_if(
          favourite(planner_named("graphpipe"), graph, kRanks, kMiniBatch, kMicroBatch).stages,
          holds),
      2);
}

// It learns a mini-batch by heart, so its losses are of what it is to learn, and reach it all.
TEST_P(ZooLearns, ItsOwnMiniBatch) {
  const Graph graph = load_model(GetParam());
  const auto dataset = synthetic_dataset(graph, kMiniBatch, kSeed);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < kMiniBatch; ++i) ids.push_back(i);
  Lesson lesson;
  lesson.batches.assign(kSteps, ids);
  lesson.evaluated = ids;
  lesson.options.optimizer = OptimizerKind::kAdam;
  lesson.options.learning_rate = 0.02;
  const Outcome learned = train_on_one_device(graph, *dataset, lesson, kMiniBatch);
  EXPECT_LT(learned.iterations.back().loss, 0.75 * learned.iterations.front().loss);
}

std::vector<std::string> that_mix(bool mix, const std::vector<std::string>& models) {
  std::vector<std::string> list;
  for (const std::string& model : models) {
    if (sample_mixing_kinds(load_model(model)).empty() != mix) list.push_back(model);
  }
  return list;
}

std::vector<std::string> that_do_not_mix() {
  std::vector<std::string> list = that_mix(false, small_papers_models());
  const auto more = that_mix(false, small_papers_models_of_many_readers());
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

std::vector<std::string> with_tied_tables() {
  std::vector<std::string> list = small_papers_models_of_many_readers();
  std::erase_if(list, [](const std::string& model) {
    return !model.starts_with("gpt:") && !model.starts_with("bert:");
  });
  return list;
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooInEveryBit, testing::ValuesIn(small_papers_models()), name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, ZooByNorm,
                         testing::ValuesIn(that_mix(true, small_papers_models_of_many_readers())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, ZooAgainstAFullBatch, testing::ValuesIn(that_do_not_mix()), name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, ZooLearns, testing::ValuesIn(that_do_not_mix()), name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, ZooTiedTable, testing::ValuesIn(with_tied_tables()), name_of);

}  // namespace
}  // namespace graphpipe
