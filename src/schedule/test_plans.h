// Plans that one can work out by hand, for this room's tests: one linear layer of width 4
// a stage, devices in the order of stages, forward 1 s and backward 2 s a sample.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/counter_random.h"
#include "base/text.h"
#include "cost/linear_costs.h"
#include "graph/builder.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace graphpipe {

struct PlanSpec {
  std::string edges;                         // "0>1 1>2": data between stages
  std::vector<std::int64_t> in_flight = {};  // [stage], in samples; empty: least_in_flight()
  std::int64_t samples = 1;                  // of the mini-batch
  std::vector<std::int64_t> sizes = {};      // [stage]: micro-batch; none: 1
  std::vector<int> in_a_row = {};            // [stage]: k; none: 1
  std::vector<int> widths = {};              // [stage]: devices; none: 1
  std::vector<bool> in_turn = {};            // [stage]: round robin; none: split
  bool chain_order = false;                  // order edges as sequential planners want them
  std::int64_t in_flight_scale = 1;          // where in_flight is empty
  std::string order = "";                    // order edges: "0>2"
  std::vector<int> untrained = {};           // stages without parameters (a ReLU)
  std::vector<int> tied = {};                // stages that share one weight
  std::vector<int> metrics = {};             // stages that end in a metric, not in a loss
  std::vector<int> recompute = {};           // stages that do
  std::vector<int> on = {};                  // [stage]: first device; none: each its own
  std::vector<int> late = {};                // [stage]: micro-batches in flight beyond these
  ScheduleKind kind = ScheduleKind::k1F1B;
  WeightPolicy weights = WeightPolicy::kSynchronous;
  int stages = 0;  // where in_flight is empty
};

struct TestPlan {
  Graph graph;
  Cluster cluster;
  LinearCosts costs{"linear", {}};
  Plan plan;
};

inline std::vector<std::pair<std::size_t, std::size_t>> parse_pairs(const std::string& edges) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const std::string& edge : split_text(edges, ' ')) {
    const std::vector<std::string> ends = split_text(edge, '>');
    pairs.emplace_back(parse_integer(ends.at(0), edge), parse_integer(ends.at(1), edge));
  }
  return pairs;
}

inline Cluster test_cluster(int devices) {
  Cluster cluster;
  cluster.name = "test";
  cluster.types = {{.name = "device",
                    .peak_flops_per_s = 1e12,
                    .memory_bandwidth_bytes_per_s = 1e12,
                    .memory_bytes = std::int64_t{1} << 30}};
  cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
  cluster.levels = {
      {.name = "node", .group_size = devices, .link = {.bandwidth_bytes_per_s = 1e9}}};
  return cluster;
}

// The graph, with each stage's operators added to `stages`.
inline Graph test_graph(const PlanSpec& spec, std::vector<Stage>& stages) {
  const auto is_in = [](const std::vector<int>& list, std::size_t s) {
    return std::ranges::find(list, static_cast<int>(s)) != list.end();
  };
  GraphBuilder builder("test");
  std::vector<TensorId> outputs;
  std::vector<bool> read(stages.size(), false);
  ParamId shared;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::vector<TensorId> inputs;
    for (const auto& [from, to] : parse_pairs(spec.edges)) {
      if (to != s) continue;
      inputs.push_back(outputs.at(from));
      read[from] = true;
    }
    const std::size_t first_op = builder.graph().op_count();
    if (inputs.empty()) inputs = {builder.input(fmt::format("x{}", s), {4})};
    const TensorId x =
        inputs.size() == 1 ? inputs[0] : builder.add(fmt::format("add{}", s), inputs);
    const std::string name = fmt::format("op{}", s);
    if (is_in(spec.untrained, s)) {
      outputs.push_back(builder.relu(name, x));
    } else if (is_in(spec.tied, s)) {
      if (!shared.valid()) shared = builder.param("shared", {4, 4}, {InitKind::kOnes, 0});
      outputs.push_back(builder.add_op(name, OpKind::kLinear, {x}, {shared}, {})[0]);
    } else {
      outputs.push_back(builder.linear(name, x, 4));
    }
    for (std::size_t i = first_op; i < builder.graph().op_count(); ++i) {
      stages[s].ops.emplace_back(i);
    }
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (read[s]) continue;
    if (is_in(spec.metrics, s)) {
      const TensorId label = builder.input(fmt::format("label{}", s), DType::kInt64, {});
      builder.metric(fmt::format("accuracy{}", s), "mean",
                     builder.correct(fmt::format("m{}", s), outputs[s], label));
    } else {
      const TensorId target = builder.input(fmt::format("target{}", s), {4});
      builder.loss(builder.mse_loss(fmt::format("loss{}", s), outputs[s], target));
    }
    stages[s].ops.emplace_back(builder.graph().op_count() - 1);
  }
  return std::move(builder).build();
}

