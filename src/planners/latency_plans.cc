#include "planners/latency_plans.h"

#include <algorithm>
#include <map>

#include "planners/blocks.h"
#include "planners/chain_plans.h"
#include "planners/latency_chain.h"

namespace graphpipe {
namespace {

constexpr double kRunsPerDevice = 2;
constexpr int kBounds = 24;
constexpr std::size_t kProposed = 6;  // of each micro-batch size

class Planning {
 public:
  Planning(const Problem& problem, const Budget& budget, const LatencyPlanner& planner)
      : problem_(problem),
        budget_(budget),
        planner_(planner),
        plans_(problem, planner.name),
        static_bytes_(op_static_bytes(problem)),
        param_bytes_(op_param_bytes(*problem.graph)),
        memory_bytes_(static_cast<double>(plans_.table().device().memory_bytes)) {}

  PlanResult plan() {
    const std::vector<std::int64_t> sizes = micro_batch_sizes(problem_);
    const Progress progress = begin_phase(budget_.progress, "partitions");
    for (std::size_t i = 0; i < sizes.size() && !stopped(); ++i) {
      progress_ = part_of(progress, i, sizes.size());
      propose(sizes[i]);
    }
    return stopped()
               ? plans_.result(budget_, PlanStatus::kGaveUp, "stopped before a plan was found")
               : plans_.result(budget_);
  }

 private:
  bool stopped() const { return budget_.should_stop && budget_.should_stop(); }

  void propose(std::int64_t b) {
    const std::vector<double> seconds = op_seconds(plans_.table(), b);
    const double share = device_share_s(problem_, seconds);
    const Blocks runs = run_blocks(*problem_.graph, seconds, share / kRunsPerDevice);
    LatencyChain chain;
    chain.blocks = static_cast<int>(runs.ops.size());
    chain.devices = problem_.cluster->device_count();
    chain.micro_batches = (problem_.mini_batch + b - 1) / b;
    for (const int w : planner_.widths) {
      if (w <= b) chain.widths.push_back(w);
    }
    chain.all_devices = planner_.all_devices;
    chain.should_stop = budget_.should_stop;
    chain.progress = progress_;
    sum_runs(runs, chain.widths, b);
    chain.stage = [&](int i, int j, int width) { return stage(i, j, width); };
    std::size_t proposed = 0;
    for (const LatencyPartition& partition : shortest_chains(chain, kBounds)) {
      if (proposed == kProposed) break;
      if (plans_.add(stages(runs, partition), b)) ++proposed;
    }
  }

  // Prefix sums over the runs, and bytes over each cut.
  void sum_runs(const Blocks& runs, const std::vector<int>& widths, std::int64_t b) {
    const std::size_t n = runs.ops.size();
    forward_s_.clear();
    backward_s_.clear();
    const double slowdown = compute_slowdown(*problem_.cluster);
    for (const int w : widths) {
      const CostTable::Column& column = plans_.table().at((b + w - 1) / w);
      std::vector<double>& forward = forward_s_[w];
      std::vector<double>& backward = backward_s_[w];
      forward.assign(n + 1, 0);
      backward.assign(n + 1, 0);
      for (std::size_t i = 0; i < n; ++i) {
        forward[i + 1] = forward[i];
        backward[i + 1] = backward[i];
        for (const OpId op : runs.ops[i]) {
          forward[i + 1] += slowdown * column.forward_s[op.index()];
          backward[i + 1] += slowdown * column.backward_s[op.index()];
        }
      }
    }
    params_.assign(n + 1, 0);
    static_.assign(n + 1, 0);
    for (std::size_t i = 0; i < n; ++i) {
      params_[i + 1] = params_[i];
      static_[i + 1] = static_[i];
      for (const OpId op : runs.ops[i]) {
        params_[i + 1] += param_bytes_[op.index()];
        static_[i + 1] += static_bytes_[op.index()];
      }
    }
    cut_bytes_.assign(n + 1, 0);
    for (const BlockTensor& tensor : runs.tensors) {
      const auto bytes =
          static_cast<double>(tensor_bytes(problem_.graph->tensor(tensor.tensor), b)) *
          (tensor.gradient ? 2 : 1);
      for (int cut = tensor.producer + 1; cut <= tensor.consumers.back(); ++cut) {
        cut_bytes_[static_cast<std::size_t>(cut)] += bytes;
      }
    }
  }

  LatencyChain::Stage stage(int first, int end, int width) const {
    const auto i = static_cast<std::size_t>(first);
    const auto j = static_cast<std::size_t>(end);
    const Link& link = worst_link(*problem_.cluster);
    LatencyChain::Stage stage;
    stage.forward_s = forward_s_.at(width)[j] - forward_s_.at(width)[i];
    stage.backward_s = backward_s_.at(width)[j] - backward_s_.at(width)[i];
    stage.transfer_s = cut_bytes_[i] / width / link.bandwidth_bytes_per_s;
    stage.reduce_s =
        problem_.costs->reduce_s(static_cast<std::int64_t>(params_[j] - params_[i]), width, link);
    // Activations are judged with the whole plan.
    stage.fits = static_[j] - static_[i] <= memory_bytes_;
    return stage;
  }

  static std::vector<ChainStage> stages(const Blocks& runs, const LatencyPartition& partition) {
    std::vector<ChainStage> chain;
    int begin = 0;
    for (const LatencyCut& cut : partition.stages) {
      std::vector<int> members;
      for (; begin < cut.end; ++begin) members.push_back(begin);
      chain.push_back(chain_stage(runs, members, cut.width));
    }
    return chain;
  }

  const Problem& problem_;
  const Budget& budget_;
  const LatencyPlanner& planner_;
  ChainPlans plans_;
  std::vector<double> static_bytes_;  // by operator
  std::vector<double> param_bytes_;
  double memory_bytes_;
  Progress progress_;                             // of the size at hand
  std::map<int, std::vector<double>> forward_s_;  // by width; of runs [0, i)
  std::map<int, std::vector<double>> backward_s_;
  std::vector<double> params_;
  std::vector<double> static_;
  std::vector<double> cut_bytes_;  // [i]: of tensors that pass between runs i - 1 and i, both ways
};

}  // namespace

PlanResult plan_latency_chain(const Problem& problem, const Budget& budget,
                              const LatencyPlanner& planner) {
  if (problem.graph->ops.empty()) {
    return {PlanStatus::kInfeasible, "the graph has no operators", {}, 0};
  }
  return Planning(problem, budget, planner).plan();
}

}  // namespace graphpipe
