#include "runtime/task_overhead.h"

#include <ATen/ops/zeros.h>

#include <numeric>

#include "data/dataset.h"
#include "graph/builder.h"
#include "plan/plan.h"
#include "runtime/rank_trainer.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 32;  // micro-batches of one
constexpr std::int64_t kWidth = 8;
constexpr int kIterations = 5;

Graph chain(int stages) {
  GraphBuilder builder("chain");
  TensorId x = builder.input("x", {kWidth});
  const TensorId y = builder.input("y", {kWidth});
  for (int i = 0; i < stages; ++i) x = builder.linear("fc" + std::to_string(i), x, kWidth);
  builder.loss(builder.mse_loss("loss", x, y));
  return std::move(builder).build();
}

// One linear a stage, the loss with the last.
Plan chain_plan(const Graph& graph, int stages) {
  Plan plan;
  plan.graph_hash = graph_hash(graph);
  plan.mini_batch = kSamples;
  plan.stages.resize(static_cast<std::size_t>(stages));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].ops = {OpId(s)};
    plan.stages[s].devices = {DeviceId(s)};
  }
  plan.stages.back().ops.push_back(OpId(plan.stages.size()));
  canonicalise(plan, graph);
  const std::vector<std::int64_t> in_flight = least_in_flight(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].in_flight_samples = in_flight[s];
  }
  return plan;
}

Cluster ranks_of_one_node(int count) {
  Cluster cluster;
  cluster.name = "profile";
  DeviceType type;
  type.name = "cpu";
  type.peak_flops_per_s = type.memory_bandwidth_bytes_per_s = 1e9;
  type.memory_bytes = 1 << 30;
  cluster.types = {type};
  cluster.device_type.assign(static_cast<std::size_t>(count), 0);
  Level node;
  node.name = "node";
  node.group_size = count;
  node.link.bandwidth_bytes_per_s = 1e9;
  cluster.levels = {node};
  return cluster;
}

}  // namespace

double measure_task_overhead_s(Transport& transport) {
  const int stages = transport.size();
  const Graph graph = chain(stages);
  const Plan plan = chain_plan(graph, stages);
  const Cluster cluster = ranks_of_one_node(stages);
  const auto dataset = synthetic_dataset(graph, kSamples, 1);
  RankTrainer trainer(plan, graph, cluster, *dataset, transport, {});
  std::vector<std::int64_t> ids(kSamples);
  std::iota(ids.begin(), ids.end(), 0);
  trainer.train(ids, 0, false);  // fills caches
  trainer.reset_measurements();
  for (int i = 1; i <= kIterations; ++i) trainer.train(ids, i, false);
  const RankMeasurement measured = trainer.measurement();
  constexpr double kTasks = 2.0 * kSamples * kIterations;  // forwards and backwards
  at::Tensor overhead_s = at::zeros({1}, at::kDouble);
  *overhead_s.data_ptr<double>() =
      (measured.total_cpu_s - measured.compute_cpu_s - measured.step_cpu_s) / kTasks;
  transport.all_reduce_sum(overhead_s);
  return *overhead_s.data_ptr<double>() / stages;
}

}  // namespace graphpipe
