#include "search/turns.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace graphpipe {
namespace {

constexpr std::int64_t kHops[] = {1, 3, Layout::kAllInFlight};

// Of the sizes that may be used the largest that is not above the share, and those beside it.
std::vector<std::int64_t> sizes_near(std::int64_t share, const Problem& problem) {
  const std::vector<std::int64_t> sizes = micro_batch_sizes(problem);
  const std::int64_t above = std::ranges::upper_bound(sizes, share) - sizes.begin();
  const auto first = sizes.begin() + std::max<std::int64_t>(0, above - 2);
  return {first, sizes.begin() + std::min<std::int64_t>(above + 1, std::ssize(sizes))};
}

Layout in_turns(const Plan& plan, std::int64_t micro_batch, std::int64_t hops) {
  Layout layout{plan.stages, hops};
  for (Stage& stage : layout.stages) {
    stage.micro_batch = micro_batch;
    if (stage.devices.size() > 1) stage.replication = Replication::kRoundRobin;
  }
  return layout;
}

}  // namespace

bool takes_turns(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return stage.replication == Replication::kRoundRobin;
  });
}

std::vector<Plan> plans_in_turns(Workbench& bench, const Plan& plan) {
  if (takes_turns(plan)) return {};
  std::int64_t widest = 1;
  for (const Stage& stage : plan.stages) {
    widest = std::max(widest, static_cast<std::int64_t>(stage.devices.size()));
  }
  std::vector<Plan> plans;
  if (widest == 1) return plans;
  for (const std::int64_t b : sizes_near(plan.stages[0].micro_batch / widest, bench.problem())) {
    if (b * widest > plan.mini_batch) continue;
    for (const std::int64_t hops : kHops) {
      std::optional<Plan> turned = bench.plan_of(in_turns(plan, b, hops), plan);
      if (turned && bench.make_fit(*turned) && bench.runs(*turned)) {
        plans.push_back(std::move(*turned));
      }
    }
  }
  return plans;
}

}  // namespace graphpipe
