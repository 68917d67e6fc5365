// The costs of every operator at the sample counts that a planner meets, asked once:
// planners sum them over thousands of candidate stages.

#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cost/task_memory.h"
#include "planners/planner.h"

namespace graphpipe {

// The device that planners reckon with: where types are mixed, the slowest compute and
// the smallest memory of those in the cluster.
DeviceType planning_device(const Cluster& cluster);

// Seconds per rank that compute takes when all ranks of a node are busy, beyond what it
// takes alone. All planners rank by the same.
double compute_slowdown(const Cluster& cluster);

class CostTable {
 public:
  // By OpId. Seconds are those of a device that has its cores to itself.
  struct Column {
    std::vector<double> forward_s;
    std::vector<double> backward_s;
    std::vector<double> recompute_s;  // where the problem's options allow it; else empty
    std::vector<std::int64_t> saved_bytes;
    std::vector<OpTaskMemory> task;
  };

  explicit CostTable(const Problem& problem)
      : CostTable(problem, planning_device(*problem.cluster)) {}
  CostTable(const Problem& problem, DeviceType device)
      : problem_(&problem),
        device_(std::move(device)),
        facts_(training_facts(*problem.costs, *problem.graph, device_)) {}
  CostTable(const CostTable&) = delete;  // tasks_ knows facts_
  CostTable& operator=(const CostTable&) = delete;

  // Over `samples` samples on one rank.
  const Column& at(std::int64_t samples);
  // Of the real type of a device; where all are alike, this table itself.
  CostTable& of_device(DeviceId device);
  const Problem& problem() const { return *problem_; }
  const DeviceType& device() const { return device_; }
  const TrainingFacts& facts() const { return facts_; }
  TaskMemories& task_memories() { return task_memories_; }
  const std::vector<OpId>& readers(TensorId tensor);

 private:
  const Problem* problem_;
  DeviceType device_;
  TrainingFacts facts_;
  TaskMemories task_memories_{*problem_->costs, *problem_->graph, facts_.needs};
  std::map<std::int64_t, Column> columns_;
  std::vector<std::vector<OpId>> readers_;  // [tensor]; empty: not asked yet
  std::map<int, CostTable> by_type_;        // where the cluster has several
};

}  // namespace graphpipe
