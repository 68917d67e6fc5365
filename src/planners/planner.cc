#include "planners/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace graphpipe {

std::string PlanOptions::text() const {
  std::string text = data_parallel ? "dp" : "none";
  if (recompute) text = data_parallel ? "dp,recompute" : "recompute";
  return text;
}

bool plans_streams(const Problem& problem) { return is_asynchronous(problem.options.weights); }

StageMemory fit_by_recompute(Plan& plan, const Problem& problem, const TrainingFacts& facts,
                             TaskMemories& task_memories, const DeviceType& device, StageId id,
                             std::int64_t limit_bytes) {
  const auto memory = [&] {
    return stage_memory(plan, *problem.graph, facts, task_memories, device, id);
  };
  const StageMemory kept = memory();
  if (!problem.options.recompute || kept.total() <= limit_bytes) return kept;
  Stage& stage = plan.stages[id.index()];
  stage.recompute = true;
  const StageMemory again = memory();
  if (again.total() < kept.total()) return again;
  stage.recompute = false;  // nothing is gained, or the stage has no backward
  return kept;
}

FullestStage fit_stages(Plan& plan, const Problem& problem, const DeviceType& device) {
  const TrainingFacts facts = training_facts(*problem.costs, *problem.graph, device);
  TaskMemories task_memories(*problem.costs, *problem.graph, facts.needs);
  FullestStage fullest;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageId stage(s);
    const std::int64_t bytes =
        fit_by_recompute(plan, problem, facts, task_memories, device, stage, device.memory_bytes)
            .total();
    if (bytes > fullest.bytes) fullest = {stage, bytes};
  }
  return fullest;
}

Plan empty_plan(const Problem& problem, const std::string& planner) {
  Plan plan;
  plan.model = problem.model_argument;
  plan.graph_hash = graph_hash(*problem.graph);
  plan.planner = planner;
  plan.cluster = problem.cluster_argument;
  plan.options = problem.options.text();
  plan.costs = problem.costs->name();
  plan.mini_batch = problem.mini_batch;
  plan.optimizer = problem.options.optimizer;
  plan.weights = problem.options.weights;
  return plan;
}

std::vector<std::int64_t> micro_batch_sizes(const Problem& problem) {
  std::vector<std::int64_t> sizes = problem.options.micro_batches;
  if (sizes.empty()) {
    for (std::int64_t b = 1; b <= problem.mini_batch; b *= 2) sizes.push_back(b);
  }
  std::ranges::sort(sizes);
  const auto repeats = std::ranges::unique(sizes);
  sizes.erase(repeats.begin(), repeats.end());
  for (const std::int64_t b : sizes) {
    if (b >= 1 && b <= problem.mini_batch) continue;
    throw InputError("--micro-batch",
                     fmt::format("{} is not between 1 and the mini-batch of {}; choose sizes "
                                 "in that range",
                                 b, problem.mini_batch));
  }
  return sizes;
}

}  // namespace graphpipe
