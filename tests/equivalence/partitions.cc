#include "equivalence/partitions.h"

#include <algorithm>
#include <set>

#include "base/counter_random.h"
#include "base/error.h"
#include "graph/order.h"

namespace graphpipe {
namespace {

// An order in which the operators can run, by seed. Half of the time it goes on with what
// the last operator made ready, so that branches stay in one piece; else it jumps.
std::vector<OpId> random_order(const Graph& graph, std::uint64_t seed) {
  const CounterRandom random(seed);
  const auto next = op_successors(graph);
  std::vector<std::size_t> waits_for;
  for (const auto& before : op_predecessors(graph)) waits_for.push_back(before.size());
  std::vector<OpId> ready;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (waits_for[i] == 0) ready.push_back(OpId(i));
  }
  const bool follow_branches = random.below(0, 2) == 0;
  std::vector<OpId> order;
  for (std::uint64_t draw = 1; !ready.empty(); ++draw) {
    const std::size_t at = follow_branches ? ready.size() - 1 : random.below(draw, ready.size());
    const OpId op = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    order.push_back(op);
    for (const OpId after : next[op.index()]) {
      if (--waits_for[after.index()] == 0) ready.push_back(after);
    }
  }
  return order;
}

// Where the pieces end, ascending; the last at the end.
std::vector<std::size_t> random_cuts(std::size_t ops, int pieces, std::uint64_t seed) {
  const CounterRandom random(seed);
  std::set<std::size_t> cuts = {ops};
  for (std::uint64_t draw = 0; cuts.size() < static_cast<std::size_t>(pieces); ++draw) {
    cuts.insert(1 + random.below(draw, ops - 1));
  }
  return {cuts.begin(), cuts.end()};
}

}  // namespace

Plan cut_graph(const Graph& graph, const PartitionOptions& options) {
  GP_CHECK(options.stages >= 1 && static_cast<std::size_t>(options.stages) <= graph.op_count(),
           "{} stages of {} operators", options.stages, graph.op_count());
  const std::vector<OpId> order = random_order(graph, options.seed);
  Plan plan;
  plan.model = graph.name;
  plan.graph_hash = graph_hash(graph);
  plan.planner = "cut";
  plan.options = "none";
  plan.mini_batch = options.mini_batch;
  plan.schedule = options.schedule;
  std::size_t begin = 0;
  for (const std::size_t end : random_cuts(order.size(), options.stages, options.seed + 1)) {
    Stage stage;
    stage.ops.assign(order.begin() + static_cast<std::ptrdiff_t>(begin),
                     order.begin() + static_cast<std::ptrdiff_t>(end));
    stage.devices = {DeviceId(plan.stages.size())};
    plan.stages.push_back(std::move(stage));
    begin = end;
  }
  canonicalise(plan, graph);
  if (options.chain) add_chain_order(plan);
  set_micro_batches(plan, std::vector(plan.stages.size(), options.micro_batch));
  return plan;
}

void set_micro_batches(Plan& plan, const std::vector<std::int64_t>& sizes) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].micro_batch = sizes[s];
  const std::vector<std::int64_t> in_flight = least_in_flight(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].in_flight_samples =
        plan.schedule == ScheduleKind::kGpipe ? plan.mini_batch : in_flight[s];
  }
}

Cluster test_cluster(int devices) {
  Cluster cluster;
  cluster.name = "test";
  DeviceType type;
  type.name = "rank";
  type.peak_flops_per_s = 1e9;
  type.memory_bandwidth_bytes_per_s = 1e9;
  type.memory_bytes = std::int64_t{1} << 34;
  cluster.types = {type};
  cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
  Level node;
  node.name = "node";
  node.group_size = devices;
  node.link = {1e9, 1e-6};
  cluster.levels = {node};
  return cluster;
}

}  // namespace graphpipe