inline TestPlan make_plan(const PlanSpec& spec) {
  TestPlan result;
  Plan& plan = result.plan;
  plan.stages.resize(spec.in_flight.empty() ? static_cast<std::size_t>(spec.stages)
                                            : spec.in_flight.size());
  result.graph = test_graph(spec, plan.stages);
  std::vector<LinearOpCost> costs(result.graph.op_count(), {1, 2, 0});
  result.costs = LinearCosts("linear", costs);
  int devices = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    Stage& stage = plan.stages[s];
    const int width = spec.widths.empty() ? 1 : spec.widths.at(s);
    const int first = spec.on.empty() ? devices : spec.on.at(s);
    for (int d = 0; d < width; ++d) stage.devices.push_back(DeviceId(first + d));
    devices = std::max(devices, first + width);
    const bool in_turn = !spec.in_turn.empty() && spec.in_turn.at(s);
    stage.replication = in_turn ? Replication::kRoundRobin : Replication::kSplit;
    stage.micro_batch = spec.sizes.empty() ? 1 : spec.sizes.at(s);
    stage.kfkb = spec.in_a_row.empty() ? 1 : spec.in_a_row.at(s);
    stage.recompute =
        std::ranges::find(spec.recompute, static_cast<int>(s)) != spec.recompute.end();
  }
  result.cluster = test_cluster(devices);
  plan.model = "test";
  plan.graph_hash = graph_hash(result.graph);
  plan.mini_batch = spec.samples;
  plan.schedule = spec.kind;
  plan.weights = spec.weights;
  plan.edges = data_edges(result.graph, plan.stages);
  for (const auto& [from, to] : parse_pairs(spec.order)) {
    plan.edges.push_back({StageId(from), StageId(to), EdgeKind::kOrder, {}, true});
  }
  std::ranges::sort(plan.edges, {},
                    [](const StageEdge& e) { return std::tuple(e.from, e.to, e.kind); });
  if (spec.chain_order) add_chain_order(plan);
  const std::vector<std::int64_t> least = least_in_flight(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].in_flight_samples =
        spec.kind == ScheduleKind::kGpipe ? spec.samples
        : spec.in_flight.empty() ? std::min(most_in_flight(plan), spec.in_flight_scale * least[s])
                                 : spec.in_flight[s];
    if (spec.late.empty()) continue;
    Stage& stage = plan.stages[s];
    stage.in_flight_samples =
        std::min(spec.samples, stage.in_flight_samples + spec.late.at(s) * stage.micro_batch);
  }
  return result;
}

// A DAG of 1 to 5 stages with sizes, widths and k of all kinds, by seed. `samples` of the
// mini-batch may be short of a whole number of any micro-batch.
inline PlanSpec random_spec(std::uint64_t seed, bool gpipe = false) {
  const CounterRandom random(seed);
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random.below(drawn++, n)); };
  PlanSpec spec;
  spec.stages = 1 + below(5);
  const bool one_size = below(2) == 0;
  const bool one_k = below(2) == 0;
  const std::int64_t size = std::int64_t{1} << below(3);
  for (int s = 0; s < spec.stages; ++s) {
    for (int from = 0; from < s; ++from) {
      // Every stage reads one at least, mostly: parts that nothing joins are planned too.
      if (below(2) == 0 || (from == s - 1 && below(4) != 0)) {
        spec.edges += fmt::format("{}{}>{}", spec.edges.empty() ? "" : " ", from, s);
      }
    }
    const bool wide = below(3) == 0;
    spec.in_turn.push_back(below(2) == 0);
    spec.sizes.push_back(one_size ? size : 1 + below(4));
    const int most = spec.in_turn.back() ? 3 : static_cast<int>(spec.sizes.back());
    spec.widths.push_back(wide ? 1 + below(static_cast<std::uint64_t>(most)) : 1);
    spec.in_a_row.push_back(one_k || gpipe ? 1 : 1 + below(3));
    if (below(5) == 0) spec.untrained.push_back(s);
    if (below(6) == 0) spec.tied.push_back(s);
    if (below(6) == 0) spec.metrics.push_back(s);
  }
  const int sample_bits = below(7);
  spec.samples = 4 + below(std::uint64_t{1} << sample_bits);
  spec.chain_order = below(3) == 0;
  spec.in_flight_scale = 1 + below(2);
  if (gpipe) spec.kind = ScheduleKind::kGpipe;
  for (int s = 0; s < spec.stages; ++s) {
    if (below(3) == 0) spec.recompute.push_back(s);
  }
  return spec;
}

// The same with several stages a rank, mostly.
inline PlanSpec random_shared_spec(std::uint64_t seed, bool gpipe = false) {
  PlanSpec spec = random_spec(seed, gpipe);
  const CounterRandom random(seed + (std::uint64_t{1} << 32));
  const auto devices = static_cast<std::uint64_t>(1 + random.below(0, 3));
  for (int s = 0; s < spec.stages; ++s) {
    spec.on.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(s + 1), devices)));
  }
  return spec;
}

// One of these with backwards in halves, some of which may be late.
inline PlanSpec random_halves_spec(std::uint64_t seed, bool shared) {
  PlanSpec spec = shared ? random_shared_spec(seed) : random_spec(seed);
  spec.kind = ScheduleKind::kZbH1;
  const CounterRandom random(seed + (std::uint64_t{1} << 33));
  for (int s = 0; s < spec.stages; ++s) {
    const auto more = static_cast<int>(random.below(static_cast<std::uint64_t>(s), 4));
    spec.late.push_back(more);
  }
  return spec;
}

// Written ones: a period counts once.
inline std::size_t action_count(const Schedule& schedule) {
  std::size_t count = 0;
  for (const RankProgram& program : schedule.ranks) {
    count += program.prologue.size() + program.period.size() + program.epilogue.size();
  }
  return count;
}

}  // namespace graphpipe
