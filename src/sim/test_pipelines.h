// Pipelines that one can work out by hand, for the simulator's tests: one operator a
// stage, one stage a device, forward 1 s and backward 2 s a sample, and links that cost
// nothing unless a test says otherwise.

#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/counter_random.h"
#include "base/text.h"
#include "cost/linear_costs.h"
#include "graph/builder.h"
#include "plan/plan.h"

namespace graphpipe {

struct PipelineSpec {
  std::string edges;                     // "0>1 1>2": data between stages
  std::vector<std::int64_t> in_flight;   // [stage], in samples
  std::int64_t samples = 1;              // of the mini-batch
  std::vector<std::int64_t> sizes = {};  // [stage]: micro-batch; none: 1
  std::vector<double> forward_s = {};    // [stage]: a sample; none: 1
  std::vector<int> widths = {};          // [stage]: devices; none: 1
  Replication replication = Replication::kSplit;
  bool chain_order = false;  // order edges between consecutive stages
  bool recompute = false;    // on every stage
  std::vector<int> on = {};  // [stage]: first device; none: each its own
  ScheduleKind kind = ScheduleKind::k1F1B;
};

struct Pipeline {
  Graph graph;
  Cluster cluster;
  LinearCosts costs{"linear", {}};
  Plan plan;
};

// A message whose transfer costs nothing that a double can hold.
inline constexpr double kFreeBandwidth = 1e30;

inline Cluster free_cluster(int devices) {
  Cluster cluster;
  cluster.name = "test";
  cluster.types = {{.name = "device",
                    .peak_flops_per_s = 1e12,
                    .memory_bandwidth_bytes_per_s = 1e12,
                    .memory_bytes = std::int64_t{1} << 40}};
  cluster.device_type.assign(static_cast<std::size_t>(devices), 0);
  cluster.levels = {{.name = "node",
                     .group_size = devices,
                     .link = {.bandwidth_bytes_per_s = kFreeBandwidth, .latency_s = 0}}};
  return cluster;
}

// before[s]: the stages that s reads.
inline std::vector<std::vector<std::size_t>> parse_edges(const std::string& edges,
                                                         std::size_t stages) {
  std::vector<std::vector<std::size_t>> before(stages);
  for (const std::string& edge : split_text(edges, ' ')) {
    const std::vector<std::string> ends = split_text(edge, '>');
    before.at(static_cast<std::size_t>(parse_integer(ends.at(1), edge)))
        .push_back(static_cast<std::size_t>(parse_integer(ends.at(0), edge)));
  }
  return before;
}

inline Pipeline make_pipeline(const PipelineSpec& spec) {
  const std::size_t stages = spec.in_flight.size();
  const auto before = parse_edges(spec.edges, stages);
  GraphBuilder builder("test");
  std::vector<TensorId> outputs;
  std::vector<bool> read(stages, false);
  std::vector<LinearOpCost> costs;
  Pipeline pipeline;
  pipeline.plan.stages.resize(stages);
  const auto own_last_op = [&](std::size_t stage, double forward_s) {
    costs.push_back({.forward_s_per_sample = forward_s, .backward_s_per_sample = 2 * forward_s});
    pipeline.plan.stages[stage].ops.push_back(OpId(builder.graph().op_count() - 1));
  };
  for (std::size_t s = 0; s < stages; ++s) {
    const double forward_s = spec.forward_s.empty() ? 1 : spec.forward_s.at(s);
    std::vector<TensorId> inputs;
    for (const std::size_t from : before[s]) {
      inputs.push_back(outputs.at(from));
      read[from] = true;
    }
    if (inputs.empty()) inputs = {builder.input(fmt::format("x{}", s), {1})};
    const std::string name = fmt::format("op{}", s);
    outputs.push_back(inputs.size() == 1 ? builder.linear(name, inputs[0], 1)
                                         : builder.add(name, inputs));
    own_last_op(s, forward_s);
  }
  for (std::size_t s = 0; s < stages; ++s) {
    if (read[s]) continue;
    const TensorId target = builder.input(fmt::format("target{}", s), {1});
    builder.loss(builder.mse_loss(fmt::format("loss{}", s), outputs[s], target));
    own_last_op(s, 0);
  }
  pipeline.graph = std::move(builder).build();
  pipeline.costs = LinearCosts("linear", costs);

  int devices = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    Stage& stage = pipeline.plan.stages[s];
    const int width = spec.widths.empty() ? 1 : spec.widths.at(s);
    const int first = spec.on.empty() ? devices : spec.on.at(s);
    for (int d = 0; d < width; ++d) stage.devices.push_back(DeviceId(first + d));
    devices = std::max(devices, first + width);
    stage.replication = spec.replication;
    stage.micro_batch = spec.sizes.empty() ? 1 : spec.sizes.at(s);
    stage.in_flight_samples = spec.in_flight[s];
    stage.recompute = spec.recompute;
  }
  pipeline.cluster = free_cluster(devices);
  pipeline.plan.model = "test";
  pipeline.plan.graph_hash = graph_hash(pipeline.graph);
  pipeline.plan.mini_batch = spec.samples;
  pipeline.plan.schedule = spec.kind;
  pipeline.plan.edges = data_edges(pipeline.graph, pipeline.plan.stages);
  if (spec.chain_order) add_chain_order(pipeline.plan);
  return pipeline;
}

// Everything at once, drawn by seed: shape, sizes, widths, counts, times, links, cores. Where
// `shared`, ranks hold several stages.
inline Pipeline random_pipeline(std::uint64_t seed, bool shared = false) {
  const CounterRandom random(seed);
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t n) { return random.below(draw++, n); };
  PipelineSpec spec;
  const std::size_t stages = 2 + below(4);
  for (std::size_t s = 0; s < stages; ++s) {
    for (std::size_t from = 0; from < s; ++from) {
      if (from + 1 == s ? below(4) != 0 : below(4) == 0) {
        spec.edges += fmt::format("{}{}>{}", spec.edges.empty() ? "" : " ", from, s);
      }
    }
    spec.sizes.push_back(std::int64_t{1} << below(3));
    spec.widths.push_back(spec.sizes.back() > 1 ? 1 + static_cast<int>(below(2)) : 1);
    spec.forward_s.push_back(0.25 * static_cast<double>(1 + below(4)));
    spec.in_flight.push_back(1);
  }
  spec.on = shared ? std::vector<int>(stages, 0) : std::vector<int>();
  for (std::size_t s = 0; s < spec.on.size(); ++s) spec.on[s] = static_cast<int>(s % 2);
  spec.replication = below(2) == 0 ? Replication::kSplit : Replication::kRoundRobin;
  spec.samples = static_cast<std::int64_t>(80 + below(40));
  Pipeline p = make_pipeline(spec);
  // All alike: a stage whose successor holds more than itself waits for ever.
  const std::vector<std::int64_t> least = least_in_flight(p.plan);
  const auto factor = static_cast<std::int64_t>(1 + below(2));
  for (std::size_t s = 0; s < stages; ++s) {
    p.plan.stages[s].in_flight_samples = least[s] * factor;
  }
  const double latencies_s[] = {0, 0.1, 0.5};
  const double bandwidths[] = {kFreeBandwidth, 4000, 500};
  p.cluster.levels[0].link = {bandwidths[below(3)], latencies_s[below(3)]};
  if (below(2) == 0) p.cluster.cores_per_node = 2;
  for (Stage& stage : p.plan.stages) stage.recompute = below(3) == 0;
  validate(p.plan, p.graph, p.cluster, fmt::format("seed {}", seed));
  return p;
}

}  // namespace graphpipe
