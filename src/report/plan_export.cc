#include "report/plan_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "schedule/drawing.h"

namespace graphpipe {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string operators_text(const Stage& stage, const Graph& graph) {
  const std::string& first = graph.op(stage.ops.front()).name;
  if (stage.ops.size() == 1) return first;
  return fmt::format("{} .. {} ({})", first, graph.op(stage.ops.back()).name, stage.ops.size());
}

std::vector<std::int32_t> device_numbers(const Stage& stage) {
  std::vector<std::int32_t> numbers;
  for (const DeviceId device : stage.devices) {
    numbers.push_back(static_cast<std::int32_t>(device.index()));
  }
  return numbers;
}

// The stage at the other end of a message.
StageId other_stage(const Plan& plan, const Action& action) {
  const StageEdge& edge = plan.edge(action.edge);
  return edge.from == action.stage ? edge.to : edge.from;
}

// "" for what the form has no word for.
std::string cell(const Plan& plan, const Action& action) {
  const char letter = action.direction == Direction::kForward ? 'F' : 'B';
  const std::size_t stage = action.stage.index();
  if (action.kind == ActionKind::kRecompute) return "";
  if (is_compute(action.kind)) return to_text(action, plan);
  if (action.kind == ActionKind::kStartSend) {
    return fmt::format("{}SEND_{}{}>{}@{}", stage, letter, action.micro_batch,
                       other_stage(plan, action).index(), action.peer.index());
  }
  if (action.kind == ActionKind::kWaitReceive) {
    return fmt::format("{}RECV_{}{}<{}@{}", stage, letter, action.micro_batch,
                       other_stage(plan, action).index(), action.peer.index());
  }
  return "";
}

}  // namespace

std::string plan_dot(const Plan& plan, const Graph& graph) {
  std::string text =
      fmt::format("digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n", quoted(graph.name));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    text += fmt::format(
        "  s{} [label={}];\n", s,
        quoted(fmt::format("stage {}: {}; devices {}; b {}; in flight {}", s,
                           operators_text(stage, graph), fmt::join(device_numbers(stage), " "),
                           stage.micro_batch, stage.in_flight_samples)));
  }
  for (const StageEdge& edge : plan.edges) {
    text += fmt::format("  s{} -> s{}", edge.from.index(), edge.to.index());
    if (edge.kind == EdgeKind::kOrder) {
      text += " [style=dashed]";
    } else {
      std::int64_t bytes = 0;
      for (const TensorId t : edge.tensors) bytes += tensor_bytes(graph.tensor(t), 1);
      text += fmt::format(" [label={}]", quoted(bytes_text(static_cast<double>(bytes))));
    }
    text += ";\n";
  }
  return text + "}\n";
}

std::string pipedream_conf(const Plan& plan, const Graph& graph) {
  std::vector<std::size_t> stage_of(graph.op_count());
  std::string ranks;
  std::string depths;
  const std::vector<std::int64_t> warm_up = warm_up_samples(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    for (const OpId op : stage.ops) stage_of[op.index()] = s;
    const char* comma = s == 0 ? "" : ", ";
    ranks += fmt::format("{}\"{}\": [{}]", comma, s, fmt::join(device_numbers(stage), ", "));
    const auto replicas = stage.replication == Replication::kRoundRobin
                              ? static_cast<std::int64_t>(stage.devices.size())
                              : 1;
    const std::int64_t started = warm_up[s] / (stage.micro_batch * replicas);
    depths += fmt::format("{}\"{}\": {}", comma, s, std::max<std::int64_t>(0, started - 1));
  }
  return fmt::format(
      "{{\n  \"module_to_stage_map\": [{}],\n  \"stage_to_rank_map\": {{{}}},\n  "
      "\"stage_to_depth_map\": {{{}}}\n}}\n",
      fmt::join(stage_of, ", "), ranks, depths);
}

std::string schedule_csv(const Plan& plan, const Schedule& schedule) {
  std::string text;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    bool first = true;
    for (ActionCursor at(schedule, plan, RankId(r)); !at.done(); at.next()) {
      const std::string action = cell(plan, at.action());
      if (action.empty()) continue;
      text += (first ? "" : ",") + action;
      first = false;
    }
    text += "\n";
  }
  return text;
}

}  // namespace graphpipe
