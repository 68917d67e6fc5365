// The product that equality is shown over: model x ranks x micro-batches x schedule x order
// edges x length of the last micro-batch. Tests take a seeded sample of it, bench/ the whole.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "equivalence/harness.h"
#include "plan/plan.h"

namespace graphpipe {

// MODEL arguments: the models of the zoo at small size, dropout on where they have it.
const std::vector<std::string>& small_models();

// Models with operators that mix samples: equal to one device with the same micro-batches only.
const std::vector<std::string>& small_mixing_models();

// More models of other papers, some with batch norms. In these a tensor's gradient is the sum of
// two at most.
const std::vector<std::string>& small_papers_models();
// In these it may be the sum of more, or stages may share a parameter: equal to one device but for
// the order of sums.
const std::vector<std::string>& small_papers_models_of_many_readers();

struct EqualityCase {
  std::string model;
  int ranks = 1;                   // stages, mostly each on a rank of its own
  std::int64_t micro_batches = 1;  // M
  ScheduleKind schedule = ScheduleKind::k1F1B;
  bool chain = false;       // order edges
  bool short_last = false;  // the last micro-batch of a mini-batch is short
  std::uint64_t seed = 1;   // of the partition, the optimiser, and which stages recompute or
                            // share ranks; a quarter of 1F1B is zb-h1
};
std::string to_text(const EqualityCase& c);

// All of one model but for the seeds, which are drawn from `seed`.
std::vector<EqualityCase> all_cases(const std::string& model, std::uint64_t seed);
// `count` of them, in an order by seed.
std::vector<EqualityCase> sampled_cases(const std::string& model, std::size_t count,
                                        std::uint64_t seed);

inline constexpr std::int64_t kMicroBatch = 4;

Plan plan_of(const EqualityCase& c, const Graph& graph);

// Two full mini-batches and a short one, over data of `samples` samples.
Lesson lesson_of(const EqualityCase& c, const Plan& plan, std::int64_t samples);

// For comparisons that are not bitwise. Adam turns the rounding of a gradient that should be
// zero into a whole step, and steps that overshoot bring scalars near zero (a bias that
// changes its sign), of which float32 has few digits right on either side.
Lesson with_plain_sgd(Lesson lesson);

}  // namespace graphpipe
