#include "cost/operator_bounds.h"

#include <algorithm>
#include <set>

#include "base/numbers.h"

namespace graphpipe {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// What `samples` samples can be cut into: the full and the last share of every division over
// up to max_width devices.
void add_shares(std::int64_t samples, int max_width, std::map<std::int64_t, int>& sizes) {
  for (std::int64_t d = 1; d <= std::min<std::int64_t>(max_width, samples); ++d) {
    const std::int64_t share = (samples + d - 1) / d;
    const auto add = [&](std::int64_t n) {
      const auto [known, fresh] = sizes.try_emplace(n, static_cast<int>(d));
      if (!fresh) known->second = std::min(known->second, static_cast<int>(d));
    };
    add(share);
    if (samples % share != 0) add(samples % share);
  }
}

std::vector<TaskSize> task_sizes(const BoundRules& rules, int max_width) {
  std::map<std::int64_t, int> sizes;
  for (const std::int64_t micro_batch : rules.micro_batches) {
    const std::int64_t b = std::min(micro_batch, rules.mini_batch);
    add_shares(b, max_width, sizes);
    if (rules.mini_batch % b != 0) add_shares(rules.mini_batch % b, max_width, sizes);
  }
  std::vector<TaskSize> list;
  for (const auto& [samples, width] : sizes) list.push_back({samples, width});
  return list;
}

// The types that devices have, each once.
std::vector<const DeviceType*> types_in_use(const Cluster& cluster) {
  std::vector<const DeviceType*> types;
  for (std::size_t t = 0; t < cluster.types.size(); ++t) {
    const bool used =
        std::ranges::find(cluster.device_type, static_cast<int>(t)) != cluster.device_type.end();
    if (used) types.push_back(&cluster.types[t]);
  }
  return types;
}

// [op]: bytes of its trained parameters that it shares with no other operator.
std::vector<std::int64_t> unshared_bytes(const Graph& graph, const std::vector<bool>& backward) {
  std::vector<int> holders(graph.params.size(), 0);
  for (const Operator& op : graph.ops) {
    const std::set<ParamId> distinct(op.params.begin(), op.params.end());
    for (const ParamId param : distinct) ++holders[param.index()];
  }
  std::vector<std::int64_t> bytes(graph.op_count(), 0);
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    if (!backward[o]) continue;
    const std::set<ParamId> distinct(graph.ops[o].params.begin(), graph.ops[o].params.end());
    for (const ParamId param : distinct) {
      if (holders[param.index()] > 1 || !graph.param(param).trainable) continue;
      bytes[o] += param_bytes(graph.param(param));
    }
  }
  return bytes;
}

}  // namespace

std::int64_t least_saved_bytes(const CostModel& costs, const Graph& graph,
                               const std::vector<bool>& needs, OpId id, std::int64_t samples,
                               const DeviceType& device) {
  const Operator& op = graph.op(id);
  if (!has_backward(op, needs)) return 0;
  std::set<TensorId> kept;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (costs.keeps_input(op, i, device)) kept.insert(op.inputs[i]);
  }
  if (costs.keeps_output(op, device)) kept.insert(op.outputs.begin(), op.outputs.end());
  std::int64_t bytes = costs.op_cost(graph, id, samples, 1, device, Phase::kForward).saved_bytes;
  for (const TensorId tensor : kept) bytes += tensor_bytes(graph.tensor(tensor), samples);
  return bytes;
}

OperatorBounds::OperatorBounds(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                               const BoundRules& rules)
    : graph_(graph),
      cluster_(cluster),
      costs_(costs),
      rules_(rules),
      max_width_(std::min(rules.max_width, cluster.device_count())),
      sizes_(task_sizes(rules, max_width_)),
      types_(types_in_use(cluster)),
      needs_(needs_gradient(graph)) {
  std::vector<bool> backward;
  for (const Operator& op : graph.ops) backward.push_back(has_backward(op, needs_));
  std::map<Key, std::size_t> known;
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    const auto [kind, fresh] = known.try_emplace(key(OpId(o), backward[o]), kinds_.size());
    if (fresh) kinds_.push_back(times(OpId(o), backward[o]));
    kind_.push_back(kind->second);
  }
  summed_bytes_ = unshared_bytes(graph, backward);
  // d times its part of the ring's bytes for the least d from this width on.
  reduce_work_per_byte_s_.assign(at(max_width_) + 2, kInfinity);
  for (int d = max_width_; d >= 2; --d) {
    constexpr std::int64_t kBytes = std::int64_t{1} << 30;
    Link link = best_link(d);
    link.latency_s = 0;
    const double per_byte_s = costs.reduce_s(kBytes, d, link) / static_cast<double>(kBytes);
    reduce_work_per_byte_s_[at(d)] = std::min(reduce_work_per_byte_s_[at(d) + 1], d * per_byte_s);
  }
  reduce_work_per_byte_s_[1] = 0;
}

