#include "plan/plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace graphpipe {
namespace {

std::vector<StageId> stage_of_ops(const Graph& graph, const std::vector<Stage>& stages) {
  std::vector<StageId> owner(graph.op_count());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const OpId op : stages[s].ops) owner[op.index()] = StageId(s);
  }
  return owner;
}

auto edge_key(const StageEdge& edge) { return std::tuple(edge.from, edge.to, edge.kind); }

std::vector<std::vector<StageId>> successors(const Plan& plan) {
  std::vector<std::vector<StageId>> next(plan.stages.size());
  for (const StageEdge& edge : plan.edges) next[edge.from.index()].push_back(edge.to);
  return next;
}

// Stages in an order in which they can run; of those that could come next, the one with
// the smallest operator first.
std::vector<StageId> running_order(const Plan& plan) {
  const auto next = successors(plan);
  std::vector<int> waits_for(plan.stages.size(), 0);
  for (const auto& targets : next) {
    for (const StageId to : targets) ++waits_for[to.index()];
  }
  using Entry = std::pair<OpId, StageId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  const auto push = [&](StageId stage) {
    const std::vector<OpId>& ops = plan.stage(stage).ops;
    ready.emplace(ops.empty() ? OpId() : ops.front(), stage);
  };
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (waits_for[s] == 0) push(StageId(s));
  }
  std::vector<StageId> order;
  while (!ready.empty()) {
    const StageId stage = ready.top().second;
    ready.pop();
    order.push_back(stage);
    for (const StageId to : next[stage.index()]) {
      if (--waits_for[to.index()] == 0) push(to);
    }
  }
  GP_CHECK(order.size() == plan.stages.size(), "the stage graph has a cycle");
  return order;
}

// b and g = k b of the in-flight rule: a round-robin stage of d devices counts with b d.
std::int64_t in_flight_unit(const Stage& stage) {
  const bool in_turn = stage.replication == Replication::kRoundRobin;
  return stage.micro_batch * (in_turn ? static_cast<std::int64_t>(stage.devices.size()) : 1);
}

template <typename T>
void reorder(std::vector<T>& items, const std::vector<StageId>& order) {
  if (items.size() != order.size()) return;  // an estimate that is not filled in
  std::vector<T> sorted;
  sorted.reserve(items.size());
  for (const StageId from : order) sorted.push_back(std::move(items[from.index()]));
  items = std::move(sorted);
}

}  // namespace

std::vector<StageEdge> data_edges(const Graph& graph, const std::vector<Stage>& stages) {
  return data_edges(graph, needs_gradient(graph), stages);
}

std::vector<StageEdge> data_edges(const Graph& graph, const std::vector<bool>& needs,
                                  const std::vector<Stage>& stages) {
  const std::vector<StageId> owner = stage_of_ops(graph, stages);
  std::map<std::pair<StageId, StageId>, StageEdge> edges;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const Operator& op = graph.ops[i];
    const StageId to = owner[i];
    for (const TensorId in : op.inputs) {
      const OpId producer = graph.tensor(in).producer;
      if (!producer.valid()) continue;
      const StageId from = owner[producer.index()];
      if (from == to || !from.valid() || !to.valid()) continue;
      // A metric reads a tensor without answering with a gradient.
      const bool answers = has_backward(op, needs);
      StageEdge& edge = edges[{from, to}];
      edge.from = from;
      edge.to = to;
      edge.tensors.push_back(in);
      edge.gradient = edge.gradient || (answers && needs[in.index()]);
    }
  }
  std::vector<StageEdge> sorted;
  for (auto& [ends, edge] : edges) {
    std::ranges::sort(edge.tensors);
    const auto repeats = std::ranges::unique(edge.tensors);
    edge.tensors.erase(repeats.begin(), repeats.end());
    sorted.push_back(std::move(edge));
  }
  return sorted;
}

std::vector<TensorId> leaving_tensors(const Plan& plan, StageId stage) {
  std::vector<TensorId> leaving;
  for (const StageEdge& edge : plan.edges) {
    if (edge.from == stage) leaving.insert(leaving.end(), edge.tensors.begin(), edge.tensors.end());
  }
  std::ranges::sort(leaving);
  const auto repeats = std::ranges::unique(leaving);
  leaving.erase(repeats.begin(), repeats.end());
  return leaving;
}

void add_chain_order(Plan& plan) {
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    const StageId from(s - 1);
    const StageId to(s);
    const bool joined = std::ranges::any_of(
        plan.edges, [&](const StageEdge& edge) { return edge.from == from && edge.to == to; });
    if (joined) continue;
    plan.edges.push_back({from, to, EdgeKind::kOrder, {}, true});
  }
  std::ranges::sort(plan.edges, {}, edge_key);
}

void canonicalise(Plan& plan, const Graph& graph) {
  canonicalise(plan, graph, needs_gradient(graph));
}

void canonicalise(Plan& plan, const Graph& graph, const std::vector<bool>& needs) {
  for (Stage& stage : plan.stages) std::ranges::sort(stage.ops);
  std::erase_if(plan.edges, [](const StageEdge& edge) { return edge.kind == EdgeKind::kData; });
  std::vector<StageEdge> implied = data_edges(graph, needs, plan.stages);
  plan.edges.insert(plan.edges.end(), implied.begin(), implied.end());

  const std::vector<StageId> order = running_order(plan);
  std::vector<StageId> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i].index()] = StageId(i);
  reorder(plan.stages, order);
  reorder(plan.estimate.stage_tps_s, order);
  reorder(plan.estimate.stage_memory_bytes, order);
  for (StageEdge& edge : plan.edges) {
    edge.from = place[edge.from.index()];
    edge.to = place[edge.to.index()];
  }
  std::ranges::sort(plan.edges, {}, edge_key);
}

