#include "schedule/replica_work.h"

#include <algorithm>

#include "plan/weight_versions.h"
#include "schedule/owner_map.h"

namespace graphpipe {
namespace {

// How many of the first `micro_batches` are the replica's. Split replicas run all.
std::int64_t own_tasks(const ReplicaWork& work, std::int64_t micro_batches) {
  return micro_batches <= work.first ? 0 : (micro_batches - work.first - 1) / work.stride + 1;
}

}  // namespace

ReplicaWork replica_work(const Plan& plan, Placement placed, bool backward, std::int64_t samples) {
  const Stage& stage = plan.stage(placed.stage);
  ReplicaWork work{.stage = placed.stage,
                   .replica = placed.replica,
                   .backward = backward,
                   .recompute = backward && stage.recompute};
  if (stage.replication == Replication::kRoundRobin) {
    work.first = placed.replica;
    work.stride = static_cast<std::int64_t>(stage.devices.size());
  }
  const std::int64_t count = micro_batch_count(stage, samples);
  work.tasks = own_tasks(work, count);
  // A split replica may have no share of the short last micro-batch, or (4 samples in
  // shares of 2 on three devices) of any other.
  const auto has_share = [&](std::int64_t i) {
    return stage.replication == Replication::kRoundRobin ||
           !replica_samples(stage, work.replica, i, samples).empty();
  };
  if (!has_share(0)) {
    work.first = count - 1;
    work.tasks = 1;
  }
  if (!has_share(count - 1)) --work.tasks;
  if (backward) {
    const bool all_first =
        plan.schedule == ScheduleKind::kGpipe || stage.in_flight_samples >= samples;
    const std::int64_t in_flight = own_tasks(work, stage.in_flight_samples / stage.micro_batch);
    work.warm_up =
        all_first ? work.tasks : std::min(std::max<std::int64_t>(in_flight, 1), work.tasks);
    work.in_flight = work.warm_up;
    if (plan.schedule == ScheduleKind::kZbH1) {
      work.halves = true;
      const std::int64_t least = warm_up_samples(plan)[placed.stage.index()];
      const std::int64_t first =
          std::max<std::int64_t>(1, own_tasks(work, least / stage.micro_batch));
      if (least < samples) work.warm_up = std::min(first, work.in_flight);
      work.late = work.in_flight - work.warm_up;
    }
    work.in_a_row =
        std::clamp<std::int64_t>(stage.kfkb, 1, std::max<std::int64_t>(1, work.warm_up));
  }
  work.whole_tasks = std::min(own_tasks(work, samples / stage.micro_batch), work.tasks);
  work.round_samples = work.in_a_row * stage.micro_batch * work.stride;
  if (backward && is_asynchronous(plan.weights)) {
    const VersionRule rule(plan);
    const std::int64_t kept_for = rule.kept_for(placed.stage) / work.stride;  // own ones
    work.unlike_first = kept_for;
    // The last that a version may outlast are those whose step it replaces; 2BW ends its groups
    // with the stream.
    if (plan.weights != WeightPolicy::k2bw) {
      work.unlike_last = std::max<std::int64_t>(0, kept_for + 1 - work.warm_up);
    }
  }
  return work;
}

}  // namespace graphpipe
