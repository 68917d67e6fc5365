#include "runtime/stage_report.h"

#include <algorithm>
#include <map>
#include <thread>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/owner_map.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

// Seconds of each replica of a stage over the mini-batch.
std::vector<double> replica_compute_s(const Plan& plan, const Graph& graph, const Stage& stage,
                                      bool backward, const DeviceType& device,
                                      const CostModel& costs) {
  std::map<std::int64_t, double> task_s;  // by samples: few sizes, many micro-batches
  const auto seconds = [&](std::int64_t samples) {
    const auto [found, added] = task_s.try_emplace(samples, 0.0);
    if (added && samples > 0) {
      const StageCost cost = stage_cost(costs, graph, stage.ops, samples, device);
      found->second = cost.forward_s + (backward ? cost.backward_s : 0);
    }
    return found->second;
  };
  std::vector<double> replicas(stage.devices.size(), 0.0);
  for (std::int64_t i = 0; i < micro_batch_count(stage, plan.mini_batch); ++i) {
    for (const SampleOwner& owner : owners(stage, i, plan.mini_batch)) {
      replicas[static_cast<std::size_t>(owner.replica)] += seconds(owner.samples.size());
    }
  }
  return replicas;
}

double per_iteration(double total, const IterationTotals& totals) {
  return totals.iterations > 0 ? total / static_cast<double>(totals.iterations) : 0;
}

StageReport measured_stage(const Plan& plan, std::size_t stage, const Schedule& schedule,
                           const std::vector<IterationTotals>& ranks) {
  StageReport report;
  report.stage = static_cast<int>(stage);
  for (const DeviceId device : plan.stages[stage].devices) {
    const IterationTotals& rank = ranks[schedule.rank_of(device).index()];
    report.measured_s = std::max(report.measured_s, per_iteration(rank.compute_cpu_s, rank));
    report.measured_wall_s = std::max(report.measured_wall_s, per_iteration(rank.compute_s, rank));
    report.measured_peak_bytes = std::max(report.measured_peak_bytes, rank.peak_bytes);
    report.bytes_sent += rank.iterations > 0 ? rank.bytes_sent / rank.iterations : 0;
  }
  return report;
}

}  // namespace

std::vector<double> predicted_compute_s(const Plan& plan, const Graph& graph,
                                        const Cluster& cluster, const CostModel& costs) {
  const std::vector<bool> backward = stages_with_backward(plan, graph);
  std::vector<double> result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const std::vector<double> replicas = replica_compute_s(
        plan, graph, stage, backward[s], cluster.type_of(stage.devices.front()), costs);
    result.push_back(*std::max_element(replicas.begin(), replicas.end()));
    // Of a stream's mini-batches a replica has one in so many.
    if (is_asynchronous(plan.weights) && plan.weights != WeightPolicy::k2bw &&
        stage.replication == Replication::kRoundRobin) {
      result.back() /= static_cast<double>(stage.devices.size());
    }
  }
  return result;
}

std::vector<std::int64_t> predicted_peak_bytes(const Plan& plan, const Graph& graph,
                                               const Cluster& cluster, const CostModel& costs) {
  const Verification verification = verify_plan(plan, graph, cluster, costs);
  const Schedule schedule = build_schedule(plan, graph, plan.mini_batch);
  std::vector<std::int64_t> result(plan.stages.size(), 0);
  if (verification.memory.empty()) return result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const DeviceId device : plan.stages[s].devices) {
      const RankMemory& memory = verification.memory[schedule.rank_of(device).index()];
      result[s] = std::max(result[s], memory.peak_bytes);
    }
  }
  return result;
}

void report_measurements(const Plan& plan, const Graph& graph, const Cluster& cluster,
                         const CostModel& costs, const std::vector<IterationTotals>& ranks,
                         DoneLine& line) {
  GP_CHECK(!ranks.empty(), "no rank was measured");
  const Schedule schedule = build_schedule(plan, graph, plan.mini_batch);
  const std::vector<double> compute_s = predicted_compute_s(plan, graph, cluster, costs);
  const std::vector<std::int64_t> peak_bytes = predicted_peak_bytes(plan, graph, cluster, costs);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    StageReport stage = measured_stage(plan, s, schedule, ranks);
    stage.predicted_s = compute_s[s];
    stage.predicted_peak_bytes = peak_bytes[s];
    line.stages.push_back(stage);
  }
  double total_s = 0;
  double outside_s = 0;
  std::int64_t actions = 0;
  for (const IterationTotals& rank : ranks) {
    total_s += rank.total_cpu_s;
    outside_s += rank.total_cpu_s - rank.compute_cpu_s - rank.step_cpu_s;
    actions += rank.actions;
    line.measured_iteration_s =
        std::max(line.measured_iteration_s, per_iteration(rank.wall_s, rank));
  }
  line.predicted_iteration_s = plan.estimate.iteration_s;
  line.executor_overhead = total_s > 0 ? outside_s / total_s : 0;
  line.action_s = actions > 0 ? outside_s / static_cast<double>(actions) : 0;
  line.ranks = static_cast<int>(ranks.size());
  line.cores = static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace graphpipe
