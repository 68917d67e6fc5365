// What a task costs a rank: each distinct one is asked for once.

#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost_model.h"
#include "schedule/schedule.h"

namespace graphpipe {

struct TaskCost {
  double seconds = 0;
  std::int64_t saved_bytes = 0;      // by a forward of these samples
  std::int64_t workspace_bytes = 0;  // while it runs
};

class TaskCosts {
 public:
  TaskCosts(const Schedule& schedule, const Plan& plan, const Graph& graph, const Cluster& cluster,
            const CostModel& costs);

  // Of a compute, or of the task whose values a free ends. The samples are the rank's own:
  // of a split replica its share. The reference holds until the next call.
  const TaskCost& of(RankId rank, const Action& action);

 private:
  struct Known {
    ActionKind kind;
    std::int64_t samples;
    int device_type;
    TaskCost cost;
  };
  TaskCost ask(const Action& action, const DeviceType& device) const;

  const Schedule& schedule_;
  const Plan& plan_;
  const Graph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  std::vector<std::vector<Known>> known_;  // [stage]; few are distinct
};

}  // namespace graphpipe
