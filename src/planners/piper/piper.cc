// Departs from the paper: operators are joined to blocks of at most a device's share of the work
// while the graph has more downsets than the limit, since Piper's inputs are layers; where there
// are too many even so, it gives up, as the original does. A stage recomputes as a whole.

#include "planners/piper/piper.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "planners/blocks.h"
#include "planners/chain_plans.h"
#include "planners/piper/partition.h"

namespace graphpipe {
namespace {

constexpr std::size_t kPiperDownsets = 12'000;
constexpr std::size_t kPiperEnough = 2'500;  // joined no further
constexpr double kPrecision = 1e-3;          // the simulator picks among the sizes
// Memory that the partition reckons with, for it knows nothing of buffers and workspace.
constexpr double kPiperShares[] = {1, 0.85, 0.7};

class Piper {
 public:
  Piper(const Problem& problem, const Budget& budget)
      : problem_(problem),
        budget_(budget),
        plans_(problem, "piper"),
        static_bytes_(op_static_bytes(problem)),
        param_bytes_(op_param_bytes(*problem.graph)) {
    limits_.downsets = kPiperDownsets;
    limits_.precision = kPrecision;
    limits_.should_stop = budget.should_stop;
  }

  PlanResult plan() {
    const std::vector<std::int64_t> sizes = micro_batch_sizes(problem_);
    const std::vector<double> seconds = op_seconds(plans_.table(), sizes[sizes.size() / 2]);
    const double share = device_share_s(problem_, seconds);
    const Blocks blocks =
        coarse_blocks(*problem_.graph, seconds, share, kPiperEnough, budget_.should_stop);
    const Progress progress = begin_phase(budget_.progress, "partitions");
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      limits_.progress = part_of(progress, i, sizes.size());
      tell(limits_.progress, 0);
      if (!propose(sizes[i], blocks)) break;
    }
    return plans_.result(budget_, status_, reason_);
  }

 private:
  // False: no other size will do better.
  bool propose(std::int64_t b, const Blocks& blocks) {
    const std::vector<double> seconds = op_seconds(plans_.table(), b);
    PiperInstance instance = make_instance(blocks, seconds, b);
    for (const double memory_share : kPiperShares) {
      instance.memory_bytes =
          memory_share * static_cast<double>(plans_.table().device().memory_bytes);
      const PiperPartition partition = partition_piper(instance, limits_);
      if (!note(partition, blocks)) return false;
      if (partition.outcome != PiperOutcome::kFound) return true;
      if (plans_.add(stages(blocks, partition), b)) return true;
    }
    return true;
  }

  // Why it gave up; whether to go on.
  bool note(const PiperPartition& partition, const Blocks& blocks) {
    switch (partition.outcome) {
      case PiperOutcome::kFound:
      case PiperOutcome::kNoPartition:
        return true;
      case PiperOutcome::kTooManyDownsets:
        reason_ = too_many_downsets_text(limits_.downsets, blocks);
        break;
      case PiperOutcome::kTooManyPairs:
        reason_ = fmt::format("more than {} pairs of nested downsets, which is the limit",
                              count_text(limits_.pairs));
        break;
      case PiperOutcome::kStopped:
        reason_ = fmt::format("stopped at {} downsets before a plan was found",
                              count_text(static_cast<std::int64_t>(partition.downsets)));
        break;
    }
    status_ = PlanStatus::kGaveUp;
    return false;
  }

  PiperInstance make_instance(const Blocks& blocks, const std::vector<double>& seconds,
                              std::int64_t b) {
    const CostTable::Column& column = plans_.table().at(b);
    PiperInstance instance;
    instance.devices = problem_.cluster->device_count();
    instance.bandwidth_bytes_per_s = worst_link(*problem_.cluster).bandwidth_bytes_per_s;
    instance.micro_batches = std::max<std::int64_t>(1, problem_.mini_batch / b);
    if (!problem_.options.data_parallel) instance.most_data_degree = 1;
    instance.degrees = {1};
    const std::vector<double> saved_bytes =
        block_saved_bytes(problem_, blocks, b, plans_.table().device());
    for (const std::vector<OpId>& ops : blocks.ops) {
      PiperCost cost;
      double recompute_s = 0;
      for (const OpId op : ops) {
        cost.seconds += seconds[op.index()];
        cost.parameter_bytes += param_bytes_[op.index()];
        cost.b_bytes += static_bytes_[op.index()];
        if (problem_.options.recompute) recompute_s += column.recompute_s[op.index()];
      }
      cost.a_bytes = saved_bytes[instance.ops.size()];
      cost.recompute_seconds = cost.seconds + recompute_s;
      cost.recompute_a_bytes = cost.a_bytes;
      cost.recompute_b_bytes = cost.b_bytes;
      if (problem_.options.recompute) {
        cost.recompute_a_bytes = static_cast<double>(stage_input_bytes(*problem_.graph, ops, b));
        cost.recompute_b_bytes = cost.b_bytes + cost.a_bytes - cost.recompute_a_bytes;
      }
      instance.ops.push_back({cost});
    }
    for (const BlockTensor& tensor : blocks.tensors) {
      const auto bytes =
          static_cast<double>(tensor_bytes(problem_.graph->tensor(tensor.tensor), b));
      for (const int consumer : tensor.consumers) {
        instance.links.push_back({tensor.producer, consumer, bytes, {0}, {0}});
      }
    }
    return instance;
  }

  static std::vector<ChainStage> stages(const Blocks& blocks, const PiperPartition& partition) {
    std::vector<ChainStage> chain;
    for (const PiperStage& stage : partition.stages) {
      chain.push_back(chain_stage(blocks, stage.ops, stage.data_degree));
    }
    return chain;
  }

  const Problem& problem_;
  const Budget& budget_;
  ChainPlans plans_;
  PiperLimits limits_;
  std::vector<double> static_bytes_;
  std::vector<double> param_bytes_;
  PlanStatus status_ = PlanStatus::kInfeasible;
  std::string reason_;
};

}  // namespace

PlanResult plan_piper(const Problem& problem, const Budget& budget) {
  if (problem.graph->ops.empty()) {
    return {PlanStatus::kInfeasible, "the graph has no operators", {}, 0};
  }
  return Piper(problem, budget).plan();
}

}  // namespace graphpipe
