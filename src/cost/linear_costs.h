// Costs that are linear in the number of samples, given per operator: those of
// imported one-unit profiles, and of examples that one can check by hand.

#pragma once

#include <string>
#include <vector>

#include "cost/cost_model.h"

namespace graphpipe {

struct LinearOpCost {
  double forward_s_per_sample = 0;
  double backward_s_per_sample = 0;
  std::int64_t saved_bytes_per_sample = 0;
};

class LinearCosts : public CostModel {
 public:
  // costs[op]. A recompute costs a forward; the halves of a backward cost half each.
  LinearCosts(std::string name, std::vector<LinearOpCost> costs);
  OpCost op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                 const DeviceType& device, Phase phase) const override;
  std::string name() const override { return name_; }

 private:
  std::string name_;
  std::vector<LinearOpCost> costs_;
};

}  // namespace graphpipe
