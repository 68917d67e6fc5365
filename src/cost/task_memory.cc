#include "cost/task_memory.h"

#include <algorithm>
#include <map>

namespace graphpipe {
namespace {

bool has_trained_params(const Graph& graph, const Operator& op) {
  return std::ranges::any_of(op.params, [&](ParamId p) { return graph.param(p).trainable; });
}

bool is_watched(const Graph& graph, TensorId tensor) {
  return std::ranges::any_of(graph.losses,
                             [&](const Loss& loss) { return loss.tensor == tensor; }) ||
         std::ranges::any_of(graph.metrics,
                             [&](const Metric& metric) { return metric.tensor == tensor; });
}

bool is_loss(const Graph& graph, TensorId tensor) {
  return std::ranges::any_of(graph.losses, [&](const Loss& loss) { return loss.tensor == tensor; });
}

// Walks the operators with what is held beside (or, below zero, less than) all that is saved.
class Walk {
 public:
  Walk(const CostModel& costs, const Graph& graph, const std::vector<bool>& needs,
       const std::vector<OpId>& ops, const std::vector<TensorId>& leaving, std::int64_t samples,
       const DeviceType& device)
      : graph_(graph), needs_(needs), ops_(ops), leaving_(leaving), samples_(samples) {
    for (const OpId op : ops) {
      forward_.push_back(costs.op_cost(graph, op, samples, 1, device, Phase::kForward));
      backward_.push_back(costs.op_cost(graph, op, samples, 1, device, Phase::kBackward));
    }
  }

  // From the end, where all that is saved exists, to the start.
  std::int64_t forward_bytes() const {
    std::int64_t now = 0;
    std::int64_t worst = 0;
    for (std::size_t i = ops_.size(); i-- > 0;) {
      worst = std::max(worst, now + forward_[i].workspace_bytes);
      now -= forward_[i].saved_bytes + outputs_bytes(ops_[i], [](TensorId) { return true; });
    }
    return worst;
  }

  // `ends`: what an operator saved and made ends with its backward, and so do the gradients of
  // its outputs.
  std::int64_t backward_bytes(bool ends) {
    waiting_.assign(graph_.tensors.size(), false);
    std::map<ParamId, int> uses;
    for (const OpId op : ops_) {
      for (const ParamId param : graph_.op(op).params) ++uses[param];
    }
    std::map<ParamId, int> left = uses;
    std::int64_t now = 0;
    for (const OpId op : ops_) {
      now += outputs_bytes(op, [&](TensorId t) { return needs_[t.index()] && is_loss(graph_, t); });
    }
    std::int64_t worst = now;
    for (std::size_t i = ops_.size(); i-- > 0;) {
      if (!has_backward(ops_[i])) continue;
      worst = std::max(worst, now + backward_[i].workspace_bytes);
      if (ends || !has_trained_params(graph_, graph_.op(ops_[i]))) {
        now -= outputs_bytes(ops_[i], [&](TensorId t) { return waiting_[t.index()]; });
      }
      if (ends) {
        now -= forward_[i].saved_bytes +
               outputs_bytes(ops_[i], [&](TensorId t) { return !outlives_backward(t); });
      }
      now += made_to_wait(ops_[i]);
      for (const ParamId param : graph_.op(ops_[i]).params) {
        if (!graph_.param(param).trainable || uses[param] == 1) continue;
        const std::int64_t gradient = param_bytes(graph_.param(param));
        if (left[param] == uses[param]) now += gradient;
        if (--left[param] == 0) now -= gradient;
      }
    }
    return worst;
  }

  std::int64_t input_gradient_bytes() const {
    std::int64_t bytes = 0;
    for (std::size_t t = 0; t < waiting_.size(); ++t) {
      if (waiting_[t] && !is_made_here(TensorId(t))) bytes += bytes_of(TensorId(t));
    }
    return bytes;
  }

  std::int64_t seed_bytes() const {
    std::int64_t bytes = 0;
    for (const OpId op : ops_) {
      if (!has_backward(op) || !has_trained_params(graph_, graph_.op(op))) continue;
      bytes += outputs_bytes(op, [&](TensorId t) { return needs_[t.index()]; });
    }
    return bytes;
  }