int pipeline_depth(const Plan& plan) {
  const auto next = successors(plan);
  std::vector<int> stages_to_here(plan.stages.size(), 1);
  int depth = 0;
  for (const StageId stage : running_order(plan)) {
    const int here = stages_to_here[stage.index()];
    depth = std::max(depth, here);
    for (const StageId to : next[stage.index()]) {
      stages_to_here[to.index()] = std::max(stages_to_here[to.index()], here + 1);
    }
  }
  return depth;
}

std::int64_t schedule_samples(const Plan& plan) {
  if (!is_asynchronous(plan.weights)) return plan.mini_batch;
  constexpr std::int64_t kSteadyMiniBatches = 32;
  std::int64_t most = plan.mini_batch;
  for (const Stage& stage : plan.stages) most = std::max(most, stage.in_flight_samples);
  const std::int64_t mini_batches = (most + plan.mini_batch - 1) / plan.mini_batch;
  return plan.mini_batch * (kSteadyMiniBatches + 8 * mini_batches);
}

std::int64_t most_in_flight(const Plan& plan) {
  return is_asynchronous(plan.weights) ? std::numeric_limits<std::int64_t>::max() : plan.mini_batch;
}

std::vector<std::int64_t> least_in_flight(const Plan& plan) {
  const auto next = successors(plan);
  std::vector<StageId> from_sinks = running_order(plan);
  std::ranges::reverse(from_sinks);
  std::vector<std::int64_t> in_flight(plan.stages.size(), 0);
  for (const StageId s : from_sinks) {
    const std::int64_t b = in_flight_unit(plan.stage(s));
    const std::int64_t g = plan.stage(s).kfkb * b;
    std::int64_t needed = g;  // of a sink
    for (const StageId j : next[s.index()]) {
      const std::int64_t b_next = in_flight_unit(plan.stage(j));
      const std::int64_t g_next = plan.stage(j).kfkb * b_next;
      needed = std::max(needed, in_flight[j.index()] + std::max(g, b_next) +
                                    std::max<std::int64_t>(0, b - g_next));
    }
    in_flight[s.index()] = std::min((needed + b - 1) / b * b, most_in_flight(plan));
  }
  return in_flight;
}

std::vector<std::int64_t> warm_up_samples(const Plan& plan) {
  std::vector<std::int64_t> samples;
  for (const Stage& stage : plan.stages) samples.push_back(stage.in_flight_samples);
  if (plan.schedule != ScheduleKind::kZbH1) return samples;
  const std::vector<std::int64_t> least = least_in_flight(plan);
  for (std::size_t s = 0; s < samples.size(); ++s) samples[s] = std::min(samples[s], least[s]);
  return samples;
}

bool shares_devices(const Plan& plan) {
  std::size_t replicas = 0;
  for (const Stage& stage : plan.stages) replicas += stage.devices.size();
  return static_cast<std::size_t>(devices_used(plan)) < replicas;
}

int devices_used(const Plan& plan) {
  std::vector<DeviceId> devices;
  for (const Stage& stage : plan.stages) {
    devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
  }
  std::ranges::sort(devices);
  const auto repeats = std::ranges::unique(devices);
  return static_cast<int>(devices.size() - repeats.size());
}

std::uint64_t plan_hash(const Plan& plan) {
  std::uint64_t hash = plan.graph_hash;
  const auto add = [&hash](std::int64_t number) {
    hash = combine_hash(hash, static_cast<std::uint64_t>(number));
  };
  const auto add_all = [&add](const auto& ids) {
    add(static_cast<std::int64_t>(ids.size()));
    for (const auto& id : ids) add(id.value);
  };
  add(plan.mini_batch);
  add(static_cast<int>(plan.schedule));
  add(static_cast<int>(plan.optimizer));
  if (is_asynchronous(plan.weights)) add(static_cast<int>(plan.weights));
  add(static_cast<std::int64_t>(plan.stages.size()));
  for (const Stage& stage : plan.stages) {
    add_all(stage.ops);
    add_all(stage.devices);
    add(static_cast<int>(stage.replication));
    add(stage.micro_batch);
    add(stage.in_flight_samples);
    add(stage.kfkb);
    add(stage.recompute ? 1 : 0);
  }
  for (const StageEdge& edge : plan.edges) {
    add(edge.from.value);
    add(edge.to.value);
    add(static_cast<int>(edge.kind));
    add_all(edge.tensors);
    add(edge.gradient ? 1 : 0);
  }
  return hash;
}

std::string_view schedule_kind_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::k1F1B:
      return "1f1b";
    case ScheduleKind::kGpipe:
      return "gpipe";
    case ScheduleKind::kZbH1:
      return "zb-h1";
  }
  GP_CHECK(false, "unknown schedule kind {}", static_cast<int>(kind));
  return "";
}

std::string_view optimizer_name(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return "sgd";
    case OptimizerKind::kSgdMomentum:
      return "sgd-momentum";
    case OptimizerKind::kAdam:
      return "adam";
  }
  GP_CHECK(false, "unknown optimizer {}", static_cast<int>(kind));
  return "";
}

std::string_view weight_policy_name(WeightPolicy policy) {
  switch (policy) {
    case WeightPolicy::kSynchronous:
      return "synchronous";
    case WeightPolicy::kStash:
      return "stash";
    case WeightPolicy::kVerticalSync:
      return "vertical-sync";
    case WeightPolicy::k2bw:
      return "2bw";
    case WeightPolicy::kNaive:
      return "naive";
  }
  GP_CHECK(false, "unknown weight policy {}", static_cast<int>(policy));
  return "";
}

}  // namespace graphpipe
