#include "search/workbench.h"

#include <algorithm>

#include "base/divide_up.h"
#include "graph/order.h"
#include "plan/stage_memory.h"
#include "planners/in_flight.h"
#include "planners/stage_tps.h"
#include "schedule/verify.h"
#include "search/iteration.h"
#include "search/turns.h"

namespace graphpipe {
namespace {

// Looking at so many operators is one unit of work.
constexpr std::size_t kOpsOfAUnit = 32;

// Of the cluster's types, those that run the stage.
std::vector<int> types_of(const Cluster& cluster, const Stage& stage) {
  std::vector<int> types;
  for (const DeviceId device : stage.devices) {
    types.push_back(cluster.device_type[device.index()]);
  }
  std::ranges::sort(types);
  const auto repeats = std::ranges::unique(types);
  types.erase(repeats.begin(), repeats.end());
  return types;
}

}  // namespace

Workbench::Workbench(CostTable& table) : table_(table), estimator_(table) {
  const auto before = op_predecessors(graph());
  neighbours_.resize(before.size());
  for (std::size_t op = 0; op < before.size(); ++op) {
    for (const OpId from : before[op]) {
      dependencies_.emplace_back(from, OpId(op));
      neighbours_[from.index()].emplace_back(op);
      neighbours_[op].push_back(from);
    }
  }
}

std::optional<Plan> Workbench::plan_of(const Layout& layout, const Plan& like) {
  work_ += static_cast<std::int64_t>(graph().op_count());
  // Stages that wait in a circle never run dry.
  const std::size_t count = layout.stages.size();
  std::vector<std::size_t> stage_of(graph().op_count());
  for (std::size_t s = 0; s < count; ++s) {
    for (const OpId op : layout.stages[s].ops) stage_of[op.index()] = s;
  }
  std::vector<std::vector<std::size_t>> next(count);
  std::vector<int> waits_for(count, 0);
  for (const auto& [from, to] : dependencies_) {
    const std::size_t a = stage_of[from.index()];
    const std::size_t b = stage_of[to.index()];
    if (a == b) continue;
    next[a].push_back(b);
    ++waits_for[b];
  }
  std::vector<std::size_t> ready;
  for (std::size_t s = 0; s < count; ++s) {
    if (waits_for[s] == 0) ready.push_back(s);
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    for (const std::size_t to : next[ready[i]]) {
      if (--waits_for[to] == 0) ready.push_back(to);
    }
  }
  if (ready.size() < count) return std::nullopt;

  Plan plan = like;
  plan.estimate = {};
  plan.edges.clear();
  plan.stages = layout.stages;
  for (Stage& stage : plan.stages) stage.recompute = false;
  canonicalise(plan, graph(), table_.facts().needs);
  const std::vector<std::int64_t> all(count, plan.mini_batch);
  set_in_flight(plan,
                layout.hops == Layout::kAllInFlight ? all : in_flight_by_hops(plan, layout.hops));
  return plan;
}

bool Workbench::stage_fits(const Plan& plan, StageId id) {
  work_ += static_cast<std::int64_t>(plan.stage(id).ops.size());
  const Cluster& cluster = *problem().cluster;
  return std::ranges::all_of(types_of(cluster, plan.stage(id)), [&](int type) {
    const DeviceType& device = cluster.types[static_cast<std::size_t>(type)];
    return stage_memory(plan, graph(), table_.facts(), table_.task_memories(), device, id)
               .total() <= device.memory_bytes;
  });
}

bool Workbench::make_fit(Plan& plan) {
  const auto fits = [this](const Plan& p, StageId s) { return stage_fits(p, s); };
  const auto all_fit = [&] {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      if (!stage_fits(plan, StageId(s))) return false;
    }
    return true;
  };
  if (all_fit()) return true;
  const std::vector<std::int64_t> least = least_in_flight(plan);
  const std::vector<std::int64_t> wanted = [&] {
    std::vector<std::int64_t> samples;
    for (const Stage& stage : plan.stages) samples.push_back(stage.in_flight_samples);
    return samples;
  }();
  if (problem().options.recompute) {
    set_in_flight(plan, least);
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      plan.stages[s].recompute = !stage_fits(plan, StageId(s));
    }
    set_in_flight(plan, wanted);
  }
  lower_in_flight(plan, least, fits);
  return all_fit();
}

