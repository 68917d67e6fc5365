#include "cost/cost_model.h"

#include <algorithm>

namespace graphpipe {
namespace {

bool contains(const std::vector<OpId>& sorted_ops, OpId op) {
  return op.valid() && std::ranges::binary_search(sorted_ops, op);
}

}  // namespace

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

std::int64_t stage_input_bytes(const Graph& graph, const std::vector<OpId>& ops,
                               std::int64_t samples) {
  if (samples <= 0) return 0;
  std::vector<TensorId> from_outside;
  for (const OpId id : ops) {
    for (const TensorId in : graph.op(id).inputs) {
      if (!contains(ops, graph.tensor(in).producer)) from_outside.push_back(in);
    }
  }
  std::ranges::sort(from_outside);
  const auto repeats = std::ranges::unique(from_outside);
  from_outside.erase(repeats.begin(), repeats.end());
  std::int64_t bytes = 0;
  for (const TensorId in : from_outside) bytes += tensor_bytes(graph.tensor(in), samples);
  return bytes;
}

// A tensor that an operator of the stage makes is either read inside, or leaves the stage
// (to another one, a loss or a metric): all outputs count. So what is to be told apart is
// only which inputs come from outside.
std::int64_t stage_saved_bytes(const CostModel& costs, const Graph& graph,
                               const std::vector<OpId>& ops, std::int64_t samples,
                               const DeviceType& device) {
  if (samples <= 0) return 0;
  std::int64_t bytes = stage_input_bytes(graph, ops, samples);
  for (const OpId id : ops) {
    bytes += costs.op_cost(graph, id, samples, 1, device, Phase::kForward).saved_bytes;
    for (const TensorId out : graph.op(id).outputs) {
      bytes += tensor_bytes(graph.tensor(out), samples);
    }
  }
  return bytes;
}

}  // namespace graphpipe
