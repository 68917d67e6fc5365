#include "cost/task_memory.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace graphpipe {
namespace {

// TaskMemories forgets beyond so many operators, of all its tasks.
constexpr std::size_t kMostKeptOps = 4'000'000;

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

// Marks what the operators' backwards need of what they read.
void mark_needed_inputs(const CostModel& costs, const Graph& graph, const std::vector<OpId>& ops,
                        const DeviceType& device, std::vector<bool>& marked) {
  for (const OpId id : ops) {
    const Operator& op = graph.op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (costs.keeps_input(op, i, device)) marked[op.inputs[i].index()] = true;
    }
  }
}

// Walks the operators with what is held beside (or, below zero, less than) all that is saved.
class Walk {
 public:
  Walk(const CostModel& costs, const Graph& graph, const std::vector<bool>& needs,
       const std::vector<OpId>& ops, const std::vector<TensorId>& leaving, std::int64_t samples,
       const DeviceType& device, bool in_halves)
      : graph_(graph), needs_(needs), ops_(ops), samples_(samples) {
    for (const OpId op : ops) {
      forward_.push_back(costs.op_cost(graph, op, samples, 1, device, Phase::kForward));
      backward_.push_back(costs.op_cost(graph, op, samples, 1, device, Phase::kBackward));
    }
    kept_.assign(graph.tensors.size(), false);
    outlives_.assign(graph.tensors.size(), false);
    for (const TensorId tensor : leaving) outlives_[tensor.index()] = true;
    for (const OpId op : ops) {
      for (const TensorId out : graph.op(op).outputs) {
        if (is_watched(graph, out)) outlives_[out.index()] = true;
        const bool kept =
            (in_halves && needs[out.index()]) || costs.keeps_output(graph.op(op), device);
        if (kept) kept_[out.index()] = true;
      }
    }
    mark_needed_inputs(costs, graph, ops, device, kept_);
    for (const TensorId in : stage_inputs(graph, ops)) {  // as kept_inputs() has it
      if (needs[in.index()]) kept_[in.index()] = true;
    }
  }

  std::int64_t saved_bytes() const {
    std::int64_t bytes = 0;
    for (const TensorId in : stage_inputs(graph_, ops_)) bytes += stays(in) ? bytes_of(in) : 0;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      bytes +=
          forward_[i].saved_bytes + outputs_bytes(ops_[i], [&](TensorId t) { return stays(t); });
    }
    return bytes;
  }

  // What the stage reads is there from its start to its end.
  std::int64_t forward_bytes(std::int64_t saved_bytes) const {
    std::vector<std::size_t> last_reader(graph_.tensors.size(), 0);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const TensorId in : graph_.op(ops_[i]).inputs) last_reader[in.index()] = i;
    }
    std::int64_t now = stage_input_bytes(graph_, ops_, samples_);
    std::int64_t worst = 0;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Operator& op = graph_.op(ops_[i]);
      now += forward_[i].saved_bytes + outputs_bytes(ops_[i], [](TensorId) { return true; });
      worst = std::max(worst, now + forward_[i].workspace_bytes);
      std::vector<TensorId> ending = op.inputs;
      std::ranges::sort(ending);
      ending.erase(std::ranges::unique(ending).begin(), ending.end());
      for (const TensorId in : ending) {
        if (is_made_here(in) && !stays(in) && last_reader[in.index()] == i) now -= bytes_of(in);
      }
    }
    return std::max<std::int64_t>(0, worst - saved_bytes);
  }

  // `ends`: what an operator saved and made ends with its backward, and so do the gradients of
  // its outputs. `rest`: see TaskMemory::rest_bytes.
  std::int64_t backward_bytes(bool ends, std::vector<std::int64_t>& rest) {
    waiting_.assign(graph_.tensors.size(), false);
    std::vector<int> uses(graph_.params.size(), 0);
    for (const OpId op : ops_) {
      for (const ParamId param : graph_.op(op).params) ++uses[param.index()];
    }
    std::vector<int> left = uses;
    std::int64_t now = 0;
    for (const OpId op : ops_) {
      now += outputs_bytes(op, [&](TensorId t) { return needs_[t.index()] && is_loss(graph_, t); });
    }
    const std::int64_t start = now;
    std::vector<std::int64_t> at_work(ops_.size(), 0);
    rest.assign(ops_.size(), now);
    for (std::size_t i = ops_.size(); i-- > 0; rest[i] = now) {
      if (!has_backward(ops_[i])) continue;
      at_work[i] = now + backward_[i].workspace_bytes;
      if (ends || !has_trained_params(graph_, graph_.op(ops_[i]))) {
        now -= outputs_bytes(ops_[i], [&](TensorId t) { return waiting_[t.index()]; });
      }
      if (ends) {
        now -= forward_[i].saved_bytes + outputs_bytes(ops_[i], [&](TensorId t) {
                 return stays(t) && !outlives_[t.index()];
               });
      }
      now += made_to_wait(ops_[i]);
      for (const ParamId param : graph_.op(ops_[i]).params) {
        const std::size_t p = param.index();
        if (!graph_.param(param).trainable || uses[p] == 1) continue;
        const std::int64_t gradient = param_bytes(graph_.param(param));
        if (left[p] == uses[p]) now += gradient;
        if (--left[p] == 0) now -= gradient;
      }
    }
    std::int64_t worst = 0;  // from the last operator of the backward to its first
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      rest[i] = std::max(rest[i], worst);
      worst = std::max({worst, rest[i], at_work[i]});
    }
    return std::max(worst, start);
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
  bool has_backward(OpId op) const { return graphpipe::has_backward(graph_.op(op), needs_); }
  bool stays(TensorId tensor) const { return kept_[tensor.index()] || outlives_[tensor.index()]; }
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
  std::int64_t samples_;
  std::vector<OpCost> forward_;
  std::vector<OpCost> backward_;
  std::vector<bool> kept_;      // [tensor]: for a backward
  std::vector<bool> outlives_;  // [tensor]: the operators' backwards
  std::vector<bool> waiting_;   // [tensor]: its gradient exists
};

}  // namespace

