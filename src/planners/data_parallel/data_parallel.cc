// Each micro-batch is split over the devices; gradients accumulate over the B / b of them
// and are reduced once.

#include "planners/data_parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plan/stage_memory.h"
#include "planners/stage_tps.h"

namespace graphpipe {
namespace {

Plan one_stage(const Problem& problem, const Plan& empty, std::int64_t micro_batch) {
  Plan plan = empty;
  Stage stage;
  for (std::size_t i = 0; i < problem.graph->op_count(); ++i) stage.ops.emplace_back(i);
  for (int d = 0; d < problem.cluster->device_count(); ++d) stage.devices.emplace_back(d);
  stage.micro_batch = micro_batch;
  stage.in_flight_samples = micro_batch;
  if (plans_streams(problem)) {
    stage.replication = Replication::kRoundRobin;
    stage.in_flight_samples *= static_cast<std::int64_t>(stage.devices.size());
  }
  plan.stages.push_back(std::move(stage));
  return plan;
}

}  // namespace

PlanResult plan_data_parallel(const Problem& problem, const Budget& /*budget*/) {
  PlanResult result;
  const int devices = problem.cluster->device_count();
  if (!problem.options.data_parallel && devices > 1) {
    result.reason = fmt::format(
        "options \"{}\" give a stage one device, and this planner has one stage; options \"dp\" or "
        "one device would do",
        problem.options.text());
    return result;
  }
  const std::vector<std::int64_t> sizes = micro_batch_sizes(problem);
  const int least = plans_streams(problem) ? 1 : devices;  // samples of a micro-batch
  if (sizes.back() < least) {
    result.reason = fmt::format(
        "{} devices can't split the largest micro-batch of {} samples; {} devices or fewer would "
        "do",
        devices, sizes.back(), sizes.back());
    return result;
  }
  CostTable table(problem);
  const Plan empty = empty_plan(problem, "data-parallel");
  const std::int64_t limit = table.device().memory_bytes;
  std::vector<std::pair<double, Plan>> found;  // by iteration_floor_s()
  for (const std::int64_t b : sizes) {
    if (b < least) continue;
    Plan plan = one_stage(problem, empty, b);
    const StageMemory memory =
        stage_memory(plan, *problem.graph, *problem.costs, table.device(), StageId(0));
    ++result.work;
    if (memory.total() <= limit) {
      const double floor_s = iteration_floor_s(table, plan);
      found.emplace_back(floor_s, std::move(plan));
    } else if (result.reason.empty()) {  // the smallest micro-batch needs the least
      result.reason = fmt::format(
          "a replica at micro-batch {} needs {} ({} of it weights, gradients and optimiser "
          "state), {} more than a device has; a planner that splits the model would do",
          b, bytes_text(static_cast<double>(memory.total())),
          bytes_text(static_cast<double>(memory.static_bytes())),
          bytes_text(static_cast<double>(memory.total() - limit)));
    }
  }
  if (found.empty()) return result;
  std::ranges::stable_sort(found, {}, &std::pair<double, Plan>::first);
  result.status = PlanStatus::kOk;
  result.reason.clear();
  for (auto& [floor_s, plan] : found) result.candidates.push_back(std::move(plan));
  return result;
}

}  // namespace graphpipe
