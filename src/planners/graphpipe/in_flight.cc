#include "planners/graphpipe/in_flight.h"

#include <algorithm>

#include "plan/stage_memory.h"
#include "planners/in_flight.h"

namespace graphpipe {
namespace {

// Messages that take a smaller part of a stage's task than this are not worth waiting for.
constexpr double kShortMessage = 0.01;

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
  std::vector<Plan> plans = {plan};
  set_in_flight(plans[0], least);
  if (!memory.fits(plans[0])) return {};
  if (plan.stages.size() < 2 || message_share(plan, table) < kShortMessage) return plans;
  std::vector<std::int64_t> twice = least;
  for (std::int64_t& samples : twice) samples *= 2;
  for (const auto& wanted : {in_flight_by_hops(plan, 2), in_flight_by_hops(plan, 3), twice}) {
    Plan more = plan;
    set_in_flight(more, wanted);
    lower_in_flight(more, least, [&](const Plan& p, StageId s) { return memory.fits(p, s); });
    const bool known =
        std::ranges::any_of(plans, [&](const Plan& other) { return other.stages == more.stages; });
    if (!known && memory.fits(more)) plans.push_back(std::move(more));
  }
  return plans;
}

}  // namespace graphpipe
