// Random models and plans for them, drawn from the product of what the runtime can do,
// and made smaller where one fails. A case is plain numbers, so that a smaller one is a case
// too.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "equivalence/harness.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace graphpipe {

enum class RandomOpKind {
  kLinear,
  kTiedLinear,    // of a weight that all of these share
  kFrozenLinear,  // of a weight that is not trained
  kGelu,
  kAdd,
  kMul,
  kLayerNorm,
  kDropout,
  kIds,     // a slice of the integer input, and a bag of embeddings that reads it
  kLoss,    // in the middle
  kMetric,  // likewise
};

// Reads values made before: number a, and where it has two inputs b, counted modulo.
struct RandomOp {
  RandomOpKind kind = RandomOpKind::kLinear;
  int a = 0;
  int b = 0;
};

struct RandomStage {
  std::int64_t micro_batch = 1;
  int width = 1;
  bool in_turn = false;
  int kfkb = 1;
  bool recompute = false;
};

struct RandomCase {
  std::vector<RandomOp> ops;
  std::vector<RandomStage> stages;
  std::uint64_t partition = 1;
  std::int64_t mini_batch = 1;
  ScheduleKind schedule = ScheduleKind::k1F1B;
  bool chain = false;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  bool clip = false;
  int shared_ranks = 0;  // all stages on so many ranks, several on each; 0: each has its own
};

// At most 6 ranks.
RandomCase random_case(std::uint64_t seed);
std::string to_text(const RandomCase& c);

Graph graph_of(const RandomCase& c);  // float64
Plan plan_of(const RandomCase& c, const Graph& graph);
// Two mini-batches, the second short, over `samples` samples of data.
Lesson lesson_of(const RandomCase& c, std::int64_t samples);

// Cases with one thing less, the largest steps first.
std::vector<RandomCase> simpler_cases(const RandomCase& c);

// What is wrong with the case, by `fault` ("": nothing), made as small as that allows.
template <typename Fault>
RandomCase shrink(RandomCase c, Fault fault) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const RandomCase& simpler : simpler_cases(c)) {
      if (fault(simpler).empty()) continue;
      c = simpler;
      smaller = true;
      break;
    }
  }
  return c;
}

}  // namespace graphpipe
