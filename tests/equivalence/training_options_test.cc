// What changes a step (weight decay, clipping, the rate's schedule, accumulated gradients) is
// the same by any plan as on one device, to the last bit.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "equivalence/cases.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "models/models.h"
#include "runtime/parameters.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 128;
constexpr std::uint64_t kSeed = 77;
constexpr std::size_t kCases = 3;  // of each model
constexpr const char* kPlainModel =
    "candle-uno:branches=3,layers=2,hidden=8,features=6,top_layers=1";  // nothing random

struct Trial {
  std::string name;
  std::function<void(TrainOptions&)> set;
};

void use(OptimizerKind kind, TrainOptions& options) {
  options.optimizer = kind;
  options.learning_rate = kind == OptimizerKind::kAdam ? 0.01 : 0.05;
  options.momentum = kind == OptimizerKind::kSgdMomentum ? 0.9 : 0;
}

std::vector<Trial> trials() {
  std::vector<Trial> list;
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kSgdMomentum, OptimizerKind::kAdam}) {
    std::string name(optimizer_name(kind));
    std::erase(name, '-');
    list.push_back({name + "WithoutWeightDecay", [kind](TrainOptions& o) {
                      use(kind, o);
                      o.weight_decay = 0;
                    }});
    list.push_back({name + "WithWeightDecay", [kind](TrainOptions& o) {
                      use(kind, o);
                      o.weight_decay = 0.1;
                    }});
    list.push_back({name + "Clipped", [kind](TrainOptions& o) {
                      use(kind, o);
                      o.clip = 0.05;
                    }});
  }
  const auto rate = [](const std::string& text) {
    return [text](TrainOptions& o) { o.rate_schedule = parse_rate_schedule(text, ""); };
  };
  list.push_back({"RateInSteps", rate("step:1,0.3")});
  list.push_back({"RateAsACosine", rate("cosine:4,1")});
  list.push_back({"AccumulatesTwo", [](TrainOptions& o) { o.accumulate = 2; }});
  list.push_back({"AccumulatesThree", [](TrainOptions& o) { o.accumulate = 3; }});
  list.push_back({"AllAtOnce", [](TrainOptions& o) {
                    use(OptimizerKind::kAdam, o);
                    o.weight_decay = 0.1;
                    o.clip = 0.05;
                    o.rate_schedule = parse_rate_schedule("cosine:9,2", "");
                    o.accumulate = 2;
                  }});
  return list;
}

class TrainingOptions : public testing::TestWithParam<Trial> {};

TEST_P(TrainingOptions, AreBitwiseAsOnOneDevice) {
  for (const std::string& model : small_models()) {
    const Graph graph = load_model(model);
    const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
    for (const EqualityCase& c : sampled_cases(model, kCases, kSeed)) {
      SCOPED_TRACE(to_text(c));
      const Plan plan = plan_of(c, graph);
      Lesson lesson = lesson_of(c, plan, kSamples);
      lesson.batches.push_back(lesson.batches[0]);
      lesson.batches.push_back(lesson.batches[1]);  // five: neither twos nor threes come out even
      GetParam().set(lesson.options);
      const Outcome expected =
          train_on_one_device(graph, *dataset, lesson, plan.stages[0].micro_batch);
      EXPECT_EQ(bitwise_difference(expected, train_by_plan(plan, graph, *dataset, lesson)), "");
    }
  }
}

TEST_P(TrainingOptions, LeaveRoomForEvaluationsAtAnyTime) {
  const std::string model = "digits:hidden=12,dropout=200";
  const Graph graph = load_model(model);
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  const EqualityCase c = {.model = model, .ranks = 4, .micro_batches = 3, .short_last = true};
  const Plan plan = plan_of(c, graph);
  Lesson lesson = lesson_of(c, plan, kSamples);
  GetParam().set(lesson.options);
  const Outcome without = train_by_plan(plan, graph, *dataset, lesson);
  lesson.evaluates_before_each = true;
  EXPECT_EQ(bitwise_difference(without, train_by_plan(plan, graph, *dataset, lesson)), "");
}

INSTANTIATE_TEST_SUITE_P(Each, TrainingOptions, testing::ValuesIn(trials()),
                         [](const auto& trial) { return trial.param.name; });

std::vector<std::int64_t> ids(std::int64_t lo, std::int64_t hi) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = lo; i < hi; ++i) result.push_back(i);
  return result;
}

