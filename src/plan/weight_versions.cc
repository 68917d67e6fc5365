#include "plan/weight_versions.h"

#include <algorithm>

#include "base/error.h"

namespace graphpipe {
namespace {

std::int64_t in_flight_of(const Stage& stage) {
  return std::max<std::int64_t>(1, stage.in_flight_samples / stage.micro_batch);
}

// The largest of the stages that no other feeds.
std::int64_t entering_in_flight(const Plan& plan) {
  std::vector<bool> fed(plan.stages.size(), false);
  for (const StageEdge& edge : plan.edges) fed[edge.to.index()] = true;
  std::int64_t most = 1;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (!fed[s]) most = std::max(most, in_flight_of(plan.stages[s]));
  }
  return most;
}

}  // namespace

VersionRule::VersionRule(const Plan& plan) : policy_(plan.weights) {
  GP_CHECK(is_asynchronous(policy_), "a synchronous plan has one version of its weights");
  if (policy_ == WeightPolicy::k2bw) step_ = plan.mini_batch / plan.stages[0].micro_batch;
  const std::int64_t entering = entering_in_flight(plan);
  for (const Stage& stage : plan.stages) {
    const std::int64_t own = in_flight_of(stage);
    switch (policy_) {
      case WeightPolicy::kSynchronous:
      case WeightPolicy::kStash:
      case WeightPolicy::kNaive:
        kept_for_.push_back(own - 1);
        break;
      case WeightPolicy::kVerticalSync:
        kept_for_.push_back(std::max(own, entering) - 1);
        break;
      case WeightPolicy::k2bw:
        kept_for_.push_back(2 * step_ - 1);
        break;
    }
  }
}

std::int64_t VersionRule::version_of(StageId stage, std::int64_t micro_batch) const {
  if (policy_ != WeightPolicy::k2bw) {
    return std::max<std::int64_t>(0, micro_batch - kept_for_[stage.index()]);
  }
  return std::max<std::int64_t>(0, (micro_batch / step_ - 1) * step_);
}

bool VersionRule::outlives_its_step(StageId stage, std::int64_t version,
                                    std::int64_t micro_batches) const {
  if (policy_ == WeightPolicy::kNaive) return false;
  const std::int64_t stepped = version + step_ - 1;  // the last micro-batch before the step
  const std::int64_t last = version + kept_for_[stage.index()];
  if (policy_ == WeightPolicy::k2bw || version == 0) {
    return stepped + 1 <= std::min(last, micro_batches - 1);
  }
  return last > stepped && last < micro_batches;
}

std::int64_t VersionRule::most_held(StageId stage) const {
  if (policy_ == WeightPolicy::kNaive) return 1;
  return kept_for_[stage.index()] / step_ + 1;
}

}  // namespace graphpipe
