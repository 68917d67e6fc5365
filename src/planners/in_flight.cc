#include "planners/in_flight.h"

#include <algorithm>

namespace graphpipe {
namespace {

// What a stage takes at once: b, or b d where replicas take turns.
std::int64_t samples_at_once(const Stage& stage) {
  const bool in_turn = stage.replication == Replication::kRoundRobin;
  return stage.micro_batch * (in_turn ? static_cast<std::int64_t>(stage.devices.size()) : 1);
}

// Replicas of a stream have as many micro-batches in flight each (P8).
std::int64_t unit_in_flight(const Plan& plan, const Stage& stage) {
  return is_asynchronous(plan.weights) ? samples_at_once(stage) : stage.micro_batch;
}

}  // namespace

std::vector<std::int64_t> in_flight_by_hops(const Plan& plan, std::int64_t hops) {
  std::vector<std::int64_t> in_flight;
  for (const Stage& stage : plan.stages) in_flight.push_back(stage.kfkb * samples_at_once(stage));
  for (auto edge = plan.edges.rbegin(); edge != plan.edges.rend(); ++edge) {
    const Stage& from = plan.stage(edge->from);
    const Stage& to = plan.stage(edge->to);
    const std::int64_t b = samples_at_once(from);
    const std::int64_t b_next = samples_at_once(to);
    const std::int64_t ahead =
        std::max(from.kfkb * b, b_next) + std::max<std::int64_t>(0, b - to.kfkb * b_next);
    std::int64_t& here = in_flight[edge->from.index()];
    const std::int64_t needed = in_flight[edge->to.index()] + hops * ahead;
    here = std::max(here, (needed + b - 1) / b * b);
  }
  return in_flight;
}

void set_in_flight(Plan& plan, const std::vector<std::int64_t>& samples) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::int64_t unit = unit_in_flight(plan, plan.stages[s]);
    const std::int64_t wanted = std::min(samples[s], most_in_flight(plan));
    plan.stages[s].in_flight_samples =
        is_asynchronous(plan.weights) ? std::max(unit, wanted / unit * unit) : wanted;
  }
}

void lower_in_flight(Plan& plan, const std::vector<std::int64_t>& least,
                     const std::function<bool(const Plan&, StageId)>& fits) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    Stage& stage = plan.stages[s];
    if (stage.in_flight_samples <= least[s] || fits(plan, StageId(s))) continue;
    const std::int64_t b = unit_in_flight(plan, stage);
    std::int64_t fitting = 0;  // micro-batches beyond the least
    std::int64_t too_many = (stage.in_flight_samples - least[s] + b - 1) / b;
    while (too_many - fitting > 1) {
      const std::int64_t middle = fitting + (too_many - fitting) / 2;
      stage.in_flight_samples = least[s] + middle * b;
      (fits(plan, StageId(s)) ? fitting : too_many) = middle;
    }
    stage.in_flight_samples = least[s] + fitting * b;
  }
  // Least counts fall by an edge, so this goes below none of them.
  for (const StageEdge& edge : plan.edges) {  // sorted by the stage they leave (P3)
    const Stage& from = plan.stages[edge.from.index()];
    if (from.in_flight_samples >= most_in_flight(plan)) continue;
    Stage& to = plan.stages[edge.to.index()];
    const std::int64_t most = from.in_flight_samples - unit_in_flight(plan, from);
    if (to.in_flight_samples <= most) continue;
    const std::int64_t unit = unit_in_flight(plan, to);
    const std::int64_t whole = most / unit * unit;
    to.in_flight_samples = std::max(std::min(least[edge.to.index()], to.in_flight_samples), whole);
  }
}

}  // namespace graphpipe