// Three stages of the plain model, four mini-batches.
class Plain {
 public:
  explicit Plain(DType floating = DType::kFloat32)
      : graph_(load_model(kPlainModel, floating)),
        dataset_(synthetic_dataset(graph_, kSamples, kSeed)) {
    lesson.batches = {ids(0, 8), ids(8, 16), ids(16, 24), ids(24, 29)};
    lesson.evaluated = ids(0, 8);
    use(OptimizerKind::kSgdMomentum, lesson.options);
  }

  Outcome train() const {
    std::size_t largest = 0;
    for (const auto& batch : lesson.batches) largest = std::max(largest, batch.size());
    const Plan plan = cut_graph(graph_, {.stages = 3,
                                         .seed = 5,
                                         .mini_batch = static_cast<std::int64_t>(largest),
                                         .micro_batch = 4});
    return train_by_plan(plan, graph_, *dataset_, lesson);
  }

  Lesson lesson;

 private:
  Graph graph_;
  std::unique_ptr<Dataset> dataset_;
};

// Only what ends a step has a result.
std::string difference_of_steps(const Outcome& expected, Outcome got) {
  std::erase_if(got.iterations, [](const IterationResult& r) { return r.grad_norm == 0; });
  EXPECT_EQ(got.iterations.size(), expected.iterations.size());
  return bitwise_difference(expected, got);
}

TEST(Accumulation, TwoMiniBatchesAreOneOfBoth) {
  Plain plain;
  plain.lesson.options.accumulate = 2;
  const Outcome in_parts = plain.train();
  plain.lesson.options.accumulate = 1;
  plain.lesson.batches = {ids(0, 16), ids(16, 29)};
  EXPECT_EQ(difference_of_steps(plain.train(), in_parts), "");
}

TEST(Accumulation, TheLastStepIsOfWhatIsLeft) {
  Plain plain;
  plain.lesson.options.accumulate = 3;
  const Outcome in_parts = plain.train();
  plain.lesson.options.accumulate = 1;
  plain.lesson.batches = {ids(0, 24), ids(24, 29)};
  EXPECT_EQ(difference_of_steps(plain.train(), in_parts), "");
}

double norm_of(const Outcome& outcome) {
  double squares = 0;
  for (const auto& [name, gradient] : outcome.gradients) squares += sum_of_squares(gradient);
  return std::sqrt(squares);
}

TEST(Clipping, ScalesAllGradientsToOneNorm) {
  Plain plain(DType::kFloat64);
  plain.lesson.batches.resize(1);
  const Outcome unclipped = plain.train();
  const double norm = unclipped.iterations[0].grad_norm;
  EXPECT_NEAR(norm_of(unclipped), norm, 1e-12 * norm);
  plain.lesson.options.clip = norm / 3;
  const Outcome clipped = plain.train();
  EXPECT_EQ(clipped.iterations[0].grad_norm, norm);  // as it was before
  EXPECT_NEAR(norm_of(clipped), norm / 3, 1e-12 * norm);
}

TEST(Clipping, TouchesNoBitBelowItsNorm) {
  Plain plain;
  const Outcome unclipped = plain.train();
  plain.lesson.options.clip = 1e6;
  EXPECT_EQ(bitwise_difference(unclipped, plain.train()), "");
}

TEST(WeightDecay, ChangesTheWeights) {
  Plain plain;
  const Outcome without = plain.train();
  plain.lesson.options.weight_decay = 0.01;
  EXPECT_NE(bitwise_difference(without, plain.train()), "");
}

TEST(RateSchedule, AStepOfRateZeroLeavesTheWeights) {
  Plain plain;
  plain.lesson.batches.resize(1);
  plain.lesson.options.rate_schedule = parse_rate_schedule("cosine:10,5", "");
  const Outcome warming_up = plain.train();
  plain.lesson.options.rate_schedule = {};
  plain.lesson.options.learning_rate = 0;
  const Outcome still = plain.train();
  EXPECT_EQ(bitwise_difference(still, warming_up), "");
  plain.lesson.options.learning_rate = 0.1;
  EXPECT_NE(bitwise_difference(still, plain.train()), "");
}

TEST(RateSchedule, CountsStepsNotMiniBatches) {
  Plain plain;
  plain.lesson.options.accumulate = 2;
  plain.lesson.options.rate_schedule = parse_rate_schedule("step:2,0.1", "");
  const Outcome of_two_steps = plain.train();
  plain.lesson.options.rate_schedule = {};
  EXPECT_EQ(bitwise_difference(plain.train(), of_two_steps), "");
}

}  // namespace
}  // namespace graphpipe
