// Pipelines of equal stages, a device each, without transfers: how long an iteration takes for
// given in-flight counts, by a few lines of plain code, and the counts that the rule gives.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planners/in_flight.h"
#include "planners/test_problems.h"

namespace graphpipe {

struct StageGraph {
  std::string name;
  Dependencies before;  // [stage]
};

inline const std::vector<StageGraph>& small_stage_graphs() {
  static const std::vector<StageGraph> graphs = {
      {"chain of two", {{}, {0}}},
      {"chain of three", {{}, {0}, {1}}},
      {"join of two", {{}, {}, {0, 1}}},
      {"fork into two", {{}, {0}, {0}}},
      {"chain of three with a skip", {{}, {0}, {0, 1}}},
      {"chain of four", {{}, {0}, {1}, {2}}},
      {"join of three", {{}, {}, {}, {0, 1, 2}}},
      {"fork into three", {{}, {0}, {0}, {0}}},
      {"diamond", {{}, {0}, {0}, {1, 2}}},
      {"chain of four with a skip over one", {{}, {0}, {1}, {0, 2}}},
      {"chain of four with a skip over two", {{}, {0}, {1}, {2, 0}}},
  };
  return graphs;
}

// Of a stage: samples of a micro-batch, and forwards (and backwards) in a row.
struct Turn {
  int size = 1;
  int in_a_row = 1;
  int round() const { return size * in_a_row; }
};

// A second a sample forward, two backward: each stage does its static order as soon as it can.
class EvenPipeline {
 public:
  static constexpr int kStalls = INT32_MAX;  // stages wait for one another

  // Requires: sizes that divide the mini-batch.
  EvenPipeline(const Dependencies& before, std::vector<Turn> turns, int mini_batch)
      : before_(before), turns_(std::move(turns)), after_(before.size()), mini_batch_(mini_batch) {
    for (std::size_t s = 0; s < before.size(); ++s) {
      for (const int from : before[s]) after_[index(from)].push_back(static_cast<int>(s));
    }
  }

  int iteration_s(const std::vector<std::int64_t>& in_flight) {
    forward_end_.assign(before_.size(), {});
    backward_end_.assign(before_.size(), {});
    std::vector<int> now(before_.size(), 0);
    for (bool any = true; any;) {
      any = false;
      for (std::size_t s = 0; s < before_.size(); ++s) {
        while (run_next(s, static_cast<int>(in_flight[s]) / turns_[s].size, now[s])) any = true;
      }
    }
    for (std::size_t s = 0; s < before_.size(); ++s) {
      const bool done = static_cast<int>(backward_end_[s].size()) == mini_batch_ / turns_[s].size;
      if (!done) return kStalls;
    }
    return *std::ranges::max_element(now);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  bool run_next(std::size_t s, int warm_up, int& now) {
    const auto [size, in_a_row] = turns_[s];
    const int tasks = mini_batch_ / size;
    const auto forwards = static_cast<int>(forward_end_[s].size());
    const auto backwards = static_cast<int>(backward_end_[s].size());
    if (backwards == tasks) return false;
    const int allowed = warm_up + backwards / in_a_row * in_a_row;
    const bool forward = forwards < tasks && forwards < allowed;
    if (!forward && forwards == backwards) return false;  // fewer in flight than k
    const int end = ((forward ? forwards : backwards) + 1) * size;
    int start = now;
    for (const int other : forward ? before_[s] : after_[s]) {
      const std::vector<int>& ends = (forward ? forward_end_ : backward_end_)[index(other)];
      const int other_size = turns_[index(other)].size;
      const std::size_t needed = index((end + other_size - 1) / other_size) - 1;
      if (needed >= ends.size()) return false;
      start = std::max(start, ends[needed]);
    }
    now = start + size * (forward ? 1 : 2);
    (forward ? forward_end_ : backward_end_)[s].push_back(now);
    return true;
  }

  const Dependencies& before_;
  std::vector<Turn> turns_;
  Dependencies after_;
  int mini_batch_;
  std::vector<std::vector<int>> forward_end_;  // [stage][task]
  std::vector<std::vector<int>> backward_end_;
};

// The same as a problem with a Plan: one operator and one device a stage.
inline TestProblem even_pipeline_problem(const Dependencies& before, int mini_batch) {
  TestProblem test = even_problem(before, static_cast<int>(before.size()), mini_batch);
  for (AffineCosts::Op& op : test.costs.ops) op.per_sample_s = 1;
  for (Level& level : test.cluster.levels) level.link = {.bandwidth_bytes_per_s = 1e30};
  return test;
}

// Its counts are those of the rule, with so many micro-batches a hop.
inline Plan even_pipeline_plan(const TestProblem& test, const std::vector<Turn>& turns,
                               std::int64_t hops = 1) {
  Plan plan = empty_plan(test.problem(), "test");
  for (std::size_t s = 0; s < turns.size(); ++s) {
    Stage stage;
    stage.ops = {OpId(s)};
    stage.devices = {DeviceId(s)};
    stage.micro_batch = turns[s].size;
    stage.kfkb = turns[s].in_a_row;
    plan.stages.push_back(std::move(stage));
  }
  canonicalise(plan, test.graph);
  set_in_flight(plan, in_flight_by_hops(plan, hops));
  return plan;
}

// [stage of the graph]; the plan's own order is another.
inline std::vector<std::int64_t> counts_of(const Plan& plan) {
  std::vector<std::int64_t> counts(plan.stages.size());
  for (const Stage& stage : plan.stages) counts[stage.ops[0].index()] = stage.in_flight_samples;
  return counts;
}

// Every choice of one of `choices` for each of so many stages.
template <typename Choice>
std::vector<std::vector<Choice>> all_choices(const std::vector<Choice>& choices,
                                             std::size_t stages) {
  std::vector<std::vector<Choice>> all = {{}};
  for (std::size_t s = 0; s < stages; ++s) {
    std::vector<std::vector<Choice>> longer;
    for (const std::vector<Choice>& chosen : all) {
      for (const Choice& choice : choices) {
        longer.push_back(chosen);
        longer.back().push_back(choice);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// The least iteration over all counts: of each stage those up to `most_tried` samples, and all.
inline int best_of_all_counts_s(EvenPipeline& pipeline, const std::vector<Turn>& turns,
                                int most_tried, int mini_batch) {
  std::vector<std::vector<std::int64_t>> choices;
  for (const Turn& turn : turns) {
    choices.emplace_back();
    for (int n = turn.size; n <= most_tried; n += turn.size) choices.back().push_back(n);
    choices.back().push_back(mini_batch);
  }
  std::vector<std::size_t> chosen(turns.size(), 0);
  int best_s = EvenPipeline::kStalls;
  while (true) {
    std::vector<std::int64_t> counts;
    for (std::size_t s = 0; s < turns.size(); ++s) counts.push_back(choices[s][chosen[s]]);
    best_s = std::min(best_s, pipeline.iteration_s(counts));
    std::size_t s = 0;
    while (s < turns.size() && ++chosen[s] == choices[s].size()) chosen[s++] = 0;
    if (s == turns.size()) return best_s;
  }
}

}  // namespace graphpipe
