// Every case of cases.h, not a sample: the table of bench/equality/README.md. Ends with 1
// where a case is not equal.

#include <fmt/format.h>

#include <cstdio>

#include "equivalence/cases.h"
#include "equivalence/partitions.h"
#include "models/models.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 128;
constexpr std::uint64_t kSeed = 1;
constexpr double kTolerance32 = 1e-5;
constexpr double kTolerance64 = 1e-11;

struct Tally {
  int bitwise = 0;
  double largest32 = 0;
  double largest64 = 0;
};

double against_full_batch(const EqualityCase& c, DType floating) {
  const Graph graph = load_model(c.model, floating);
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  const Plan plan = plan_of(c, graph);
  const Lesson lesson = with_plain_sgd(lesson_of(c, plan, kSamples));
  return largest_difference(train_on_one_device(graph, *dataset, lesson, plan.mini_batch),
                            train_by_plan(plan, graph, *dataset, lesson))
      .relative;
}

std::string bitwise(const EqualityCase& c) {
  const Graph graph = load_model(c.model);
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  const Plan plan = plan_of(c, graph);
  const Lesson lesson = lesson_of(c, plan, kSamples);
  return bitwise_difference(
      train_on_one_device(graph, *dataset, lesson, plan.stages[0].micro_batch),
      train_by_plan(plan, graph, *dataset, lesson));
}

// Whether all cases of the model are equal.
bool run_model(const std::string& model) {
  const std::vector<EqualityCase> cases = all_cases(model, kSeed);
  Tally tally;
  for (const EqualityCase& c : cases) {
    const std::string text = bitwise(c);
    if (text.empty()) {
      ++tally.bitwise;
    } else {
      fmt::print(stderr, "{}: {}\n", to_text(c), text);
    }
    tally.largest32 = std::max(tally.largest32, against_full_batch(c, DType::kFloat32));
    tally.largest64 = std::max(tally.largest64, against_full_batch(c, DType::kFloat64));
  }
  fmt::print("| {} | {} | {} | {:.1e} | {:.1e} |\n", model, cases.size(), tally.bitwise,
             tally.largest32, tally.largest64);
  std::fflush(stdout);
  return tally.bitwise == static_cast<int>(cases.size()) && tally.largest32 <= kTolerance32 &&
         tally.largest64 <= kTolerance64;
}

int run() {
  fmt::print("| model | cases | bitwise equal | largest difference, float32 | float64 |\n");
  fmt::print("|---|---|---|---|---|\n");
  bool equal = true;
  for (const std::string& model : small_models()) equal = run_model(model) && equal;
  return equal ? 0 : 1;
}

}  // namespace
}  // namespace graphpipe

int main() { return graphpipe::run(); }
