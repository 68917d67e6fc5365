#include "planners/graphpipe/in_flight.h"

#include <algorithm>
#include <functional>

#include "plan/stage_memory.h"

namespace graphpipe {
namespace {

// Messages that take a smaller part of a stage's task than this are not worth waiting for.
constexpr double kShortMessage = 0.01;

// In-flight samples when each stage starts `hop` micro-batches more than the largest of
// its successors.
std::vector<std::int64_t> by_hops(const Plan& plan, std::int64_t hop) {
  std::vector<std::int64_t> in_flight(plan.stages.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) in_flight[s] = plan.stages[s].micro_batch;
  for (auto edge = plan.edges.rbegin(); edge != plan.edges.rend(); ++edge) {
    std::int64_t& here = in_flight[edge->from.index()];
    const std::int64_t b = plan.stage(edge->from).micro_batch;
    here = std::max(here, in_flight[edge->to.index()] + hop * b);
  }
  return in_flight;
}

Plan with(const Plan& plan, const std::vector<std::int64_t>& in_flight) {
  Plan copy = plan;
  for (std::size_t s = 0; s < copy.stages.size(); ++s) {
    copy.stages[s].in_flight_samples = std::min(in_flight[s], plan.mini_batch);
  }
  return copy;
}

// A micro-batch less at a time, down to the least.
void lower_to_fit(Plan& plan, const std::vector<std::int64_t>& least, const PlanMemory& memory) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    Stage& stage = plan.stages[s];
    const std::int64_t b = stage.micro_batch;
    while (stage.in_flight_samples > least[s] && !memory.fits(plan, StageId(s))) {
      // The mini-batch may not be whole micro-batches; less is.
      stage.in_flight_samples = std::max(least[s], (stage.in_flight_samples - 1) / b * b);
    }
  }
}

// A stage that has more in flight than the one that feeds it would wait for forwards that
// never come. Least counts fall by a micro-batch an edge, so this goes below none of them.
void lower_behind(Plan& plan) {
  for (const StageEdge& edge : plan.edges) {  // sorted by the stage they leave (P3)
    const Stage& from = plan.stages[edge.from.index()];
    if (from.in_flight_samples >= plan.mini_batch) continue;
    std::int64_t& behind = plan.stages[edge.to.index()].in_flight_samples;
    behind = std::min(behind, from.in_flight_samples - from.micro_batch);
  }
}

// The longest message between two stages over the longest task.
double message_share(const Plan& plan, CostTable& table) {
  const Problem& problem = table.problem();
  const Link& link = worst_link(*problem.cluster);
  double longest_task_s = 0;
  double longest_message_s = 0;
  for (const StageEdge& edge : plan.edges) {
    const Stage& from = plan.stage(edge.from);
    const auto width = static_cast<std::int64_t>(from.devices.size());
    const std::int64_t samples = (from.micro_batch + width - 1) / width;
    longest_message_s = std::max(
        longest_message_s,
        problem.costs->transfer_s(message_bytes(*problem.graph, edge, samples, false), link));
  }
  for (const Stage& stage : plan.stages) {
    const auto width = static_cast<std::int64_t>(stage.devices.size());
    const CostTable::Column& column = table.at((stage.micro_batch + width - 1) / width);
    double task_s = 0;
    for (const OpId op : stage.ops) {
      task_s += column.forward_s[op.index()] + column.backward_s[op.index()];
    }
    longest_task_s = std::max(longest_task_s, task_s);
  }
  return longest_task_s > 0 ? longest_message_s / longest_task_s : 0;
}

}  // namespace

std::vector<Plan> with_in_flight(const Plan& plan, CostTable& table, const PlanMemory& memory) {
  const std::vector<std::int64_t> least = least_in_flight(plan);
  std::vector<Plan> plans = {with(plan, least)};
  if (!memory.fits(plans[0])) return {};
  if (plan.stages.size() < 2 || message_share(plan, table) < kShortMessage) return plans;
  std::vector<std::int64_t> twice = least;
  for (std::int64_t& samples : twice) samples *= 2;
  for (const auto& wanted : {by_hops(plan, 2), by_hops(plan, 3), twice}) {
    Plan more = with(plan, wanted);
    lower_to_fit(more, least, memory);
    lower_behind(more);
    const bool known =
        std::ranges::any_of(plans, [&](const Plan& other) { return other.stages == more.stages; });
    if (!known && memory.fits(more)) plans.push_back(std::move(more));
  }
  return plans;
}

}  // namespace graphpipe
