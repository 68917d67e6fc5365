// Every case of cases.h, not a sample (an eighth of those of large models): the table of
// bench/equality/README.md. Ends with 1 where a case is not equal.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "equivalence/cases.h"
#include "equivalence/partitions.h"
#include "models/models.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 128;
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kLarge = 100;        // operators
constexpr std::size_t kCasesOfLarge = 48;  // an eighth of all, by seed
constexpr double kTolerance32 = 1e-5;
constexpr double kTolerance64 = 1e-11;

struct Tally {
  int bitwise = 0;
  double largest32 = 0;
  double largest64 = 0;
  int ill_conditioned = 0;  // beyond the float32 tolerance, as is one device itself
  int unequal = 0;
};

// Training by the plan, and on one device by full batches.
struct Pair {
  Outcome by_plan;
  Outcome on_one_device;
};

Pair train_both(const EqualityCase& c, DType floating) {
  const Graph graph = load_model(c.model, floating);
  const auto dataset = synthetic_dataset(graph, kSamples, kSeed);
  const Plan plan = plan_of(c, graph);
  const Lesson lesson = with_plain_sgd(lesson_of(c, plan, kSamples));
  return {train_by_plan(plan, graph, *dataset, lesson),
          train_on_one_device(graph, *dataset, lesson, plan.mini_batch)};
}

// A gradient that is nearly zero because its samples cancel has few digits in float32, on
// one device as well: there the pipeline may be off by twice what one device is off from
// float64.
void compare_with_full_batch(const EqualityCase& c, Tally& tally) {
  const Pair rounded = train_both(c, DType::kFloat32);
  const Pair exact = train_both(c, DType::kFloat64);
  const Difference in32 = largest_difference(rounded.on_one_device, rounded.by_plan);
  const Difference in64 = largest_difference(exact.on_one_device, exact.by_plan);
  tally.largest32 = std::max(tally.largest32, in32.relative);
  tally.largest64 = std::max(tally.largest64, in64.relative);
  if (in64.relative > kTolerance64) {
    ++tally.unequal;
    fmt::print(stderr, "{}: {} in float64 of {}\n", to_text(c), in64.relative, in64.where);
  }
  if (in32.relative <= kTolerance32) return;
  const double own = largest_difference(exact.on_one_device, rounded.on_one_device).relative;
  fmt::print(stderr, "{}: {} in float32 of {}; one device is off by {}\n", to_text(c),
             in32.relative, in32.where, own);
  ++(in32.relative <= 2 * own ? tally.ill_conditioned : tally.unequal);
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

// Whether all cases of the model are equal: in every bit, or by norm alone where the order of sums
// is the plan's.
bool run_model(const std::string& model, bool in_every_bit) {
  const bool large = load_model(model).op_count() > kLarge;
  const std::vector<EqualityCase> cases =
      large ? sampled_cases(model, kCasesOfLarge, kSeed) : all_cases(model, kSeed);
  Tally tally;
  for (const EqualityCase& c : cases) {
    const std::string text = bitwise(c);
    if (text.empty()) {
      ++tally.bitwise;
    } else if (in_every_bit) {
      ++tally.unequal;
      fmt::print(stderr, "{}: {}\n", to_text(c), text);
    }
    compare_with_full_batch(c, tally);
  }
  fmt::print("| {} | {} | {} | {:.1e} | {} | {} | {:.1e} |\n", model.substr(0, model.find(':')),
             cases.size(), tally.bitwise, tally.largest32, tally.ill_conditioned, tally.unequal,
             tally.largest64);
  std::fflush(stdout);
  return tally.unequal == 0;
}

// Those named, all where none is.
int run(const std::set<std::string>& names) {
  fmt::print("| model | cases | bitwise equal | float32 | ill-conditioned | beyond | float64 |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  bool equal = true;
  const auto run_all = [&](const std::vector<std::string>& models, bool in_every_bit) {
    for (const std::string& model : models) {
      const bool named = names.empty() || names.contains(model.substr(0, model.find(':')));
      if (!named || !sample_mixing_kinds(load_model(model)).empty()) continue;
      equal = run_model(model, in_every_bit) && equal;
    }
  };
  run_all(small_models(), true);
  run_all(small_papers_models(), true);
  run_all(small_papers_models_of_many_readers(), false);
  return equal ? 0 : 1;
}

}  // namespace
}  // namespace graphpipe

int main(int argc, char** argv) { return graphpipe::run({argv + 1, argv + argc}); }
