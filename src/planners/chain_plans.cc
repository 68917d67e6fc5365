#include "planners/chain_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.h"
#include "cost/task_memory.h"
#include "plan/stage_memory.h"
#include "planners/in_flight.h"

namespace graphpipe {

std::vector<double> op_seconds(CostTable& table, std::int64_t micro_batch) {
  const CostTable::Column& column = table.at(micro_batch);
  const double slowdown = compute_slowdown(*table.problem().cluster);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < column.forward_s.size(); ++i) {
    seconds.push_back((column.forward_s[i] + column.backward_s[i]) * slowdown);
  }
  return seconds;
}

std::vector<double> op_static_bytes(const Problem& problem) {
  std::vector<double> bytes;
  for (std::size_t i = 0; i < problem.graph->op_count(); ++i) {
    bytes.push_back(static_cast<double>(
        stage_static_memory(*problem.graph, {OpId(i)}, problem.options.optimizer).static_bytes()));
  }
  return bytes;
}

std::vector<double> op_param_bytes(const Graph& graph) {
  std::vector<double> bytes;
  for (const Operator& op : graph.ops) {
    double sum = 0;
    for (const ParamId p : op.params) {
      if (graph.param(p).trainable) sum += static_cast<double>(param_bytes(graph.param(p)));
    }
    bytes.push_back(sum);
  }
  return bytes;
}

std::vector<double> block_saved_bytes(const Problem& problem, const Blocks& blocks,
                                      std::int64_t micro_batch, const DeviceType& device) {
  const std::vector<bool> needs = needs_gradient(*problem.graph);
  std::vector<std::vector<TensorId>> leaving(blocks.ops.size());
  for (const BlockTensor& tensor : blocks.tensors) {
    leaving[static_cast<std::size_t>(tensor.producer)].push_back(tensor.tensor);
  }
  std::vector<double> bytes;
  for (std::size_t i = 0; i < blocks.ops.size(); ++i) {
    bytes.push_back(static_cast<double>(task_memory(*problem.costs, *problem.graph, needs,
                                                    blocks.ops[i], leaving[i], micro_batch, device)
                                            .saved_bytes));
  }
  return bytes;
}

double device_share_s(const Problem& problem, const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / problem.cluster->device_count();
}

ChainStage chain_stage(const Blocks& blocks, const std::vector<int>& members, int width) {
  ChainStage stage{{}, width};
  for (const int block : members) {
    const std::vector<OpId>& ops = blocks.ops[static_cast<std::size_t>(block)];
    stage.ops.insert(stage.ops.end(), ops.begin(), ops.end());
  }
  std::ranges::sort(stage.ops);
  return stage;
}

ChainPlans::ChainPlans(const Problem& problem, const std::string& planner)
    : problem_(problem), table_(problem), empty_(empty_plan(problem, planner)) {}

bool ChainPlans::add(const std::vector<ChainStage>& stages, std::int64_t micro_batch) {
  bool any = false;
  const bool wide = std::ranges::any_of(stages, [](const ChainStage& s) { return s.width > 1; });
  const int widest = std::ranges::max_element(stages, {}, &ChainStage::width)->width;
  for (const Replication replication : {Replication::kSplit, Replication::kRoundRobin}) {
    if (replication == Replication::kRoundRobin && !wide) break;
    if (replication == Replication::kSplit && widest > micro_batch) continue;
    if (replication == Replication::kSplit && wide && plans_streams(problem_)) continue;
    if (replication == Replication::kRoundRobin && widest * micro_batch > problem_.mini_batch) {
      continue;
    }
    Plan plan = empty_;
    int device = 0;
    for (const ChainStage& from : stages) {
      Stage stage;
      stage.ops = from.ops;
      for (int k = 0; k < from.width; ++k) stage.devices.emplace_back(device++);
      stage.replication = from.width > 1 ? replication : Replication::kSplit;
      stage.micro_batch = micro_batch;
      plan.stages.push_back(std::move(stage));
    }
    plan.edges = data_edges(*problem_.graph, plan.stages);
    add_chain_order(plan);
    if (!propose(plan, 1)) continue;
    any = true;
    if (plan.stages.size() > 1) propose(std::move(plan), 2);
  }
  return any;
}

bool ChainPlans::propose(Plan plan, std::int64_t in_flight_factor) {
  ++work_;
  std::vector<std::int64_t> wanted = least_in_flight(plan);
  for (std::int64_t& samples : wanted) samples *= in_flight_factor;
  set_in_flight(plan, wanted);
  if (!fits(plan)) return false;
  const std::uint64_t hash = plan_hash(plan);
  if (std::ranges::find(known_, hash) != known_.end()) return true;
  known_.push_back(hash);
  const double floor_s = iteration_floor_s(table_, plan);
  candidates_.push_back({std::move(plan), floor_s});
  return true;
}

bool ChainPlans::fits(Plan& plan) {
  const std::int64_t limit = table_.device().memory_bytes;
  const auto [fullest, most] = fit_stages(plan, problem_, table_.device());
  if (most > limit && (nearest_miss_.empty() || most < nearest_miss_bytes_)) {
    nearest_miss_bytes_ = most;
    nearest_miss_ = fmt::format(
        "the nearest that it came: {} stage{} at micro-batch {}, where stage {} needs {}, {} more "
        "than a device has; more devices or recomputation might do",
        plan.stages.size(), plan.stages.size() == 1 ? "" : "s", plan.stages[0].micro_batch,
        fullest.value, bytes_text(static_cast<double>(most)),
        bytes_text(static_cast<double>(most - limit)));
  }
  return most <= limit;
}

PlanResult ChainPlans::result(const Budget& budget, PlanStatus status, const std::string& reason) {
  std::ranges::stable_sort(candidates_, {}, &Candidate::floor_s);
  std::map<std::int64_t, std::int64_t> taken;  // by micro-batch size
  PlanResult result;
  result.work = work_;
  for (Candidate& candidate : candidates_) {
    if (++taken[candidate.plan.stages[0].micro_batch] > budget.candidates) continue;
    result.candidates.push_back(std::move(candidate.plan));
  }
  result.status = result.candidates.empty() ? status : PlanStatus::kOk;
  if (result.candidates.empty()) {
    result.reason = !reason.empty() ? reason
                    : !nearest_miss_.empty()
                        ? nearest_miss_
                        : fmt::format(
                              "no partition was found whose every stage fits "
                              "into the {} of a device; more memory or more "
                              "devices might do",
                              bytes_text(static_cast<double>(table_.device().memory_bytes)));
  }
  return result;
}

}  // namespace graphpipe