bool surely_runs(const Plan& plan) {
  const Stage& first = plan.stages[0];
  const bool alike = std::ranges::all_of(plan.stages, [&](const Stage& stage) {
    return stage.micro_batch == first.micro_batch && stage.kfkb == 1;
  });
  // Replicas of a stream wait for one another after each round.
  const bool rounds = is_asynchronous(plan.weights) && takes_turns(plan);
  return alike && !rounds;
}

bool Workbench::runs(const Plan& plan) {
  if (surely_runs(plan)) return true;
  work_ += 64 * static_cast<std::int64_t>(graph().op_count());
  return verify_plan(as_run(plan, problem()), graph(), *problem().cluster, *problem().costs).ok();
}

double Workbench::compute_s(const std::vector<OpId>& ops, const Stage& stage) {
  count_ops(ops.size());
  const auto width = static_cast<std::int64_t>(stage.devices.size());
  const bool split = stage.replication == Replication::kSplit;
  const CostTable::Column& column =
      table_.of_device(stage.devices[0]).at(divide_up(stage.micro_batch, split ? width : 1));
  double task_s = 0;
  for (const OpId op : ops) task_s += column.forward_s[op.index()] + column.backward_s[op.index()];
  const std::int64_t tasks = problem().mini_batch / (stage.micro_batch * (split ? 1 : width));
  return static_cast<double>(tasks) * task_s;
}

double Workbench::stage_s(const Stage& stage) {
  const auto width = static_cast<int>(stage.devices.size());
  const double seconds = compute_s(stage.ops, stage);
  if (width == 1) return seconds;
  const double reduction_s = problem().costs->reduce_s(
      estimator_.gradient_bytes(stage.ops), width, slowest_link(*problem().cluster, stage.devices));
  if (plans_streams(problem())) {  // with each round
    const bool groups = problem().options.weights == WeightPolicy::k2bw;
    const std::int64_t rounds = problem().mini_batch / (groups ? problem().options.stream_mini_batch
                                                               : stage.micro_batch * width);
    return seconds + static_cast<double>(rounds) * reduction_s;
  }
  // It may begin within the last task.
  const std::int64_t tasks = std::max<std::int64_t>(1, problem().mini_batch / stage.micro_batch);
  return seconds + std::max(0.0, reduction_s - seconds / static_cast<double>(tasks));
}

double Workbench::floor_s(const Plan& plan) { return iteration_floor_s(table_, plan); }

std::vector<double> Workbench::stage_floors_s(const Plan& plan) {
  return graphpipe::stage_floors_s(table_, plan);
}

double Workbench::estimate_s(const Plan& plan) {
  if (takes_turns(plan)) {  // the estimator does not know them
    count_ops(graph().op_count());
    return floor_s(plan);
  }
  for (const Stage& stage : plan.stages) {
    work_ += 4 + 4 * stage.in_flight_samples / stage.micro_batch;
  }
  const double estimate_s = estimator_.iteration_s(plan);
  // Ranks that share cores it does not know.
  return problem().cluster->cores_per_node > 0 ? std::max(estimate_s, floor_s(plan)) : estimate_s;
}

void Workbench::count_ops(std::size_t ops) {
  ops_ += ops;
  work_ += static_cast<std::int64_t>(ops_ / kOpsOfAUnit);
  ops_ %= kOpsOfAUnit;
}

const Trace& Workbench::simulated(const Plan& plan) {
  const auto [found, fresh] = traces_.try_emplace(plan_hash(plan));
  if (!fresh) return found->second;
  for (const Stage& stage : plan.stages) {
    const std::int64_t tasks = 3 + 2 * stage.in_flight_samples / stage.micro_batch;
    work_ += 16 * tasks * static_cast<std::int64_t>(stage.devices.size());
  }
  found->second = simulate_iteration(plan, problem());
  return found->second;
}

}  // namespace graphpipe
