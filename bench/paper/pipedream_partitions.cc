// PipeDream's partitions of one of its profiles, and the two-stage one that sends the least: how
// long a mini-batch of the profile takes at most in the steady state of asynchronous 1F1B by the
// partition's own formula, and the best plan of the partition under synchronous 1F1B, judged by
// the simulator. A line a partition, fields parted by tabs:
//
//   pipedream_partitions PROFILE GRAPH CLUSTER MINI_BATCH FOLDER
//   code  7-1  0.0123  3  FOLDER/code.plan.json      (replicas, seconds, stages; "-": no plan fits)
//
// GRAPH is the profile as this program's graph, of any number of samples a mini-batch of the
// profile: costs are linear. MINI_BATCH is in its samples.
//
// Symbols as in planners/pipedream/partition.h: T compute, w parameters, a cut, n machines, B
// bandwidth.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cluster/cluster_json.h"
#include "cost/analytic.h"
#include "models/models.h"
#include "plan/plan_json.h"
#include "planners/chain_plans.h"
#include "rivals/rival_inputs.h"
#include "search/search.h"

namespace graphpipe {
namespace {

// The paper adds what a port sends and receives; ours do both at once, as links of the simulator.
constexpr double kBothWays = 2;

constexpr std::size_t kMostNodes = 200;  // with more, operators in a row are one

// Bytes that the machines send for a mini-batch: the cut's tensors and gradients, and a ring's
// share of the reduction that replicas make once for a mini-batch each.
double sent_bytes(double parameter_bytes, int replicas) {
  return 2.0 * (replicas - 1) / replicas * parameter_bytes;
}

class Partitions {
 public:
  Partitions(const PipedreamProfile& profile, const Graph& graph, const Cluster& cluster,
             std::int64_t mini_batch, std::string folder)
      : profile_(profile),
        space_(pipedream_states(profile)),
        states_(space_.states),
        machines_(cluster.device_count()),
        bandwidth_(worst_link(cluster).bandwidth_bytes_per_s),
        folder_(std::move(folder)) {
    for (std::size_t i = 0; i < graph.op_count(); ++i) op_named_[graph.ops[i].name] = OpId(i);
    problem_.graph = &graph;
    problem_.cluster = &cluster;
    problem_.costs = &costs_;
    problem_.mini_batch = mini_batch;
  }

  Problem& problem() { return problem_; }

  void print_all() const {
    fmt::print("data-parallel\t{}\t{}\t1\t-\n", machines_, data_parallel_s(bandwidth_));
    const double both_ways = kBothWays * bandwidth_;
    print("paper", pipedream({.variant = PipedreamVariant::kPaper}, both_ways));
    print("code", pipedream({.variant = PipedreamVariant::kCode}, bandwidth_));
    print("straight",
          pipedream({.variant = PipedreamVariant::kPaper, .straight = true}, both_ways));
    print("least-bytes", least_bytes());
  }

 private:
  PipedreamPartition pipedream(const PipedreamOptions& options,
                               double bandwidth_bytes_per_s) const {
    return partition_pipedream(states_, {{machines_, bandwidth_bytes_per_s}}, options);
  }

  double data_parallel_s(double bandwidth_bytes_per_s) const {
    const int n = machines_;
    const double sync_s =
        4 * (n - 1) * states_.parameter_bytes.back() / (bandwidth_bytes_per_s * n);
    return (states_.compute_s.back() + sync_s) / n;
  }

  // Of all machines in two stages, of those that are no slower than data parallelism that reduces
  // after it computes: else one machine would do nearly all, and the others hold a layer of few
  // weights.
  PipedreamPartition least_bytes() const {
    PipedreamPartition best;
    double least = std::numeric_limits<double>::infinity();
    const int last = static_cast<int>(states_.count()) - 1;
    const double compute_s = states_.compute_s.back();
    const double parameter_bytes = states_.parameter_bytes.back();
    const double slowest_s = data_parallel_s(kBothWays * bandwidth_);
    for (int k = 0; k < last; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const double first_w = states_.parameter_bytes[at];
      const double cut = states_.cut_bytes[at];
      for (int m = 1; m < machines_; ++m) {
        const int rest = machines_ - m;
        const double sent =
            2 * cut + sent_bytes(first_w, m) + sent_bytes(parameter_bytes - first_w, rest);
        const double bottleneck_s =
            std::max({stage_s(states_.compute_s[at], first_w, m),
                      stage_s(compute_s - states_.compute_s[at], parameter_bytes - first_w, rest),
                      2 * cut / (kBothWays * bandwidth_ * std::min(m, rest))});
        if (sent >= least || bottleneck_s > slowest_s) continue;
        least = sent;
        best = {true, bottleneck_s, {{0, k, m}, {k + 1, last, rest}}, 0};
      }
    }
    return best;
  }

