#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "plan/stage_memory.h"
#include "plan/weight_versions.h"
#include "report/like_stages.h"
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

// "0-7" of stages that follow each other.
std::string range_text(const StageRange& range) {
  return range.first == range.last ? fmt::format("{}", range.first)
                                   : fmt::format("{}-{}", range.first, range.last);
}

std::string placement_text(const Plan& plan, const StageRange& range) {
  std::vector<DeviceId> devices;
  for (std::size_t s = range.first; s <= range.last; ++s) {
    devices.insert(devices.end(), plan.stages[s].devices.begin(), plan.stages[s].devices.end());
  }
  std::ranges::sort(devices);
  std::string text = devices_text(devices);
  const Stage& stage = plan.stages[range.first];
  if (stage.devices.size() > 1) {
    if (range.last > range.first) text += fmt::format(" by {}", stage.devices.size());
    text += stage.replication == Replication::kSplit ? " split" : " in turn";
  }
  return text;
}

// "first .. last (count)" within `width` characters; of several stages "(stages x count)".
std::string operators_text(const Plan& plan, const StageRange& range, const Graph& graph,
                           std::size_t width) {
  const Stage& stage = plan.stages[range.first];
  const std::string& first = graph.op(stage.ops.front()).name;
  const std::size_t stages = range.last - range.first + 1;
  if (stages == 1 && stage.ops.size() == 1) return shortened(first, width);
  const std::string& last = graph.op(plan.stages[range.last].ops.back()).name;
  const std::string count = stages == 1 ? fmt::format(" ({})", stage.ops.size())
                                        : fmt::format(" ({} x {})", stages, stage.ops.size());
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

std::vector<double> times_per_sample(const Plan& plan, const Graph& graph, const Cluster& cluster,
                                     const CostModel& costs) {
  if (plan.estimate.stage_tps_s.size() == plan.stages.size()) return plan.estimate.stage_tps_s;
  std::vector<double> times_s;
  for (const Stage& stage : plan.stages) {
    times_s.push_back(compute_s_per_sample(stage, graph, cluster, costs));
  }
  return times_s;
}

// "136", "136..24".
std::string in_flight_text(const Plan& plan, const StageRange& range) {
  const std::int64_t first = plan.stages[range.first].in_flight_samples;
  const std::int64_t last = plan.stages[range.last].in_flight_samples;
  return first == last ? fmt::format("{}", first) : fmt::format("{}..{}", first, last);
}

std::string stage_table(const Plan& plan, const Graph& graph, const std::vector<double>& times_s,
                        const std::vector<StageRange>& ranges) {
  std::vector<TextTable::Column> columns = {
      {"stage"},      {"operators", Align::kLeft}, {"devices", Align::kLeft}, {"b"}, {"in flight"},
      {"time/sample"}};
  const bool any_recompute = std::ranges::any_of(plan.stages, &Stage::recompute);
  if (any_recompute) columns.push_back({"recompute", Align::kLeft});
  TextTable table(columns);
  std::vector<std::vector<std::string>> rows;
  for (const StageRange& range : ranges) {
    const Stage& stage = plan.stages[range.first];
    rows.push_back({range_text(range), "", placement_text(plan, range),
                    fmt::format("{}", stage.micro_batch), in_flight_text(plan, range),
                    seconds_text(times_s[range.first])});
    if (any_recompute) rows.back().emplace_back(stage.recompute ? "yes" : "-");
  }
  TextTable others = table;  // to know how much room the operators have
  for (const auto& row : rows) others.add_row(row);
  const std::size_t room = kColumns - std::min<std::size_t>(others.width_without(1), 68);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    rows[r][1] = operators_text(plan, ranges[r], graph, room);
    table.add_row(rows[r]);
  }
  return table.text();
}

// A row a range: of its fullest stage.
std::string memory_table(const Plan& plan, const Graph& graph, const Cluster& cluster,
                         const CostModel& costs, const std::vector<StageRange>& ranges) {
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
  const auto memory_of = [&](std::size_t s) {
    const DeviceType& type = cluster.type_of(plan.stages[s].devices.front());
    return stage_memory(plan, graph, costs, type, StageId(s));
  };
  for (const StageRange& range : ranges) {
    StageMemory memory = memory_of(range.first);
    std::size_t fullest = range.first;
    for (std::size_t s = range.first + 1; s <= range.last; ++s) {
      const StageMemory other = memory_of(s);
      if (other.total() <= memory.total()) continue;
      memory = other;
      fullest = s;
    }
    const DeviceType& device = cluster.type_of(plan.stages[fullest].devices.front());
    table.add_row({range_text(range), bytes(memory.weights_bytes + memory.versions_bytes),
                   bytes(memory.gradients_bytes), bytes(memory.optimizer_bytes),
                   bytes(memory.saved_bytes), bytes(memory.buffers_bytes),
                   bytes(memory.workspace_bytes),
                   bytes(std::max(memory.step_bytes, memory.reduction_bytes)),
                   bytes(memory.total()), bytes(device.memory_bytes)});
  }
  return table.text();
}

// "0 -> 1 (1.00 MiB)"; with `last` further than the edge "0 -> .. -> 7 (1.00 MiB each)".
std::string edge_text(const StageEdge& edge, const Graph& graph, std::size_t last) {
  const bool several = last > edge.to.index();
  const std::string ends =
      fmt::format("{} -> {}{}", edge.from.value, several ? ".. -> " : "", last);
  if (edge.kind == EdgeKind::kOrder) return ends + " (order only)";
  return fmt::format("{} ({}{}{})", ends, bytes_text(static_cast<double>(edge_bytes(edge, graph))),
                     several ? " each" : "", edge.gradient ? "" : ", no gradient");
}

// Those within a range as one.
std::vector<std::string> edge_texts(const Plan& plan, const Graph& graph,
                                    const std::vector<StageRange>& ranges) {
  std::vector<const StageRange*> range_of;
  for (const StageRange& range : ranges) range_of.resize(range.last + 1, &range);
  std::vector<std::string> texts;
  for (const StageEdge& edge : plan.edges) {
    const StageRange& range = *range_of[edge.from.index()];
    const bool within = &range == range_of[edge.to.index()];
    if (within && edge.from.index() > range.first) continue;
    texts.push_back(edge_text(edge, graph, within ? range.last : edge.to.index()));
  }
  return texts;
}

// Wrapped, so that no line is longer than the page is wide.
std::string edge_lines(const std::vector<std::string>& edges) {
  if (edges.empty()) return "";
  std::string text;
  std::string line = "edges, with bytes a sample:";
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const std::string edge = edges[e] + (e + 1 < edges.size() ? "," : "");
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
                       const CostModel& costs, bool every_stage) {
  const std::vector<double> times_s = times_per_sample(plan, graph, cluster, costs);
  const std::vector<StageRange> ranges = every_stage || plan.stages.size() <= kManyRows
                                             ? single_stages(plan)
                                             : like_stages(plan, graph, times_s);
  const bool grouped = ranges.size() < plan.stages.size();
  std::string text = summary(plan, cluster);
  text += fmt::format("\n{}", stage_table(plan, graph, times_s, ranges));
  text += fmt::format("\nmemory on the {} fullest device\n{}", grouped ? "stages'" : "stage's",
                      memory_table(plan, graph, cluster, costs, ranges));
  const std::string edges = edge_lines(edge_texts(plan, graph, ranges));
  return edges.empty() ? text : fmt::format("{}\n{}", text, edges);
}

}  // namespace graphpipe
