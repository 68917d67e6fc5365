// Departs from the papers: PipeDream profiles one size and trains asynchronously; here it has every
// micro-batch size to choose from, plans are synchronous, and the simulator picks among its
// variants (formulas, with and without levels of bandwidth, memory limits). Its graphs are linear:
// runs of neighbouring operators, none above a quarter of a device's share; where a graph
// has few downsets these are its states too.

#include "planners/pipedream/pipedream.h"

#include <algorithm>
#include <numeric>

#include "planners/blocks.h"
#include "planners/chain_plans.h"
#include "planners/pipedream/states.h"

namespace graphpipe {
namespace {

constexpr double kPipedreamRunsPerDevice = 4;
constexpr std::size_t kMostChainDownsets = 400;
constexpr int kMemoryLimits = 4;  // the device's memory, its half, ...

class Pipedream {
 public:
  Pipedream(const Problem& problem, const Budget& budget)
      : problem_(problem),
        budget_(budget),
        plans_(problem, "pipedream"),
        param_bytes_(op_param_bytes(*problem.graph)) {}

  PlanResult plan() {
    const std::vector<std::int64_t> sizes = micro_batch_sizes(problem_);
    const std::vector<double> seconds = op_seconds(plans_.table(), sizes[sizes.size() / 2]);
    const double share = device_share_s(problem_, seconds);
    const Blocks runs = run_blocks(*problem_.graph, seconds, share / kPipedreamRunsPerDevice);
    const Blocks blocks =
        coarse_blocks(*problem_.graph, seconds, share, kMostChainDownsets, budget_.should_stop);
    const Progress progress = begin_phase(budget_.progress, "partitions");
    for (std::size_t i = 0; i < sizes.size() && !stopped(); ++i) {
      tell(part_of(progress, i, sizes.size()), 0);
      propose(sizes[i], runs, blocks);
    }
    return stopped()
               ? plans_.result(budget_, PlanStatus::kGaveUp, "stopped before a plan was found")
               : plans_.result(budget_);
  }

 private:
  bool stopped() const { return budget_.should_stop && budget_.should_stop(); }

  // From the inside out; one, of the worst link, where the devices do not fill groups.
  std::vector<std::vector<PipedreamLevel>> levels() const {
    const Cluster& cluster = *problem_.cluster;
    const int devices = cluster.device_count();
    std::vector<std::vector<PipedreamLevel>> all = {
        {{devices, worst_link(cluster).bandwidth_bytes_per_s}}};
    const int inner = cluster.levels.front().group_size;
    if (devices > inner && inner > 1 && devices % inner == 0) {
      all.push_back({{inner, cluster.levels.front().link.bandwidth_bytes_per_s},
                     {devices / inner, worst_link(cluster).bandwidth_bytes_per_s}});
    }
    return all;
  }

  void propose(std::int64_t b, const Blocks& runs, const Blocks& blocks) {
    const std::vector<double> seconds = op_seconds(plans_.table(), b);
    std::vector<int> order(runs.ops.size());
    std::iota(order.begin(), order.end(), 0);
    propose(b, runs, prefix_states(block_ops(runs, seconds, b), runs.successors, order), true);
    const int source = only_source(blocks);
    if (source < 0) return;
    const PipedreamStateSpace space =
        antichain_states(block_ops(blocks, seconds, b), blocks.successors, source,
                         kMostChainDownsets, budget_.should_stop);
    if (space.complete) propose(b, blocks, space, false);
  }

  // The only source; -1: there are several, and antichains from one would miss some states.
  static int only_source(const Blocks& blocks) {
    std::vector<bool> source(blocks.ops.size(), true);
    for (const std::vector<int>& successors : blocks.successors) {
      for (const int s : successors) source[static_cast<std::size_t>(s)] = false;
    }
    if (std::ranges::count(source, true) != 1) return -1;
    return static_cast<int>(std::ranges::find(source, true) - source.begin());
  }

  std::vector<PipedreamOp> block_ops(const Blocks& blocks, const std::vector<double>& seconds,
                                     std::int64_t b) const {
    std::vector<PipedreamOp> ops(blocks.ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const OpId op : blocks.ops[i]) {
        ops[i].compute_s += seconds[op.index()];
        ops[i].parameter_bytes += param_bytes_[op.index()];
      }
    }
    for (const BlockTensor& tensor : blocks.tensors) {
      ops[static_cast<std::size_t>(tensor.producer)].activation_bytes +=
          static_cast<double>(tensor_bytes(problem_.graph->tensor(tensor.tensor), b));
    }
    return ops;
  }

  void propose(std::int64_t b, const Blocks& blocks, const PipedreamStateSpace& space,
               bool levelled) {
    const bool straight = !problem_.options.data_parallel;
    for (const std::vector<PipedreamLevel>& level : levels()) {
      if (level.size() > 1 && (!levelled || straight)) continue;
      for (const PipedreamVariant variant : {PipedreamVariant::kPaper, PipedreamVariant::kCode}) {
        double memory_bytes = 0;
        for (int limits = 0; limits <= kMemoryLimits && !stopped(); ++limits) {
          const PipedreamPartition partition =
              partition_pipedream(space.states, level,
                                  {.variant = variant,
                                   .straight = straight,
                                   .memory_bytes = memory_bytes,
                                   .should_stop = budget_.should_stop});
          if (partition.found && plans_.add(stages(blocks, space, partition), b)) break;
          memory_bytes = limits == 0 ? static_cast<double>(plans_.table().device().memory_bytes)
                                     : memory_bytes / 2;
        }
      }
    }
  }

  static std::vector<ChainStage> stages(const Blocks& blocks, const PipedreamStateSpace& space,
                                        const PipedreamPartition& partition) {
    std::vector<ChainStage> chain;
    for (const PipedreamStage& stage : partition.stages) {
      std::vector<int> members;
      const std::vector<int> none;
      std::ranges::set_difference(
          space.ops[static_cast<std::size_t>(stage.last)],
          stage.first > 0 ? space.ops[static_cast<std::size_t>(stage.first - 1)] : none,
          std::back_inserter(members));
      chain.push_back(chain_stage(blocks, members, stage.replicas));
    }
    return chain;
  }

  const Problem& problem_;
  const Budget& budget_;
  ChainPlans plans_;
  std::vector<double> param_bytes_;
};

}  // namespace

PlanResult plan_pipedream(const Problem& problem, const Budget& budget) {
  if (problem.graph->ops.empty()) {
    return {PlanStatus::kInfeasible, "the graph has no operators", {}, 0};
  }
  return Pipedream(problem, budget).plan();
}

}  // namespace graphpipe
