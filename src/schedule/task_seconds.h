// How long a task takes a rank: each distinct one is asked for once.

#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost_model.h"
#include "schedule/schedule.h"

namespace graphpipe {

class TaskSeconds {
 public:
  TaskSeconds(const Schedule& schedule, const Plan& plan, const Graph& graph,
              const Cluster& cluster, const CostModel& costs);

  // Of a compute, or of the optimiser's step. The samples are the rank's own: of a split replica
  // its share.
  double of(RankId rank, const Action& action);
  // Of a whole backward, until it has been through the operator: all but those before it.
  double until(RankId rank, const Action& action, OpId op);

 private:
  struct Known {
    ActionKind kind;
    std::int64_t samples;
    int device_type;
    double seconds;
  };
  struct Through {
    std::int64_t samples;
    int device_type;
    std::vector<double> before_s;  // [operator of the stage]: the backwards of all before it
  };
  int type_of(RankId rank) const;
  double ask(const Action& action, const DeviceType& device) const;
  double step_s(StageId stage) const;
  const std::vector<double>& before_s(StageId stage, std::int64_t samples, int type);

  const Schedule& schedule_;
  const Plan& plan_;
  const Graph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  std::vector<std::vector<Known>> known_;      // [stage]; few are distinct
  std::vector<std::vector<Through>> through_;  // [stage]; likewise
};

// By what an emulated run multiplies all times, so that a machine can keep them and nobody
// waits longer than that takes: the shortest task takes kShortestEmulatedTaskS; less where the
// busiest rank would compute for more than 20 s, more where the machine would be busy with the
// actions themselves for much of the iteration.
struct EmulationStretch {
  double factor = 1;
  double shortest_task_s = 0;  // before; of those that take any time
};
inline constexpr double kShortestEmulatedTaskS = 0.02;
// Requires: a lowered schedule.
EmulationStretch emulation_stretch(const Schedule& schedule, const Plan& plan, const Graph& graph,
                                   const Cluster& cluster, const CostModel& costs, int cores);

}  // namespace graphpipe