std::int64_t OperatorBounds::kept_bytes(OpId op) const {
  if (rules_.param_bytes.empty()) return 0;
  const std::vector<ParamId>& params = graph_.op(op).params;
  std::int64_t bytes = 0;
  for (const ParamId param : std::set<ParamId>(params.begin(), params.end())) {
    bytes += rules_.param_bytes[param.index()];
  }
  return bytes;
}

OperatorBounds::Key OperatorBounds::key(OpId op, bool backward) const {
  std::vector<double> seconds;
  for (const DeviceType* type : types_) {
    for (const TaskSize& size : {sizes_.front(), sizes_.back()}) {
      for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
        const OpCost cost = costs_.op_cost(graph_, op, size.samples, 1, *type, phase);
        seconds.push_back(cost.seconds);
        seconds.push_back(static_cast<double>(cost.saved_bytes));
        seconds.push_back(static_cast<double>(cost.workspace_bytes));
      }
    }
  }
  return {op_signature(graph_, op), backward, {kept_bytes(op)}, seconds};
}

// On a device of one of the types, with nothing beside but what a forward leaves.
bool OperatorBounds::fits(OpId op, std::int64_t samples) const {
  if (rules_.param_bytes.empty()) return true;
  return std::ranges::any_of(types_, [&](const DeviceType* type) {
    return kept_bytes(op) + least_saved_bytes(costs_, graph_, needs_, op, samples, *type) <=
           type->memory_bytes;
  });
}

OperatorTimes OperatorBounds::times(OpId op, bool backward) const {
  OperatorTimes times;
  times.backward = backward;
  const auto seconds = [&](std::int64_t n, const DeviceType& type, Phase phase) {
    return costs_.op_cost(graph_, op, n, 1, type, phase).seconds;
  };
  for (const auto& [n, width] : sizes_) {
    double forward_s = kInfinity;
    double back_s = kInfinity;
    double task_s = kInfinity;
    const bool possible = fits(op, n);
    for (const DeviceType* type : possible ? types_ : std::vector<const DeviceType*>{}) {
      const double f = seconds(n, *type, Phase::kForward);
      double all = backward ? seconds(n, *type, Phase::kBackward) : 0;
      double back = all;
      if (backward && rules_.halves) {
        const double input_s = seconds(n, *type, Phase::kBackwardInput);
        back = std::min(back, input_s);
        all = std::min(all, input_s + seconds(n, *type, Phase::kBackwardWeight));
      }
      forward_s = std::min(forward_s, f);
      back_s = std::min(back_s, back);
      task_s = std::min(task_s, f + all);
    }
    times.forward_s.push_back(forward_s);
    times.back_s.push_back(back_s);
    times.task_s.push_back(task_s);
    const auto samples = static_cast<double>(n);
    const auto add_least = [samples](std::vector<double>& least, double of_task_s) {
      const double one_s = of_task_s / samples;
      least.push_back(least.empty() ? one_s : std::min(least.back(), one_s));
    };
    add_least(times.per_sample_s, task_s);
    add_least(times.forward_per_sample_s, forward_s);
  }
  times.larger_task_s = times.task_s;
  for (std::size_t i = sizes_.size() - 1; i-- > 0;) {
    times.larger_task_s[i] = std::min(times.larger_task_s[i], times.larger_task_s[i + 1]);
  }
  times.least_forward_s = *std::ranges::min_element(times.forward_s);
  times.least_back_s = *std::ranges::min_element(times.back_s);
  times.least_per_sample_s = times.per_sample_s.back();
  return times;
}

double OperatorBounds::busiest_s(OpId op, int width) const {
  const OperatorTimes& times = of(op);
  const std::int64_t q = (rules_.mini_batch + width - 1) / width;
  const auto larger = std::ranges::upper_bound(sizes_, q, {}, &TaskSize::samples);
  const std::size_t i = at(larger - sizes_.begin());
  double least_s = kInfinity;
  if (i > 0) least_s = static_cast<double>(q) * times.per_sample_s[i - 1];
  if (i < sizes_.size()) least_s = std::min(least_s, times.larger_task_s[i]);
  return least_s;
}

// The fastest on which so many devices may meet: at least at the level that holds them all.
Link OperatorBounds::best_link(int width) const {
  Link best{0, kInfinity};
  std::int64_t devices = 1;
  for (const Level& level : cluster_.levels) {
    devices *= level.group_size;
    best.latency_s = std::min(best.latency_s, level.link.latency_s);
    if (devices < width) continue;
    best.bandwidth_bytes_per_s =
        std::max(best.bandwidth_bytes_per_s, level.link.bandwidth_bytes_per_s);
  }
  return best;
}

double OperatorBounds::reduce_s(OpId op, int width) const {
  const std::int64_t bytes = summed_bytes_[op.index()];
  return width < 2 || bytes == 0 ? 0 : costs_.reduce_s(bytes, width, best_link(width));
}

double OperatorBounds::reduce_work_s(OpId op, int width) const {
  return static_cast<double>(summed_bytes_[op.index()]) * reduce_work_per_byte_s_[at(width)];
}

}  // namespace graphpipe