  double stage_s(double compute_s, double parameter_bytes, int m) const {
    return std::max(compute_s, 4 * (m - 1) * parameter_bytes / (kBothWays * bandwidth_ * m)) / m;
  }

  std::vector<ChainStage> chain(const PipedreamPartition& partition) const {
    std::vector<ChainStage> stages;
    for (const PipedreamStage& from : partition.stages) {
      std::vector<int> members;
      const std::vector<int> none;
      std::ranges::set_difference(
          space_.ops[static_cast<std::size_t>(from.last)],
          from.first > 0 ? space_.ops[static_cast<std::size_t>(from.first - 1)] : none,
          std::back_inserter(members));
      ChainStage& stage = stages.emplace_back(ChainStage{{}, from.replicas});
      for (const int node : members) {
        for (const std::string& id :
             split_text(profile_.nodes[static_cast<std::size_t>(node)].id, ','))
          stage.ops.push_back(op_named_.at(id));
      }
      std::ranges::sort(stage.ops);
    }
    return stages;
  }

  // The fastest of all micro-batch sizes.
  Plan best_plan(const PipedreamPartition& partition) const {
    ChainPlans plans(problem_, "pipedream");
    for (const std::int64_t b : micro_batch_sizes(problem_)) plans.add(chain(partition), b);
    Plan best;
    for (Plan& plan : plans.result({}).candidates) {
      if (!judge_plan(plan, problem_).empty()) continue;
      if (best.stages.empty() || plan.estimate.iteration_s < best.estimate.iteration_s)
        best = std::move(plan);
    }
    return best;
  }

  void print(const std::string& name, const PipedreamPartition& partition) const {
    std::string replicas;
    for (const PipedreamStage& stage : partition.stages)
      replicas += fmt::format("{}{}", replicas.empty() ? "" : "-", stage.replicas);
    const Plan plan = partition.found ? best_plan(partition) : Plan();
    std::string path = "-";
    if (!plan.stages.empty()) {
      path = fmt::format("{}/{}.plan.json", folder_, name);
      write_file(path, to_json(plan, *problem_.graph));
    }
    fmt::print("{}\t{}\t{}\t{}\t{}\n", name, replicas, partition.bottleneck_s,
               partition.stages.size(), path);
  }

  const PipedreamProfile& profile_;
  PipedreamStateSpace space_;
  const PipedreamStates& states_;
  int machines_;
  double bandwidth_;
  std::string folder_;
  AnalyticCosts costs_;
  Problem problem_;
  std::map<std::string, OpId> op_named_;
};

void run(std::span<char*> arguments) {
  const std::string path = arguments[0];
  PipedreamProfile profile = recorded_pipedream_profile(path);
  if (profile.nodes.size() > kMostNodes) profile = recorded_pipedream_profile(path, true);
  const Graph graph = load_model(arguments[1]);
  const Cluster cluster = parse_cluster(read_file(arguments[2]), arguments[2]);
  Partitions partitions(profile, graph, cluster, parse_integer(arguments[3], "MINI_BATCH"),
                        arguments[4]);
  partitions.problem().model_argument = arguments[1];
  partitions.problem().cluster_argument = arguments[2];
  partitions.print_all();
}

}  // namespace
}  // namespace graphpipe

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "usage: pipedream_partitions PROFILE GRAPH CLUSTER MINI_BATCH FOLDER\n");
    return 2;
  }
  try {
    graphpipe::run(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  } catch (const graphpipe::InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
  return 0;
}
