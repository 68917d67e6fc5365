#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "plan/stage_memory.h"
#include "plan/weight_versions.h"
#include "report/text_report.h"
#include "report/text_table.h"

namespace graphpipe {

namespace {

constexpr std::size_t kColumns = 100;

std::string plural(std::int64_t n, const char* word) {
  return fmt::format("{} {}{}", count_text(n), word, n == 1 ? "" : "s");
}

// "0-3", "0,2,5-7".
std::string devices_text(const std::vector<DeviceId>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t last = i;
    while (last + 1 < devices.size() && devices[last + 1].value == devices[last].value + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", devices[i].value);
    if (last > i) text += fmt::format("-{}", devices[last].value);
    i = last + 1;
  }
  return text;
}

std::string placement_text(const Stage& stage) {
  std::string text = devices_text(stage.devices);
  if (stage.devices.size() > 1) {
    text += stage.replication == Replication::kSplit ? " split" : " in turn";
  }
  return text;
}

// "first .. last (count)" within `width` characters.
std::string operators_text(const Stage& stage, const Graph& graph, std::size_t width) {
  const std::string& first = graph.op(stage.ops.front()).name;
  if (stage.ops.size() == 1) return shortened(first, width);
  const std::string& last = graph.op(stage.ops.back()).name;
  const std::string count = fmt::format(" ({})", stage.ops.size());
  const std::size_t room = width - count.size() - 4;
  const std::size_t half = room / 2;
  const std::size_t first_room = std::max(half, room - std::min(room, last.size()));
  const std::string head = shortened(first, first_room);
  return head + " .. " + shortened(last, room - head.size()) + count;
}

// Computing alone: a micro-batch's forwards and backward on one device, over its samples,
// and over the devices where they take micro-batches in turn.
double compute_s_per_sample(const Stage& stage, const Graph& graph, const Cluster& cluster,
                            const CostModel& costs) {
  const auto width = static_cast<std::int64_t>(stage.devices.size());
  const bool split = stage.replication == Replication::kSplit;
  const std::int64_t share = split ? (stage.micro_batch + width - 1) / width : stage.micro_batch;
  const StageCost cost =
      stage_cost(costs, graph, stage.ops, share, cluster.type_of(stage.devices.front()));
  const std::int64_t samples = split ? stage.micro_batch : width * stage.micro_batch;
  const double again_s = stage.recompute ? cost.forward_s : 0;
  return (cost.forward_s + again_s + cost.backward_s) / static_cast<double>(samples);
}

std::string stage_table(const Plan& plan, const Graph& graph, const Cluster& cluster,
                        const CostModel& costs) {
  const bool have_tps = plan.estimate.stage_tps_s.size() == plan.stages.size();
  std::vector<TextTable::Column> columns = {
      {"stage"},      {"operators", Align::kLeft}, {"devices", Align::kLeft}, {"b"}, {"in flight"},
      {"time/sample"}};
  const bool any_recompute = std::ranges::any_of(plan.stages, &Stage::recompute);
  if (any_recompute) columns.push_back({"recompute", Align::kLeft});
  TextTable table(columns);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const double tps_s = have_tps ? plan.estimate.stage_tps_s[s]
                                  : compute_s_per_sample(stage, graph, cluster, costs);
    rows.push_back({fmt::format("{}", s), "", placement_text(stage),
                    fmt::format("{}", stage.micro_batch),
                    fmt::format("{}", stage.in_flight_samples), seconds_text(tps_s)});
    if (any_recompute) rows.back().emplace_back(stage.recompute ? "yes" : "-");
  }
  TextTable others = table;  // to know how much room the operators have
  for (const auto& row : rows) others.add_row(row);
  const std::size_t room = kColumns - std::min<std::size_t>(others.width_without(1), 68);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    rows[s][1] = operators_text(plan.stages[s], graph, room);
    table.add_row(rows[s]);
  }
  return table.text();
}

