#include "planners/stage_tps.h"

#include <algorithm>

#include "base/divide_up.h"
#include "plan/stage_memory.h"
#include "schedule/schedule.h"
#include "schedule/trained_params.h"

namespace graphpipe {
namespace {

struct Traffic {
  std::int64_t in_bytes = 0;
  std::int64_t out_bytes = 0;
  bool any = false;
};

// Tensors that the stage reads from others, and that others read from it, each once.
Traffic traffic(CostTable& table, const std::vector<OpId>& ops, std::int64_t samples) {
  const Graph& graph = *table.problem().graph;
  const std::vector<bool>& needs = table.facts().needs;
  const auto inside = [&](OpId op) { return std::ranges::binary_search(ops, op); };
  Traffic result;
  std::vector<TensorId> read;
  for (const OpId op : ops) {
    for (const TensorId in : graph.op(op).inputs) {
      const OpId producer = graph.tensor(in).producer;
      if (producer.valid() && !inside(producer)) read.push_back(in);
    }
    for (const TensorId out : graph.op(op).outputs) {
      const bool goes = std::ranges::any_of(table.readers(out), [&](OpId r) { return !inside(r); });
      if (!goes) continue;
      result.any = true;
      const std::int64_t bytes = tensor_bytes(graph.tensor(out), samples);
      result.out_bytes += bytes;
      if (needs[out.index()]) result.in_bytes += bytes;
    }
  }
  std::ranges::sort(read);
  const auto repeats = std::ranges::unique(read);
  read.erase(repeats.begin(), repeats.end());
  for (const TensorId in : read) {
    result.any = true;
    const std::int64_t bytes = tensor_bytes(graph.tensor(in), samples);
    result.in_bytes += bytes;
    if (needs[in.index()]) result.out_bytes += bytes;
  }
  return result;
}

}  // namespace

double stage_tps_s(CostTable& table, const std::vector<OpId>& ops, std::int64_t micro_batch,
                   int width, bool recompute) {
  const std::int64_t share = divide_up(micro_batch, width);
  const CostTable::Column& column = table.at(share);
  const Cluster& cluster = *table.problem().cluster;
  double compute_s = 0;
  for (const OpId op : ops) {
    compute_s += column.forward_s[op.index()] + column.backward_s[op.index()];
    if (recompute) compute_s += column.recompute_s[op.index()];
  }
  compute_s *= compute_slowdown(cluster);
  const Traffic messages = traffic(table, ops, share);
  const Link& link = worst_link(cluster);
  double link_s = 0;
  if (messages.any) {
    link_s = static_cast<double>(std::max(messages.in_bytes, messages.out_bytes)) /
                 link.bandwidth_bytes_per_s +
             link.latency_s;
  }
  return std::max(compute_s, link_s) / static_cast<double>(micro_batch);
}

namespace {

struct TaskSeconds {
  double forward_s = 0;
  double backward_s = 0;
  double recompute_s = 0;
  double all() const { return forward_s + recompute_s + backward_s; }
};

TaskSeconds task_seconds(CostTable& table, const Stage& stage, std::int64_t samples,
                         bool has_backward) {
  TaskSeconds task;
  if (samples <= 0) return task;
  const CostTable::Column& column = table.at(samples);
  for (const OpId op : stage.ops) {
    task.forward_s += column.forward_s[op.index()];
    if (has_backward) task.backward_s += column.backward_s[op.index()];
    if (has_backward && stage.recompute) task.recompute_s += column.recompute_s[op.index()];
  }
  return task;
}

// A stage's tasks as its first replica has them, which always has the most.
struct StageTasks {
  TaskSeconds first;  // of the first micro-batch
  TaskSeconds last;   // of the last, which may be short
  double work_s = 0;
};

class Floor {
 public:
  Floor(CostTable& table, const Plan& plan)
      : table_(table),
        plan_(plan),
        needs_(table.facts().needs),
        has_backward_(stages_with_backward(plan, *table.problem().graph)) {}

