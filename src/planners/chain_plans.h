// From partitions to plans, for planners of sequential pipelines: devices, in-flight samples,
// memory, and which few are worth simulating.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planners/blocks.h"
#include "planners/stage_tps.h"

namespace graphpipe {

struct ChainStage {
  std::vector<OpId> ops;  // ascending
  int width = 1;
};

// Seconds of every operator at a micro-batch size, forward and backward, and their sum.
std::vector<double> op_seconds(CostTable& table, std::int64_t micro_batch);

// Bytes that stay for each operator: weights, gradients, optimiser state.
std::vector<double> op_static_bytes(const Problem& problem);
std::vector<double> op_param_bytes(const Graph& graph);

// Bytes that each block keeps of a micro-batch from its forward to its backward.
std::vector<double> block_saved_bytes(const Problem& problem, const Blocks& blocks,
                                      std::int64_t micro_batch, const DeviceType& device);

// What an even share of all operators' seconds comes to on each device.
double device_share_s(const Problem& problem, const std::vector<double>& seconds);

// Of these blocks.
ChainStage chain_stage(const Blocks& blocks, const std::vector<int>& members, int width);

class ChainPlans {
 public:
  ChainPlans(const Problem& problem, const std::string& planner);

  CostTable& table() { return table_; }

  // Takes stages in their order, of micro-batch b, onto neighbouring devices; an order edge joins
  // consecutive stages where no data does. Proposed with replicas that split micro-batches and
  // that take whole ones in turn (where any stage has some; those of streams do), with the least
  // in-flight samples and with twice as many; stages recompute that do not fit otherwise, where the
  // options allow it. Whether any of it fits in memory.
  bool add(const std::vector<ChainStage>& stages, std::int64_t micro_batch);

  // The best few of each micro-batch size by iteration_floor_s(); without any: `status` and
  // `reason` where it is not empty, else why the nearest does not fit.
  PlanResult result(const Budget& budget, PlanStatus status = PlanStatus::kInfeasible,
                    const std::string& reason = "");

 private:
  struct Candidate {
    Plan plan;
    double floor_s = 0;
  };
  bool propose(Plan plan, std::int64_t in_flight_factor);
  bool fits(Plan& plan);

  const Problem& problem_;
  CostTable table_;
  Plan empty_;
  std::vector<Candidate> candidates_;
  std::vector<std::uint64_t> known_;  // hashes of the candidates' plans
  std::string nearest_miss_;
  std::int64_t nearest_miss_bytes_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace graphpipe