std::string memory_table(const Plan& plan, const Graph& graph, const Cluster& cluster,
                         const CostModel& costs) {
  TextTable table({{"stage"},
                   {"weights"},
                   {"gradients"},
                   {"optimiser"},
                   {"in flight"},
                   {"buffers"},
                   {"workspace"},
                   {"update"},
                   {"at most"},
                   {"device has"}});
  const auto bytes = [](std::int64_t n) {
    return n == 0 ? std::string("-") : bytes_text(static_cast<double>(n));
  };
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const DeviceType& device = cluster.type_of(plan.stages[s].devices.front());
    const StageMemory memory = stage_memory(plan, graph, costs, device, StageId(s));
    table.add_row({fmt::format("{}", s), bytes(memory.weights_bytes + memory.versions_bytes),
                   bytes(memory.gradients_bytes), bytes(memory.optimizer_bytes),
                   bytes(memory.saved_bytes), bytes(memory.buffers_bytes),
                   bytes(memory.workspace_bytes),
                   bytes(std::max(memory.step_bytes, memory.reduction_bytes)),
                   bytes(memory.total()), bytes(device.memory_bytes)});
  }
  return table.text();
}

std::string edge_text(const StageEdge& edge, const Graph& graph) {
  const std::string ends = fmt::format("{} -> {}", edge.from.value, edge.to.value);
  if (edge.kind == EdgeKind::kOrder) return ends + " (order only)";
  std::int64_t bytes = 0;
  for (const TensorId tensor : edge.tensors) bytes += tensor_bytes(graph.tensor(tensor), 1);
  return fmt::format("{} ({}{})", ends, bytes_text(static_cast<double>(bytes)),
                     edge.gradient ? "" : ", no gradient");
}

// Wrapped, so that no line is longer than the page is wide.
std::string edge_lines(const Plan& plan, const Graph& graph) {
  if (plan.edges.empty()) return "";
  std::string text;
  std::string line = "edges, with bytes a sample:";
  for (std::size_t e = 0; e < plan.edges.size(); ++e) {
    const std::string edge =
        edge_text(plan.edges[e], graph) + (e + 1 < plan.edges.size() ? "," : "");
    if (line.size() + 1 + edge.size() > kColumns) {
      text += line + "\n";
      line = fmt::format("  {}", edge);
    } else {
      line += " " + edge;
    }
  }
  return text + line + "\n";
}

// "asynchronous, weights stash: a mini-batch's gradients are 2, 1, 0 steps late on stages 0 to 2".
std::string staleness_text(const Plan& plan) {
  const VersionRule rule(plan);
  std::vector<std::int64_t> late;
  std::vector<std::int64_t> held;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageId stage(s);
    late.push_back(rule.steps_late(stage));
    held.push_back(rule.most_held(stage));
  }
  return fmt::format(
      "asynchronous, weights {}: by stage, gradients are {} steps late, versions held {}\n",
      weight_policy_name(plan.weights), fmt::join(late, " "), fmt::join(held, " "));
}

std::string summary(const Plan& plan, const Cluster& cluster) {
  std::string text = fmt::format(
      "{} by {} for {}: {} on {} of {}, depth {}\n", plan.model, plan.planner, plan.cluster,
      plural(static_cast<std::int64_t>(plan.stages.size()), "stage"), devices_used(plan),
      plural(cluster.device_count(), "device"), pipeline_depth(plan));
  text +=
      fmt::format("mini-batch {}, schedule {}, optimiser {}, costs: {}\n", plan.mini_batch,
                  schedule_kind_name(plan.schedule), optimizer_name(plan.optimizer), plan.costs);
  if (is_asynchronous(plan.weights)) text += staleness_text(plan);
  const PlanEstimate& estimate = plan.estimate;
  if (estimate.iteration_s <= 0) return text;
  text += fmt::format("iteration {} ({} samples/s), bubble {:.1f} %",
                      seconds_text(estimate.iteration_s),
                      rate_text(estimate.throughput_samples_per_s), 100 * estimate.bubble_fraction);
  if (estimate.lower_bound_s > 0) {
    text += fmt::format(", {:.1f} % above the lower bound of {}",
                        100 * (estimate.iteration_s / estimate.lower_bound_s - 1),
                        seconds_text(estimate.lower_bound_s));
  }
  text += "\n";
  if (estimate.search_s > 0) {
    text += fmt::format("searched in {}\n", seconds_text(estimate.search_s));
  }
  return text;
}

}  // namespace

std::string plan_table(const Plan& plan, const Graph& graph, const Cluster& cluster,
                       const CostModel& costs) {
  std::string text = summary(plan, cluster);
  text += fmt::format("\n{}", stage_table(plan, graph, cluster, costs));
  text += fmt::format("\nmemory on the stage's fullest device\n{}",
                      memory_table(plan, graph, cluster, costs));
  const std::string edges = edge_lines(plan, graph);
  return edges.empty() ? text : fmt::format("{}\n{}", text, edges);
}

}  // namespace graphpipe
