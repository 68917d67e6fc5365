// Departs from the paper: operators are joined to blocks as in piper.cc's head; an operator's
// memory is what stays and what one micro-batch saves, times nothing, as there; plans that then
// do not fit are tried again with less memory.

#include "planners/max_load/max_load.h"

#include "planners/blocks.h"
#include "planners/chain_plans.h"
#include "planners/max_load/partition.h"

namespace graphpipe {
namespace {

constexpr std::size_t kMaxLoadDownsets = 12'000;
constexpr std::size_t kEnoughDownsets = 2'500;  // joined no further
constexpr double kMemoryShares[] = {1, 0.5, 0.25};

class MaxLoad {
 public:
  MaxLoad(const Problem& problem, const Budget& budget)
      : problem_(problem),
        budget_(budget),
        plans_(problem, "max-load"),
        static_bytes_(op_static_bytes(problem)) {
    limits_.downsets = kMaxLoadDownsets;
    limits_.should_stop = budget.should_stop;
  }

  PlanResult plan() {
    const std::vector<std::int64_t> sizes = micro_batch_sizes(problem_);
    const std::vector<double> seconds = op_seconds(plans_.table(), sizes[sizes.size() / 2]);
    const double share = device_share_s(problem_, seconds);
    const Blocks blocks =
        coarse_blocks(*problem_.graph, seconds, share, kEnoughDownsets, budget_.should_stop);
    const Progress progress = begin_phase(budget_.progress, "partitions");
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      limits_.progress = part_of(progress, i, sizes.size());
      tell(limits_.progress, 0);
      if (!propose(sizes[i], blocks)) break;
    }
    return plans_.result(budget_, status_, reason_);
  }

 private:
  bool propose(std::int64_t b, const Blocks& blocks) {
    const std::vector<double> seconds = op_seconds(plans_.table(), b);
    MaxLoadInstance instance = make_instance(blocks, seconds, b);
    for (const double memory_share : kMemoryShares) {
      instance.accelerator_bytes =
          memory_share * static_cast<double>(plans_.table().device().memory_bytes);
      const MaxLoadPartition partition = partition_max_load(instance, limits_);
      if (partition.outcome == MaxLoadOutcome::kNoPartition) return true;
      if (partition.outcome != MaxLoadOutcome::kFound) {
        status_ = PlanStatus::kGaveUp;
        reason_ = partition.outcome == MaxLoadOutcome::kStopped
                      ? "stopped before a plan was found"
                      : too_many_downsets_text(limits_.downsets, blocks);
        return false;
      }
      if (plans_.add(stages(blocks, partition), b)) return true;
    }
    return true;
  }

  MaxLoadInstance make_instance(const Blocks& blocks, const std::vector<double>& seconds,
                                std::int64_t b) {
    MaxLoadInstance instance;
    instance.accelerators = problem_.cluster->device_count();
    instance.successors = blocks.successors;
    const std::vector<double> saved_bytes =
        block_saved_bytes(problem_, blocks, b, plans_.table().device());
    for (const std::vector<OpId>& ops : blocks.ops) {
      MaxLoadOp& op = instance.ops.emplace_back();
      op.bytes = saved_bytes[instance.ops.size() - 1];
      for (const OpId id : ops) {
        op.accelerator_s += seconds[id.index()];
        op.bytes += static_bytes_[id.index()];
      }
    }
    const Link& link = worst_link(*problem_.cluster);
    for (const BlockTensor& tensor : blocks.tensors) {
      const double transfer_s =
          problem_.costs->transfer_s(tensor_bytes(problem_.graph->tensor(tensor.tensor), b), link);
      std::vector<int> forward = tensor.consumers;
      forward.push_back(tensor.producer);
      instance.tensors.push_back({std::move(forward), transfer_s});
      if (!tensor.gradient) continue;
      for (const int consumer : tensor.consumers) {
        instance.tensors.push_back({{consumer, tensor.producer}, transfer_s});
      }
    }
    return instance;
  }

  static std::vector<ChainStage> stages(const Blocks& blocks, const MaxLoadPartition& partition) {
    std::vector<ChainStage> chain;
    for (const MaxLoadStage& stage : partition.stages) {
      chain.push_back(chain_stage(blocks, stage.ops, 1));
    }
    return chain;
  }

  const Problem& problem_;
  const Budget& budget_;
  ChainPlans plans_;
  MaxLoadLimits limits_;
  std::vector<double> static_bytes_;
  PlanStatus status_ = PlanStatus::kInfeasible;
  std::string reason_;
};

}  // namespace

PlanResult plan_max_load(const Problem& problem, const Budget& budget) {
  if (problem.graph->ops.empty()) {
    return {PlanStatus::kInfeasible, "the graph has no operators", {}, 0};
  }
  return MaxLoad(problem, budget).plan();
}

}  // namespace graphpipe
