#include "search/stream_plan.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "planners/in_flight.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/verify.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

// Micro-batches a hop, and how much slower is about as fast.
constexpr std::int64_t kHops[] = {1, 2, 3};
constexpr double kAsFast = 1.02;

Trace simulate_stream(const Plan& plan, const Problem& problem, std::int64_t samples) {
  const Schedule schedule =
      lower(build_schedule(plan, *problem.graph, samples), plan, *problem.graph);
  return simulate(schedule, plan, *problem.graph, *problem.cluster, *problem.costs);
}

// What a mini-batch adds to a stream that is long enough.
void fill_steady_estimate(Plan& plan, const Problem& problem) {
  const std::int64_t samples = schedule_samples(plan);
  const Trace once = simulate_stream(plan, problem, samples);
  const Trace twice = simulate_stream(plan, problem, 2 * samples);
  const std::int64_t count = samples / plan.mini_batch;
  const auto mini_batches = static_cast<double>(count);
  PlanEstimate& estimate = plan.estimate;
  estimate.iteration_s = (twice.iteration_s - once.iteration_s) / mini_batches;
  estimate.throughput_samples_per_s = static_cast<double>(plan.mini_batch) / estimate.iteration_s;
  double busy_s = 0;
  for (std::size_t r = 0; r < once.ranks.size(); ++r) {
    busy_s += twice.ranks[r].busy_s - once.ranks[r].busy_s;
  }
  estimate.bubble_fraction =
      1 - busy_s / mini_batches / (static_cast<double>(once.ranks.size()) * estimate.iteration_s);
  estimate.lower_bound_s = 0;
}

// The least in flight, which keeps the weights young, of those that are about as fast as more.
void choose_in_flight(Plan& plan, const Problem& problem) {
  std::vector<Plan> tried;
  double best_s = std::numeric_limits<double>::infinity();
  for (const std::int64_t hops : kHops) {
    Plan with = plan;
    set_in_flight(with, in_flight_by_hops(plan, hops));
    const bool too_many = with.weights == WeightPolicy::k2bw &&
                          std::ranges::any_of(with.stages, [&](const Stage& stage) {
                            return stage.in_flight_samples > with.mini_batch;
                          });
    if (too_many && hops > kHops[0]) break;
    if (!too_many) fill_steady_estimate(with, problem);
    best_s = std::min(best_s, with.estimate.iteration_s);
    tried.push_back(std::move(with));
  }
  plan = *std::ranges::find_if(
      tried, [&](const Plan& with) { return with.estimate.iteration_s <= best_s * kAsFast; });
}

}  // namespace

SearchResult search_stream_plan(const Planner& planner, const Problem& problem, WeightPolicy policy,
                                double time_limit_s) {
  GP_CHECK(is_asynchronous(policy), "a synchronous plan is search_plan()'s");
  const bool two = policy == WeightPolicy::k2bw;
  GP_CHECK(!two || problem.options.micro_batches.size() == 1, "2bw has one micro-batch size");
  Problem stream = problem;
  stream.mini_batch = kStreamMiniBatches * problem.mini_batch;
  if (!two) stream.options.micro_batches = {problem.mini_batch};
  stream.options.data_parallel = false;
  stream.options.recompute = false;
  SearchResult result = search_plan(planner, stream, time_limit_s);
  if (result.status != PlanStatus::kOk) return result;
  Plan& plan = result.plan;
  plan.mini_batch = problem.mini_batch;
  plan.weights = policy;
  plan.schedule = ScheduleKind::k1F1B;  // of whatever kind the stages were found for
  choose_in_flight(plan, problem);
  const Verification verification =
      verify_plan(plan, *problem.graph, *problem.cluster, *problem.costs);
  if (!verification.ok()) {
    result.status = PlanStatus::kInfeasible;
    result.reason =
        "the fastest plan without its steps is not one with them: " + fault_text(verification);
    return result;
  }
  plan.estimate.stage_memory_bytes = stage_peaks(plan, verification.memory);
  return result;
}

}  // namespace graphpipe