  double seconds() {
    const std::vector<double> floors = by_stage();
    return std::max(shared_cores_s(), *std::ranges::max_element(floors));
  }

  std::vector<double> by_stage() {
    const std::size_t n = plan_.stages.size();
    std::vector<StageTasks> tasks;
    for (std::size_t s = 0; s < n; ++s) tasks.push_back(stage_tasks(StageId(s)));
    std::vector<double> way_in(n, 0);
    std::vector<double> way_back = reductions_s();  // and what follows it
    for (std::size_t s = 0; s < n; ++s) {           // they may begin within the last backward
      if (is_asynchronous(plan_.weights)) {
        tasks[s].work_s += static_cast<double>(rounds(plan_.stages[s])) * way_back[s];
        way_back[s] = 0;
      }
      way_back[s] = std::max(0.0, way_back[s] - tasks[s].last.all());
    }
    for (const StageEdge& edge : plan_.edges) {  // sorted by the stage they leave (P3)
      const std::size_t from = edge.from.index();
      const std::size_t to = edge.to.index();
      // Where sizes differ, a part of a task may do.
      const bool alike = plan_.stages[from].micro_batch == plan_.stages[to].micro_batch;
      const double forward_s = alike ? tasks[from].first.forward_s + message_s(edge, false) : 0;
      way_in[to] = std::max(way_in[to], way_in[from] + forward_s);
      if (!edge.gradient) continue;
      // Of a backward in halves the gradients go back before its end.
      const bool whole = alike && plan_.schedule != ScheduleKind::kZbH1;
      const double backward_s = whole ? tasks[from].last.backward_s + message_s(edge, true) : 0;
      way_back[to] = std::max(way_back[to], way_back[from] + backward_s);
    }
    std::vector<double> floor_s;
    for (std::size_t s = 0; s < n; ++s) {
      floor_s.push_back(way_in[s] + tasks[s].work_s + way_back[s]);
    }
    if (table_.problem().cluster->types.size() == 1) return floor_s;
    for (std::size_t s = 0; s < n; ++s) {  // a slower replica's work alone
      const auto width = static_cast<std::int64_t>(plan_.stages[s].devices.size());
      for (std::int64_t k = 1; k < width; ++k) {
        floor_s[s] = std::max(floor_s[s], work_s(StageId(s), k));
      }
    }
    return floor_s;
  }

 private:
  // Steps of a stream, between which nothing else goes on.
  std::int64_t rounds(const Stage& stage) const {
    const bool turns = stage.replication == Replication::kRoundRobin;
    const std::int64_t width = turns ? static_cast<std::int64_t>(stage.devices.size()) : 1;
    const std::int64_t group = table_.problem().options.stream_mini_batch;
    if (plan_.weights == WeightPolicy::k2bw) return group > 0 ? plan_.mini_batch / group : 1;
    return plan_.mini_batch / (stage.micro_batch * width);
  }

  // Of replica 0.
  CostTable& table_of(const Stage& stage, std::int64_t k = 0) {
    return table_.of_device(stage.devices[static_cast<std::size_t>(k)]);
  }

  // What replica k computes in all.
  double work_s(StageId id, std::int64_t k) {
    const Stage& stage = plan_.stage(id);
    const auto width = static_cast<std::int64_t>(stage.devices.size());
    const bool backward = has_backward_[id.index()];
    const std::int64_t full = plan_.mini_batch / stage.micro_batch;
    const std::int64_t rest = plan_.mini_batch % stage.micro_batch;
    if (stage.replication == Replication::kRoundRobin) {
      const std::int64_t turns = full / width;
      return static_cast<double>(turns) *
             task_seconds(table_of(stage, k), stage, stage.micro_batch, backward).all();
    }
    const auto share = [&](std::int64_t samples) {
      const std::int64_t most = divide_up(samples, width);
      return std::clamp<std::int64_t>(samples - k * most, 0, most);
    };
    CostTable& table = table_of(stage, k);
    return static_cast<double>(full) *
               task_seconds(table, stage, share(stage.micro_batch), backward).all() +
           task_seconds(table, stage, share(rest), backward).all();
  }

