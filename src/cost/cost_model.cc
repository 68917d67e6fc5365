#include "cost/cost_model.h"

#include <algorithm>

namespace graphpipe {
namespace {

bool contains(const std::vector<OpId>& sorted_ops, OpId op) {
  return op.valid() && std::ranges::binary_search(sorted_ops, op);
}

}  // namespace

bool CostModel::keeps_input(const Operator&, std::size_t, const DeviceType&) const { return true; }

bool CostModel::keeps_output(const Operator&, const DeviceType&) const { return false; }

double CostModel::transfer_s(std::int64_t bytes, const Link& link) const {
  return link.latency_s + static_cast<double>(bytes) / link.bandwidth_bytes_per_s;
}

double CostModel::reduce_s(std::int64_t bytes, int ranks, const Link& link) const {
  if (ranks < 2) return 0;
  const double n = ranks;
  return 2 * (n - 1) / n * static_cast<double>(bytes) / link.bandwidth_bytes_per_s +
         2 * (n - 1) * link.latency_s;
}

StageCost stage_cost(const CostModel& costs, const Graph& graph, const std::vector<OpId>& ops,
                     std::int64_t samples, const DeviceType& device) {
  StageCost stage;
  if (samples <= 0) return stage;
  stage.forward_s = stage.backward_s = costs.task_overhead_s();
  for (const OpId op : ops) {
    stage.forward_s += costs.op_cost(graph, op, samples, 1, device, Phase::kForward).seconds;
    stage.backward_s += costs.op_cost(graph, op, samples, 1, device, Phase::kBackward).seconds;
  }
  return stage;
}

std::vector<TensorId> stage_inputs(const Graph& graph, const std::vector<OpId>& ops) {
  std::vector<TensorId> from_outside;
  for (const OpId id : ops) {
    for (const TensorId in : graph.op(id).inputs) {
      if (!contains(ops, graph.tensor(in).producer)) from_outside.push_back(in);
    }
  }
  std::ranges::sort(from_outside);
  const auto repeats = std::ranges::unique(from_outside);
  from_outside.erase(repeats.begin(), repeats.end());
  return from_outside;
}

std::int64_t stage_input_bytes(const Graph& graph, const std::vector<OpId>& ops,
                               std::int64_t samples) {
  if (samples <= 0) return 0;
  std::int64_t bytes = 0;
  for (const TensorId in : stage_inputs(graph, ops))
    bytes += tensor_bytes(graph.tensor(in), samples);
  return bytes;
}

}  // namespace graphpipe
