#include "plan/calibration.h"

#include <map>
#include <string>

#include "base/divide_up.h"
#include "base/error.h"

namespace graphpipe {
namespace {

// Of a replica, in an iteration.
struct StageLoad {
  double tasks = 0;
  std::int64_t samples = 0;  // of a task
};

StageLoad load_of(const Plan& plan, const Stage& stage) {
  const auto replicas = static_cast<std::int64_t>(stage.devices.size());
  const double micro_batches =
      static_cast<double>(plan.mini_batch) / static_cast<double>(stage.micro_batch);
  if (stage.replication == Replication::kRoundRobin) {
    return {micro_batches / static_cast<double>(replicas), stage.micro_batch};
  }
  return {micro_batches, divide_up(stage.micro_batch, replicas)};
}

double operator_s(const StageLoad& load, OpId op, bool recomputes, const Graph& graph,
                  const DeviceType& device, const CostModel& costs) {
  const auto seconds = [&](Phase phase) {
    return costs.op_cost(graph, op, load.samples, 1, device, phase).seconds;
  };
  const double again_s = recomputes ? seconds(Phase::kRecompute) : 0;
  return load.tasks * (seconds(Phase::kForward) + seconds(Phase::kBackward) + again_s);
}

}  // namespace

double operators_s(const Plan& plan, StageId stage_id, const Graph& graph, const Cluster& cluster,
                   const CostModel& costs) {
  const Stage& stage = plan.stage(stage_id);
  const DeviceType& device = cluster.type_of(stage.devices.front());
  double sum_s = 0;
  for (const OpId op : stage.ops) {
    sum_s += operator_s(load_of(plan, stage), op, stage.recompute, graph, device, costs);
  }
  return sum_s;
}

Profile calibrated_profile(const Profile& profile, const Plan& plan, const Graph& graph,
                           const Cluster& cluster, const std::vector<double>& measured_s) {
  GP_CHECK(measured_s.size() == plan.stages.size(), "{} measurements of {} stages",
           measured_s.size(), plan.stages.size());
  const ProfiledCosts costs(profile, "to calibrate");
  struct Share {
    double seconds = 0;
    double measured_s = 0;  // these, each by the ratio of its stage
  };
  std::map<std::string, Share> shares;  // by signature
  for (std::size_t s = 0; s < measured_s.size(); ++s) {
    const double predicted_s = operators_s(plan, StageId(s), graph, cluster, costs);
    if (predicted_s <= 0 || measured_s[s] <= 0) continue;
    const Stage& stage = plan.stages[s];
    const DeviceType& device = cluster.type_of(stage.devices.front());
    for (const OpId op : stage.ops) {
      const double seconds =
          operator_s(load_of(plan, stage), op, stage.recompute, graph, device, costs);
      Share& share = shares[op_signature(graph, op)];
      share.seconds += seconds;
      share.measured_s += seconds * measured_s[s] / predicted_s;
    }
  }
  Profile result = profile;
  for (auto& [signature, entry] : result.entries) {
    const auto found = shares.find(signature);
    if (found == shares.end() || found->second.seconds <= 0) continue;
    entry.calibration *= found->second.measured_s / found->second.seconds;
  }
  return result;
}

}  // namespace graphpipe
