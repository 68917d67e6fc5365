// What an operator costs at least, by the size of its tasks: the numbers that
// lower_bound.cc puts together. Symbols as in docs/lower_bound.md.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cost/lower_bound.h"

namespace graphpipe {

// A number of samples that a task may have.
struct TaskSize {
  std::int64_t samples = 0;
  int least_width = 1;  // a stage has such tasks on so many devices or more
};

// Of one operator, by the index of the size; infinite where memory does not suffice for it.
struct OperatorTimes {
  bool backward = false;                     // a gradient reaches an output
  std::vector<double> forward_s;             // F
  std::vector<double> back_s;                // until the inputs' gradients are there
  std::vector<double> task_s;                // forward and backward
  std::vector<double> per_sample_s;          // least task_s / samples of this size and smaller ones
  std::vector<double> forward_per_sample_s;  // likewise of forward_s
  std::vector<double> larger_task_s;         // least task_s of this size and larger ones
  double least_forward_s = 0;
  double least_back_s = 0;
  double least_per_sample_s = 0;  // c
};

// What any stage with the operator keeps of a task of so many samples to the backward, at
// least: the inputs and outputs that the operator's own backward needs, each once, and what
// it saves beside. 0 where no gradient reaches it. `needs`: needs_gradient(graph).
std::int64_t least_saved_bytes(const CostModel& costs, const Graph& graph,
                               const std::vector<bool>& needs, OpId op, std::int64_t samples,
                               const DeviceType& device);

class OperatorBounds {
 public:
  OperatorBounds(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                 const BoundRules& rules);

  const std::vector<TaskSize>& sizes() const { return sizes_; }  // ascending
  const OperatorTimes& of(OpId op) const { return kinds_[kind_[op.index()]]; }
  // What the busiest of `width` devices computes of the operator at least.
  double busiest_s(OpId op, int width) const;
  // The sum of the operator's gradients over the devices of its stage, on each of them.
  double reduce_s(OpId op, int width) const;
  // Bytes of trained parameters that the operator shares with no other.
  std::int64_t summed_bytes(OpId op) const { return summed_bytes_[op.index()]; }
  // The same without latencies, on all of them together, for `width` devices or more.
  double reduce_work_s(OpId op, int width) const;

 private:
  using Key = std::tuple<std::string, bool, std::vector<std::int64_t>, std::vector<double>>;
  OperatorTimes times(OpId op, bool backward) const;
  Key key(OpId op, bool backward) const;
  bool fits(OpId op, std::int64_t samples) const;
  std::int64_t kept_bytes(OpId op) const;
  Link best_link(int width) const;

  const Graph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  const BoundRules& rules_;
  int max_width_;
  std::vector<TaskSize> sizes_;
  std::vector<const DeviceType*> types_;
  std::vector<bool> needs_;
  std::vector<OperatorTimes> kinds_;
  std::vector<std::size_t> kind_;               // [op]
  std::vector<std::int64_t> summed_bytes_;      // [op]: gradients that no other operator shares
  std::vector<double> reduce_work_per_byte_s_;  // [width]
};

}  // namespace graphpipe
