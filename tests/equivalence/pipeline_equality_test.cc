// Training by any plan equals training on one device: bitwise in float32 where the one
// device runs the same micro-batches in the same order, and norm-wise against one full
// batch. A seeded sample of the product of cases.h; bench/ runs the whole.

#include <gtest/gtest.h>

#include "data/dataset.h"
#include "equivalence/cases.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "models/models.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 128;
constexpr std::uint64_t kSeed = 20250;
constexpr std::size_t kBitwiseCases = 48;    // of each model
constexpr std::size_t kMixingCases = 24;     // of each model
constexpr std::size_t kFullBatchCases = 12;  // of each model and type

class PipelineEquality : public testing::TestWithParam<std::string> {};
class MixingEquality : public testing::TestWithParam<std::string> {};

std::string name_of(const testing::TestParamInfo<std::string>& model) {
  std::string name = model.param.substr(0, model.param.find(':'));
  std::erase(name, '-');
  return name;
}

void expect_bitwise_equality(const std::string& model, std::size_t count) {
  const Graph graph = load_model(model);
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  for (const EqualityCase& c : sampled_cases(model, count, kSeed)) {
    SCOPED_TRACE(to_text(c));
    const Plan plan = plan_of(c, graph);
    const Lesson lesson = lesson_of(c, plan, kSamples);
    const Outcome expected =
        train_on_one_device(graph, *dataset, lesson, plan.stages[0].micro_batch);
    const Outcome got = train_by_plan(plan, graph, *dataset, lesson);
    EXPECT_EQ(bitwise_difference(expected, got), "");
    for (const auto& [name, value] : expected.metrics) {
      EXPECT_NEAR(got.metrics.at(name), value, 1e-5 * std::abs(value)) << name;
    }
  }
}

TEST_P(PipelineEquality, IsBitwiseWithTheSameMicroBatches) {
  expect_bitwise_equality(GetParam(), kBitwiseCases);
}

TEST_P(MixingEquality, IsBitwiseWithTheSameMicroBatches) {
  expect_bitwise_equality(GetParam(), kMixingCases);
}

// How far one device itself is off in float32: gradients whose samples nearly cancel have few
// digits there.
double error_of_float32(const std::string& model, const EqualityCase& c, const Outcome& rounded) {
  const Graph graph = load_model(model, DType::kFloat64);
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  const Plan plan = plan_of(c, graph);
  const Lesson lesson = with_plain_sgd(lesson_of(c, plan, kSamples));
  return largest_difference(train_on_one_device(graph, *dataset, lesson, plan.mini_batch), rounded)
      .relative;
}

void expect_equal_to_full_batch(const std::string& model, DType floating, double tolerance) {
  const Graph graph = load_model(model, floating);
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  for (const EqualityCase& c : sampled_cases(model, kFullBatchCases, kSeed + 1)) {
    SCOPED_TRACE(to_text(c));
    const Plan plan = plan_of(c, graph);
    const Lesson lesson = with_plain_sgd(lesson_of(c, plan, kSamples));
    const Outcome expected = train_on_one_device(graph, *dataset, lesson, plan.mini_batch);
    const Outcome got = train_by_plan(plan, graph, *dataset, lesson);
    const Difference difference = largest_difference(expected, got);
    if (difference.relative > tolerance && floating == DType::kFloat32) {
      EXPECT_LE(difference.relative, 2 * error_of_float32(model, c, expected)) << difference.where;
    } else {
      EXPECT_LE(difference.relative, tolerance) << difference.where;
    }
  }
}

TEST_P(PipelineEquality, HoldsAgainstAFullBatchInFloat32) {
  expect_equal_to_full_batch(GetParam(), DType::kFloat32, 1e-5);
}

TEST_P(PipelineEquality, HoldsAgainstAFullBatchInFloat64) {
  expect_equal_to_full_batch(GetParam(), DType::kFloat64, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Zoo, PipelineEquality, testing::ValuesIn(small_models()), name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, MixingEquality, testing::ValuesIn(small_mixing_models()), name_of);

}  // namespace
}  // namespace graphpipe
