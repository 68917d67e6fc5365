#include "planners/cost_table.h"

#include <algorithm>

namespace graphpipe {

DeviceType planning_device(const Cluster& cluster) {
  DeviceType device = cluster.type_of(DeviceId(0));
  for (int d = 1; d < cluster.device_count(); ++d) {
    const DeviceType& other = cluster.type_of(DeviceId(d));
    const std::int64_t memory_bytes = std::min(device.memory_bytes, other.memory_bytes);
    if (other.peak_flops_per_s * other.compute_efficiency <
        device.peak_flops_per_s * device.compute_efficiency) {
      device = other;
    }
    device.memory_bytes = memory_bytes;
  }
  return device;
}

double compute_slowdown(const Cluster& cluster) { return core_oversubscription(cluster); }

CostTable& CostTable::of_device(DeviceId device) {
  const Cluster& cluster = *problem_->cluster;
  if (cluster.types.size() == 1) return *this;
  const int type = cluster.device_type[device.index()];
  return by_type_.try_emplace(type, *problem_, cluster.type_of(device)).first->second;
}

const std::vector<OpId>& CostTable::readers(TensorId tensor) {
  if (readers_.empty()) readers_ = consumers(*problem_->graph);
  return readers_[tensor.index()];
}

const CostTable::Column& CostTable::at(std::int64_t samples) {
  const auto [at, fresh] = columns_.try_emplace(samples);
  Column& column = at->second;
  if (!fresh) return column;
  const Graph& graph = *problem_->graph;
  const CostModel& costs = *problem_->costs;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const OpId op(i);
    const OpCost forward = costs.op_cost(graph, op, samples, 1, device_, Phase::kForward);
    const OpCost backward = costs.op_cost(graph, op, samples, 1, device_, Phase::kBackward);
    column.forward_s.push_back(forward.seconds);
    column.backward_s.push_back(backward.seconds);
    if (problem_->options.recompute) {
      column.recompute_s.push_back(
          costs.op_cost(graph, op, samples, 1, device_, Phase::kRecompute).seconds);
    }
    column.saved_bytes.push_back(forward.saved_bytes);
    column.task.push_back(op_task_memory(graph, facts_, op, samples, forward, backward));
  }
  return column;
}

}  // namespace graphpipe
