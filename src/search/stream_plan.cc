#include "search/stream_plan.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "planners/in_flight.h"
#include "schedule/verify.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

// Micro-batches a hop, and how much slower is about as fast.
constexpr std::int64_t kStreamHops[] = {1, 2, 3};
constexpr double kAsFast = 1.02;

void fill_steady_estimate(Plan& plan, const Problem& problem) {
  const SteadyState steady =
      simulate_steady(plan, *problem.graph, *problem.cluster, *problem.costs);
  PlanEstimate& estimate = plan.estimate;
  estimate.iteration_s = steady.mini_batch_s;
  estimate.throughput_samples_per_s = static_cast<double>(plan.mini_batch) / steady.mini_batch_s;
  estimate.bubble_fraction = steady.bubble_fraction;
  estimate.lower_bound_s = 0;
}

// Of plans that are about as fast as the fastest the one with the least in flight, which keeps the
// weights young: the plan at hand, or with other counts, as far as memory goes.
void choose_in_flight(Plan& plan, const Problem& problem) {
  std::vector<Plan> tried;
  for (const std::int64_t hops : kStreamHops) {
    Plan with = plan;
    set_in_flight(with, in_flight_by_hops(plan, hops));
    tried.push_back(std::move(with));
  }
  tried.push_back(plan);
  std::erase_if(tried, [&](const Plan& with) {
    return with.stages != plan.stages &&
           !verify_plan(with, *problem.graph, *problem.cluster, *problem.costs).ok();
  });
  double best_s = std::numeric_limits<double>::infinity();
  for (Plan& with : tried) {
    fill_steady_estimate(with, problem);
    best_s = std::min(best_s, with.estimate.iteration_s);
  }
  plan = *std::ranges::find_if(
      tried, [&](const Plan& with) { return with.estimate.iteration_s <= best_s * kAsFast; });
}

}  // namespace

SearchResult search_stream_plan(const Planner& planner, const Problem& problem, WeightPolicy policy,
                                const SearchControl& control) {
  GP_CHECK(is_asynchronous(policy), "a synchronous plan is search_plan()'s");
  const bool two = policy == WeightPolicy::k2bw;
  GP_CHECK(!two || problem.options.micro_batches.size() == 1, "2bw has one micro-batch size");
  Problem stream = problem;
  stream.mini_batch = kStreamMiniBatches * problem.mini_batch;
  stream.options.weights = policy;
  stream.options.stream_mini_batch = problem.mini_batch;
  if (!two) stream.options.micro_batches = {problem.mini_batch};
  stream.options.recompute = false;
  SearchResult result = search_plan(planner, stream, control);
  if (result.status != PlanStatus::kOk) return result;
  choose_in_flight(result.plan, problem);
  const Verification verification =
      verify_plan(result.plan, *problem.graph, *problem.cluster, *problem.costs);
  GP_CHECK(verification.ok(), "{}", fault_text(verification));
  result.plan.estimate.stage_memory_bytes = stage_peaks(result.plan, verification.memory);
  return result;
}

}  // namespace graphpipe
