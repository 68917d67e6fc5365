// Costs: seconds and bytes of operators, stages, transfers and reductions. Planners
// and the simulator ask the same object, so a claim of one can be held against the
// other.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "graph/graph.h"

namespace graphpipe {

enum class Phase {
  kForward,
  kBackward,        // both halves
  kBackwardInput,   // the gradient of the inputs
  kBackwardWeight,  // the gradient of the parameters
  kRecompute,       // the forward again, before a backward
};

struct OpCost {
  double seconds = 0;
  // Only while it runs, beyond inputs, outputs and what is kept; of a backward, beyond what
  // the forward kept and the gradients of its outputs.
  std::int64_t workspace_bytes = 0;
  // Kept from the forward to the backward beyond the operator's inputs and outputs (attention's
  // probabilities, a dropout mask); asked for with kForward. Which of these are kept: below.
  std::int64_t saved_bytes = 0;
  bool extrapolated = false;  // outside what was measured
};

class CostModel {
 public:
  virtual ~CostModel() = default;

  // One operator over `samples` samples on this rank, at `tensor_degree` (1 today), on
  // a device of this type that has its cores to itself. samples = 0 costs nothing.
  virtual OpCost op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                         const DeviceType& device, Phase phase) const = 0;

  // Whether the backward needs the operator's i-th input, or its outputs, so that they are kept.
  virtual bool keeps_input(const Operator& op, std::size_t i, const DeviceType& device) const;
  virtual bool keeps_output(const Operator& op, const DeviceType& device) const;

  // A message over a link: latency + bytes / bandwidth.
  virtual double transfer_s(std::int64_t bytes, const Link& link) const;

  // All-reduce of `bytes` over `ranks` ranks that meet over `link`, by a ring:
  // 2 (n - 1) / n * bytes / bandwidth + 2 (n - 1) * latency.
  virtual double reduce_s(std::int64_t bytes, int ranks, const Link& link) const;

  // The optimiser's step over so many parameters of `bytes` in all, for each number of which it
  // keeps so many `moments`: 0 (SGD), 1 (with momentum) or 2 (Adam). Nothing unless measured.
  virtual double step_s(std::int64_t /*params*/, std::int64_t /*bytes*/, int /*moments*/) const {
    return 0;
  }

  // What the runtime itself takes for a task, beside its operators.
  virtual double task_overhead_s() const { return 0; }

  // Which cost model and constants: stands in plans and reports ("analytic V100-16GB",
  // "profile movielens.profile.json").
  virtual std::string name() const = 0;
};

// What a stage's task costs a rank: a sum over its operators and the task's overhead today;
// measured or fused costs may replace it.
struct StageCost {
  double forward_s = 0;
  double backward_s = 0;
};
StageCost stage_cost(const CostModel& costs, const Graph& graph, const std::vector<OpId>& ops,
                     std::int64_t samples, const DeviceType& device);

// Tensors that the stage reads and does not make, ascending; those of the graph's input too.
// Requires: `ops` ascending.
std::vector<TensorId> stage_inputs(const Graph& graph, const std::vector<OpId>& ops);
// What a rank keeps of them that will run the forward again: all.
std::int64_t stage_input_bytes(const Graph& graph, const std::vector<OpId>& ops,
                               std::int64_t samples);

}  // namespace graphpipe