  std::int64_t weight_half_bytes() const {
    std::int64_t worst = 0;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (has_backward(ops_[i])) worst = std::max(worst, backward_[i].workspace_bytes);
    }
    return worst;
  }

 private:
  bool has_backward(OpId op) const {
    return std::ranges::any_of(graph_.op(op).outputs,
                               [&](TensorId t) { return needs_[t.index()]; });
  }
  bool outlives_backward(TensorId tensor) const {
    return is_watched(graph_, tensor) || std::ranges::binary_search(leaving_, tensor);
  }
  bool is_made_here(TensorId tensor) const {
    const OpId producer = graph_.tensor(tensor).producer;
    return producer.valid() && std::ranges::binary_search(ops_, producer);
  }
  std::int64_t bytes_of(TensorId tensor) const {
    return tensor_bytes(graph_.tensor(tensor), samples_);
  }
  template <typename Which>
  std::int64_t outputs_bytes(OpId op, Which which) const {
    std::int64_t bytes = 0;
    for (const TensorId t : graph_.op(op).outputs) bytes += which(t) ? bytes_of(t) : 0;
    return bytes;
  }
  // Gradients of what the operator reads, those that others have not begun.
  std::int64_t made_to_wait(OpId op) {
    std::int64_t bytes = 0;
    for (const TensorId in : graph_.op(op).inputs) {
      if (!needs_[in.index()] || waiting_[in.index()]) continue;
      waiting_[in.index()] = true;
      bytes += bytes_of(in);
    }
    return bytes;
  }

  const Graph& graph_;
  const std::vector<bool>& needs_;
  const std::vector<OpId>& ops_;
  const std::vector<TensorId>& leaving_;
  std::int64_t samples_;
  std::vector<OpCost> forward_;
  std::vector<OpCost> backward_;
  std::vector<bool> waiting_;  // [tensor]: its gradient exists
};

}  // namespace

TaskMemory task_memory(const CostModel& costs, const Graph& graph, const std::vector<bool>& needs,
                       const std::vector<OpId>& ops, const std::vector<TensorId>& leaving,
                       std::int64_t samples, const DeviceType& device) {
  TaskMemory memory;
  if (samples <= 0) return memory;
  Walk walk(costs, graph, needs, ops, leaving, samples, device);
  memory.forward_bytes = walk.forward_bytes();
  memory.backward_bytes = walk.backward_bytes(/*ends=*/true);
  memory.input_gradient_bytes = walk.input_gradient_bytes();
  memory.input_half_bytes = walk.backward_bytes(/*ends=*/false);
  memory.seed_bytes = walk.seed_bytes();
  memory.weight_half_bytes = walk.weight_half_bytes();
  return memory;
}

std::vector<bool> tied_params(const Graph& graph) {
  std::vector<int> holders(graph.params.size(), 0);
  for (const Operator& op : graph.ops) {
    for (const ParamId param : op.params) ++holders[param.index()];
  }
  std::vector<bool> tied(graph.params.size(), false);
  for (std::size_t i = 0; i < tied.size(); ++i) {
    tied[i] = graph.params[i].trainable && holders[i] > 1;
  }
  return tied;
}

OpTaskMemory op_task_memory(const Graph& graph, const std::vector<bool>& needs,
                            const std::vector<bool>& tied, OpId id, std::int64_t samples,
                            const OpCost& forward, const OpCost& backward) {
  const Operator& op = graph.op(id);
  std::int64_t made = 0;
  std::int64_t ended = 0;
  std::int64_t given = 0;
  for (const TensorId t : op.outputs) {
    if (!needs[t.index()]) continue;
    const std::int64_t bytes = tensor_bytes(graph.tensor(t), samples);
    made += bytes;
    ended += is_watched(graph, t) ? 0 : bytes;
  }
  if (made > 0) {
    for (const TensorId t : op.inputs) {
      if (needs[t.index()]) given += tensor_bytes(graph.tensor(t), samples);
    }
  }
  OpTaskMemory memory;
  memory.worst_bytes =
      std::max(forward.workspace_bytes, made > 0 ? made + backward.workspace_bytes : 0);
  memory.kept_bytes = std::max<std::int64_t>(0, given - ended) + (made - ended);
  for (const ParamId param : op.params) {
    if (tied[param.index()]) memory.kept_bytes += param_bytes(graph.param(param));
  }
  return memory;
}

}  // namespace graphpipe
