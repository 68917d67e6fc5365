#include "plan/weight_versions.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace graphpipe {
namespace {

// Beyond so many micro-batches until delays repeat, vertical sync's are bounded from above.
constexpr std::int64_t kMostCounted = 1024;

std::int64_t turns_of(const Stage& stage) {
  return stage.replication == Replication::kRoundRobin
             ? static_cast<std::int64_t>(stage.devices.size())
             : 1;
}

}  // namespace

VersionRule::VersionRule(const Plan& plan) : policy_(plan.weights) {
  GP_CHECK(is_asynchronous(policy_), "a synchronous plan has one version of its weights");
  if (policy_ == WeightPolicy::k2bw) mini_batch_ = plan.mini_batch / plan.stages[0].micro_batch;
  for (const Stage& stage : plan.stages) {
    StageRule rule{.turns = std::max<std::int64_t>(1, turns_of(stage))};
    rule.in_flight =
        std::max<std::int64_t>(1, stage.in_flight_samples / (stage.micro_batch * rule.turns));
    rule.step = policy_ == WeightPolicy::k2bw ? mini_batch_ : rule.turns;
    stages_.push_back(rule);
  }
  std::vector<bool> fed(plan.stages.size(), false);
  for (const StageEdge& edge : plan.edges) fed[edge.to.index()] = true;
  for (std::size_t s = 0; s < fed.size(); ++s) {
    if (!fed[s]) entering_.emplace_back(s);
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) find_delays(stages_[s], StageId(s));
}

std::int64_t VersionRule::StageRule::newest(std::int64_t micro_batch) const {
  return std::max<std::int64_t>(0, micro_batch / turns - (in_flight - 1)) * turns;
}

void VersionRule::find_delays(StageRule& rule, StageId stage) const {
  if (policy_ == WeightPolicy::k2bw) {
    rule.kept_for = 2 * rule.step - 1;
    rule.late = 1;
    return;
  }
  rule.kept_for = rule.in_flight * rule.turns - 1;
  rule.late = rule.in_flight - 1;
  if (policy_ != WeightPolicy::kVerticalSync) return;
  std::int64_t most = rule.in_flight * rule.turns;
  std::int64_t repeats = rule.turns;  // delays do, after so many micro-batches
  for (const StageId s : entering_) {
    most = std::max(most, at(s).in_flight * at(s).turns);
    repeats = std::min(std::lcm(repeats, at(s).turns), kMostCounted + 1);
  }
  if (repeats > kMostCounted) {
    rule.kept_for = most + rule.turns - 2;
    rule.late = rule.kept_for / rule.turns + 1;
    return;
  }
  const std::int64_t steady = (most + repeats) / repeats * repeats;
  for (std::int64_t i = steady; i < steady + repeats; ++i) {
    const std::int64_t version = version_of(stage, i);
    rule.kept_for = std::max(rule.kept_for, i - version);
    rule.late = std::max(rule.late, i / rule.step - version / rule.step);
  }
}

std::int64_t VersionRule::version_of(StageId stage, std::int64_t micro_batch) const {
  const StageRule& rule = at(stage);
  if (policy_ == WeightPolicy::k2bw) {
    return std::max<std::int64_t>(0, micro_batch / rule.step - 1) * rule.step;
  }
  std::int64_t version = rule.newest(micro_batch);
  if (policy_ != WeightPolicy::kVerticalSync) return version;
  for (const StageId s : entering_) {
    version = std::min(version, at(s).newest(micro_batch) / rule.step * rule.step);
  }
  return version;
}

bool VersionRule::is_last_of_step(StageId stage, std::int64_t micro_batch,
                                  std::int64_t micro_batches) const {
  const StageRule& rule = at(stage);
  const std::int64_t next = micro_batch + rule.turns;
  return next >= micro_batches || next / rule.step > micro_batch / rule.step;
}

std::int64_t VersionRule::most_held(StageId stage) const {
  return policy_ == WeightPolicy::kNaive ? 1 : at(stage).late + 1;
}

}  // namespace graphpipe
