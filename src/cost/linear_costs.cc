#include "cost/linear_costs.h"

#include <utility>

#include "base/error.h"

namespace graphpipe {

LinearCosts::LinearCosts(std::string name, std::vector<LinearOpCost> costs)
    : name_(std::move(name)), costs_(std::move(costs)) {}

OpCost LinearCosts::op_cost(const Graph& /*graph*/, OpId op, std::int64_t samples,
                            int tensor_degree, const DeviceType& /*device*/, Phase phase) const {
  GP_CHECK(op.valid() && op.index() < costs_.size(), "no cost for operator {} of {}", op.value,
           costs_.size());
  GP_CHECK(tensor_degree == 1, "tensor degree {}", tensor_degree);
  if (samples <= 0) return {};
  const LinearOpCost& unit = costs_[op.index()];
  const auto n = static_cast<double>(samples);
  switch (phase) {
    case Phase::kForward:
      return {.seconds = n * unit.forward_s_per_sample,
              .saved_bytes = samples * unit.saved_bytes_per_sample};
    case Phase::kBackward:
      return {.seconds = n * unit.backward_s_per_sample};
    case Phase::kBackwardInput:
    case Phase::kBackwardWeight:
      return {.seconds = n * unit.backward_s_per_sample / 2};
    case Phase::kRecompute:
      return {.seconds = n * unit.forward_s_per_sample};
  }
  GP_CHECK(false, "unknown phase {}", static_cast<int>(phase));
  return {};
}

}  // namespace graphpipe
