// What a run-time choice would cost: an oracle runs a backward whenever one is ready,
// else a forward that the in-flight count allows, and gives the order that comes of it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "schedule/build.h"
#include "schedule/lower.h"
#include "sim/simulator.h"
#include "sim/test_pipelines.h"

namespace graphpipe {
namespace {

struct ChosenOrder {
  Schedule schedule;  // compute only
  double iteration_s = 0;
};

// Stages of width 1, forward 1 s and backward 2 s a sample, messages free.
class RunTimeChoice {
 public:
  RunTimeChoice(const Pipeline& pipeline, const std::string& edges)
      : plan_(pipeline.plan), before_(parse_edges(edges, plan_.stages.size())) {
    after_.resize(plan_.stages.size());
    for (std::size_t s = 0; s < before_.size(); ++s) {
      for (const std::size_t from : before_[s]) after_[from].push_back(s);
    }
    stages_.resize(plan_.stages.size());
  }

  ChosenOrder run() {
    chosen_.schedule.samples = plan_.mini_batch;
    for (const Stage& stage : plan_.stages) {
      chosen_.schedule.ranks.push_back({stage.devices[0], {}, {}, {}});
    }
    for (double now = 0; now < std::numeric_limits<double>::infinity(); now = next_end()) {
      for (State& stage : stages_) finish(stage, now);
      for (std::size_t s = 0; s < stages_.size(); ++s) start(s, now);
      chosen_.iteration_s = std::max(chosen_.iteration_s, now);
    }
    return chosen_;
  }

 private:
  struct State {
    std::int64_t forward_started = 0;  // samples
    std::int64_t forward_done = 0;
    std::int64_t backward_started = 0;
    std::int64_t backward_done = 0;
    double busy_until = -1;  // -1: idle
  };

  void finish(State& stage, double now) const {
    if (stage.busy_until > now) return;
    stage.busy_until = -1;
    stage.forward_done = stage.forward_started;
    stage.backward_done = stage.backward_started;
  }

  double next_end() const {
    double next = std::numeric_limits<double>::infinity();
    for (const State& stage : stages_) {
      if (stage.busy_until >= 0) next = std::min(next, stage.busy_until);
    }
    return next;
  }

  bool backward_is_ready(std::size_t s, std::int64_t hi) const {
    if (stages_[s].forward_done < hi) return false;
    for (const std::size_t to : after_[s]) {
      if (stages_[to].backward_done < hi) return false;
    }
    return true;
  }

  bool forward_is_ready(std::size_t s, std::int64_t hi) const {
    if (hi - stages_[s].backward_done > plan_.stages[s].in_flight_samples) return false;
    for (const std::size_t from : before_[s]) {
      if (stages_[from].forward_done < hi) return false;
    }
    return true;
  }

  void start(std::size_t s, double now) {
    State& stage = stages_[s];
    const std::int64_t b = plan_.stages[s].micro_batch;
    if (stage.busy_until >= 0) return;
    if (stage.backward_started < plan_.mini_batch &&
        backward_is_ready(s, stage.backward_started + b)) {
      add(s, ActionKind::kBackward, stage.backward_started, b);
      stage.busy_until = now + 2 * static_cast<double>(b);
      stage.backward_started += b;
    } else if (stage.forward_started < plan_.mini_batch &&
               forward_is_ready(s, stage.forward_started + b)) {
      add(s, ActionKind::kForward, stage.forward_started, b);
      stage.busy_until = now + static_cast<double>(b);
      stage.forward_started += b;
    }
  }

  void add(std::size_t s, ActionKind kind, std::int64_t lo, std::int64_t b) {
    Action action;
    action.kind = kind;
    action.stage = StageId(s);
    action.micro_batch = lo / b;
    action.samples = {lo, lo + b};
    chosen_.schedule.ranks[s].prologue.push_back(action);
  }

  const Plan& plan_;
  std::vector<std::vector<std::size_t>> before_;
  std::vector<std::vector<std::size_t>> after_;
  std::vector<State> stages_;
  ChosenOrder chosen_;
};

struct Comparison {
  double oracle_s = 0;    // the oracle's own clock
  double run_time_s = 0;  // the simulator's, with the oracle's order
  double static_s = 0;
};

// In flight as the rule has it.
Comparison compare(const std::string& edges, std::vector<std::int64_t> sizes,
                   std::int64_t samples) {
  Pipeline p = make_pipeline({edges, sizes, samples, sizes});
  const std::vector<std::int64_t> in_flight = least_in_flight(p.plan);
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    p.plan.stages[s].in_flight_samples = in_flight[s];
  }
  const ChosenOrder chosen = RunTimeChoice(p, edges).run();
  const Schedule lowered = lower(chosen.schedule, p.plan, p.graph);
  return {chosen.iteration_s, simulate(lowered, p.plan, p.graph, p.cluster, p.costs).iteration_s,
          simulate_plan(p.plan, p.graph, p.cluster, p.costs).iteration_s};
}

TEST(StaticOrder, BackwardWheneverReadyIsUpTo37PercentSlower) {
  const Comparison unequal = compare("0>1 1>2", {1, 1, 2}, 64);
  EXPECT_DOUBLE_EQ(unequal.run_time_s, 276);
  EXPECT_DOUBLE_EQ(unequal.static_s, 201);
  const Comparison equal = compare("0>1 1>2", {2, 2, 2}, 64);
  EXPECT_DOUBLE_EQ(equal.run_time_s, equal.static_s);
}

// [stage]: 1, 2 or 4, by the digits of `code` to base 3.
std::vector<std::int64_t> sizes_of(int code, std::size_t stages) {
  std::vector<std::int64_t> sizes;
  for (; sizes.size() < stages; code /= 3) sizes.push_back(std::int64_t{1} << (code % 3));
  return sizes;
}

// Two programs that share no code give the same times: the oracle's and the simulator's.
TEST(StaticOrder, IsNeverSlowerThanARunTimeChoice) {
  const std::vector<std::pair<std::string, std::size_t>> shapes = {
      {"0>1", 2},         {"0>1 1>2", 3},         {"0>2 1>2", 3},         {"0>1 0>2", 3},
      {"0>1 1>2 2>3", 4}, {"0>1 0>2 1>3 2>3", 4}, {"0>1 1>2 2>3 0>3", 4}, {"0>3 1>3 2>3", 4}};
  for (const auto& [edges, stages] : shapes) {
    for (int code = 0; code < (stages == 4 ? 81 : stages == 3 ? 27 : 9); ++code) {
      const std::vector<std::int64_t> sizes = sizes_of(code, stages);
      const Comparison result = compare(edges, sizes, 32);
      const std::string about = fmt::format("{} with sizes {}", edges, fmt::join(sizes, ","));
      EXPECT_DOUBLE_EQ(result.run_time_s, result.oracle_s) << about;
      EXPECT_LE(result.static_s, result.run_time_s + 1e-9) << about;
    }
  }
}

}  // namespace
}  // namespace graphpipe