std::vector<TensorId> kept_inputs(const CostModel& costs, const Graph& graph,
                                  const std::vector<bool>& needs, const std::vector<OpId>& ops,
                                  const DeviceType& device) {
  std::vector<bool> kept = needs;  // what has a gradient is kept to have it
  mark_needed_inputs(costs, graph, ops, device, kept);
  std::vector<TensorId> inputs = stage_inputs(graph, ops);
  std::erase_if(inputs, [&](TensorId in) { return !kept[in.index()]; });
  return inputs;
}

TaskMemory task_memory(const CostModel& costs, const Graph& graph, const std::vector<bool>& needs,
                       const std::vector<OpId>& ops, const std::vector<TensorId>& leaving,
                       std::int64_t samples, const DeviceType& device, bool in_halves) {
  TaskMemory memory;
  if (samples <= 0) return memory;
  Walk walk(costs, graph, needs, ops, leaving, samples, device, in_halves);
  memory.saved_bytes = walk.saved_bytes();
  memory.forward_bytes = walk.forward_bytes(memory.saved_bytes);
  memory.backward_bytes = walk.backward_bytes(/*ends=*/true, memory.rest_bytes);
  memory.input_gradient_bytes = walk.input_gradient_bytes();
  std::vector<std::int64_t> rest;
  memory.input_half_bytes = walk.backward_bytes(/*ends=*/false, rest);
  memory.seed_bytes = walk.seed_bytes();
  memory.weight_half_bytes = walk.weight_half_bytes();
  return memory;
}

std::size_t TaskMemories::Hash::operator()(const Task& task) const {
  auto hash = static_cast<std::uint64_t>(task.samples);
  for (const OpId op : task.ops) hash = combine_hash(hash, op.index());
  return static_cast<std::size_t>(hash);
}

const TaskMemory& TaskMemories::of(const std::vector<OpId>& ops,
                                   const std::vector<TensorId>& leaving, std::int64_t samples,
                                   const DeviceType& device, bool in_halves) {
  Task task{ops, leaving, samples, &device, in_halves};
  if (const auto found = known_.find(task); found != known_.end()) return found->second;
  if (kept_ops_ > kMostKeptOps) {
    known_.clear();
    kept_ops_ = 0;
  }
  kept_ops_ += ops.size();
  TaskMemory& memory = known_[std::move(task)];
  memory = task_memory(costs_, graph_, needs_, ops, leaving, samples, device, in_halves);
  memory.rest_bytes = {};
  return memory;
}

TrainingFacts training_facts(const CostModel& costs, const Graph& graph, const DeviceType& device) {
  TrainingFacts facts;
  facts.needs = needs_gradient(graph);
  facts.kept.assign(graph.tensors.size(), false);
  facts.watched.assign(graph.tensors.size(), false);
  std::vector<int> holders(graph.params.size(), 0);
  for (const Operator& op : graph.ops) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (costs.keeps_input(op, i, device)) facts.kept[op.inputs[i].index()] = true;
    }
    for (const TensorId out : op.outputs) {
      if (costs.keeps_output(op, device)) facts.kept[out.index()] = true;
    }
    for (const ParamId param : op.params) ++holders[param.index()];
  }
  for (const Loss& loss : graph.losses) facts.watched[loss.tensor.index()] = true;
  for (const Metric& metric : graph.metrics) facts.watched[metric.tensor.index()] = true;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    facts.tied.push_back(graph.params[i].trainable && holders[i] > 1);
  }
  return facts;
}

OpTaskMemory op_task_memory(const Graph& graph, const TrainingFacts& facts, OpId id,
                            std::int64_t samples, const OpCost& forward, const OpCost& backward) {
  const Operator& op = graph.op(id);
  std::int64_t made = 0;      // gradients of outputs
  std::int64_t ended = 0;     // outputs that end with the backward
  std::int64_t given = 0;     // gradients of inputs
  std::int64_t not_kept = 0;  // outputs
  for (const TensorId t : op.outputs) {
    const std::int64_t bytes = tensor_bytes(graph.tensor(t), samples);
    if (!facts.kept[t.index()]) not_kept += bytes;
    if (!facts.needs[t.index()]) continue;
    made += bytes;
    if (facts.kept[t.index()] && !facts.watched[t.index()]) ended += bytes;
  }
  if (made > 0) {
    for (const TensorId t : op.inputs) {
      if (facts.needs[t.index()]) given += tensor_bytes(graph.tensor(t), samples);
    }
  }
  OpTaskMemory memory;
  memory.worst_bytes =
      std::max(forward.workspace_bytes, made > 0 ? made + backward.workspace_bytes : 0);
  memory.beside_bytes = std::max<std::int64_t>(0, given - ended) + (made - ended) + not_kept;
  for (const ParamId param : op.params) {
    if (facts.tied[param.index()]) memory.beside_bytes += param_bytes(graph.param(param));
  }
  return memory;
}

}  // namespace graphpipe