  StageTasks stage_tasks(StageId id) {
    const Stage& stage = plan_.stage(id);
    const bool split = stage.replication == Replication::kSplit;
    const auto width = split ? static_cast<std::int64_t>(stage.devices.size()) : 1;
    const bool backward = has_backward_[id.index()];
    const std::int64_t b = std::min(stage.micro_batch, plan_.mini_batch);
    const std::int64_t rest = plan_.mini_batch % b;
    StageTasks tasks;
    CostTable& table = table_of(stage);
    tasks.first = task_seconds(table, stage, divide_up(b, width), backward);
    tasks.last = task_seconds(table, stage, divide_up(rest > 0 ? rest : b, width), backward);
    tasks.work_s = work_s(id, 0);
    return tasks;
  }

  // The first (last) message between replicas that have the same samples; 0 where widths
  // differ.
  double message_s(const StageEdge& edge, bool backward) {
    const Problem& problem = table_.problem();
    const Stage& from = plan_.stage(edge.from);
    const Stage& to = plan_.stage(edge.to);
    const bool split =
        from.replication == Replication::kSplit && to.replication == Replication::kSplit;
    if (!split || from.devices.size() != to.devices.size()) return 0;
    if (from.devices[0] == to.devices[0]) return 0;
    const std::int64_t rest = plan_.mini_batch % from.micro_batch;
    const std::int64_t samples = backward && rest > 0 ? rest : from.micro_batch;
    const std::int64_t share = divide_up(samples, static_cast<std::int64_t>(from.devices.size()));
    const std::int64_t bytes = message_bytes(*problem.graph, needs_, edge, share, backward);
    return problem.costs->transfer_s(
        bytes, link_between(*problem.cluster, from.devices[0], to.devices[0]));
  }

  // Of the parameters that a stage shares with no other.
  std::vector<double> reductions_s() {
    const Problem& problem = table_.problem();
    const std::vector<std::int64_t> bytes =
        trained_bytes_of_one_stage(plan_, *problem.graph, needs_);
    std::vector<double> seconds(plan_.stages.size(), 0);
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const std::vector<DeviceId>& devices = plan_.stages[s].devices;
      if (devices.size() < 2) continue;
      seconds[s] = problem.costs->reduce_s(bytes[s], static_cast<int>(devices.size()),
                                           slowest_link(*problem.cluster, devices));
    }
    return seconds;
  }

  // The work of each node's ranks over the cores that they share.
  double shared_cores_s() {
    const Cluster& cluster = *table_.problem().cluster;
    if (cluster.cores_per_node == 0) return 0;
    std::vector<double> node_s(static_cast<std::size_t>(cluster.device_count()), 0);
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const std::vector<DeviceId>& devices = plan_.stages[s].devices;
      for (std::size_t k = 0; k < devices.size(); ++k) {
        node_s[static_cast<std::size_t>(group_of(cluster, devices[k], 0))] +=
            work_s(StageId(s), static_cast<std::int64_t>(k));
      }
    }
    return *std::ranges::max_element(node_s) / cluster.cores_per_node;
  }

  CostTable& table_;
  const Plan& plan_;
  const std::vector<bool>& needs_;
  std::vector<bool> has_backward_;
};

// Sums are rounded in another order than the simulator's.
constexpr double kTpsRounding = 1e-8;

}  // namespace

double iteration_floor_s(CostTable& table, const Plan& plan) {
  return Floor(table, plan).seconds() * (1 - kTpsRounding);
}

std::vector<double> stage_floors_s(CostTable& table, const Plan& plan) {
  return Floor(table, plan).by_stage();
}

}  // namespace graphpipe
