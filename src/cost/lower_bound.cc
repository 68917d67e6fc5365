// The terms of docs/lower_bound.md, with its symbols:
//
//   B  samples of the mini-batch;  C  tasks that can compute at the same time
//   c(o)  least seconds of operator o for a sample, in any task
//   head(o)  least time before o's first forward; tail(o) after its last backward
//   work     the least sum over all operators, over C: of tasks, or of forwards and reductions

#include "cost/lower_bound.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/numbers.h"
#include "cost/operator_bounds.h"

namespace graphpipe {
namespace {

// Sums of many times differ in their last digits, and the simulator counts in small ticks.
constexpr double kRounding = 1 - 1e-9;

// Each weight gives a bound; the best is taken.
constexpr std::array kWorkWeights = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

// Tasks that can compute at once: devices, or the cores that those of a node share.
int tasks_at_once(const Cluster& cluster) {
  const int devices = cluster.device_count();
  if (cluster.cores_per_node <= 0) return devices;
  const int per_node = cluster.levels.front().group_size;
  int total = 0;
  for (int first = 0; first < devices; first += per_node) {
    total += std::min({per_node, devices - first, cluster.cores_per_node});
  }
  return total;
}

class Bound {
 public:
  Bound(const Graph& graph, const Cluster& cluster, const CostModel& costs, const BoundRules& rules)
      : graph_(graph),
        batch_(static_cast<double>(rules.mini_batch)),
        at_once_(tasks_at_once(cluster)),
        own_cores_(at_once_ == cluster.device_count()),
        width_(std::min(rules.max_width, at_once_)),
        needs_(needs_gradient(graph)),
        bounds_(graph, cluster, costs, rules) {}

  LowerBound largest() {
    const auto [slowest_s, path_s] = slowest_and_path();
    LowerBound bound{work_s(Work::kTasks), "work over devices"};
    const auto consider = [&](double seconds, const char* why) {
      if (seconds > bound.seconds) bound = {seconds, why};
    };
    consider(slowest_s, "slowest operator");
    if (path_s >= bound.seconds) bound = {path_s, "critical path"};
    consider_path(Work::kTasks, bound);
    // Where ranks share cores, another rank may compute during a reduction.
    if (own_cores_) {
      consider(work_s(Work::kForwardsAndReductions), "forwards and reductions over devices");
      consider_path(Work::kForwardsAndReductions, bound);
    }
    bound.seconds *= kRounding;
    return bound;
  }

 private:
  // What is counted of an operator's work.
  enum class Work { kTasks, kForwardsAndReductions };

  // With work counted by `weight` and the operator's place on a path by the rest.
  struct Weighted {
    double off_path_s = kInfinity;
    double forward_s = kInfinity;  // on the way in alone
    double both_s = kInfinity;     // on the way in and back
  };

  double work_s(Work work) const {
    double seconds = 0;
    for (std::size_t o = 0; o < graph_.op_count(); ++o)
      seconds += known_weighted(OpId(o), work, 1).off_path_s;
    return seconds;
  }

  void consider_path(Work work, LowerBound& bound) const {
    for (const double weight : kWorkWeights) {
      // Where it gains nothing but digits, the plain terms say more.
      const double both_s = work_and_path_s(work, weight);
      if (both_s > bound.seconds * (1 + 1e-6)) bound = {both_s, "work and path"};
    }
  }

  double work_s(OpId op, Work work, std::size_t size) const {
    const OperatorTimes& times = bounds_.of(op);
    if (work == Work::kTasks) return batch_ * times.per_sample_s[size];
    return batch_ * times.forward_per_sample_s[size] +
           bounds_.reduce_work_s(op, bounds_.sizes()[size].least_width);
  }

  Weighted weighted(OpId op, Work work, double weight) const {
    const OperatorTimes& times = bounds_.of(op);
    Weighted least;
    for (std::size_t i = 0; i < bounds_.sizes().size(); ++i) {
      const double share_s = work_s(op, work, i) * weight / at_once_;
      const double in_s = (1 - weight) * times.forward_s[i];
      least.off_path_s = std::min(least.off_path_s, share_s);
      least.forward_s = std::min(least.forward_s, share_s + in_s);
      least.both_s = std::min(least.both_s, share_s + in_s + (1 - weight) * times.back_s[i]);
    }
    return least;
  }

  std::pair<double, double> slowest_and_path() const {
    double slowest_s = 0;
    double path_s = 0;
    std::vector<double> head(graph_.op_count(), 0);
    std::vector<double> tail(graph_.op_count(), 0);
    for (std::size_t o = 0; o < graph_.op_count(); ++o) {
      const OperatorTimes& own = bounds_.of(OpId(o));
      for (const TensorId in : graph_.ops[o].inputs) {
        const OpId before = graph_.tensor(in).producer;
        if (!before.valid()) continue;
        const OperatorTimes& times = bounds_.of(before);
        const std::size_t p = before.index();
        head[o] = std::max(head[o], head[p] + times.least_forward_s);
        if (own.backward && needs_[in.index()]) {
          tail[o] = std::max(tail[o], tail[p] + times.least_back_s);
        }
      }
      path_s = std::max(path_s, head[o] + own.least_forward_s + own.least_back_s + tail[o]);
      slowest_s = std::max(slowest_s, slowest_s_of(OpId(o), head[o], tail[o], slowest_s));
    }
    return {slowest_s, path_s};
  }

  // The least over the operator's widths; anything below `so_far` where it cannot exceed that.
  double slowest_s_of(OpId op, double head_s, double tail_s, double so_far) const {
    if (!own_cores_) {
      return head_s + batch_ * bounds_.of(op).least_per_sample_s / width_ + tail_s;
    }
    const auto at_width = [&](int d) {
      return head_s + bounds_.busiest_s(op, d) + std::max(tail_s, bounds_.reduce_s(op, d));
    };
    double least_s = std::min(at_width(1), at_width(width_));
    for (int d = 2; d < width_ && least_s > so_far; ++d) least_s = std::min(least_s, at_width(d));
    return least_s;
  }

  double work_and_path_s(Work work, double weight) const {
    double all_s = 0;
    double longest_s = 0;
    // The longest path that ends here: the way in alone, and with a way back from here.
    std::vector<double> in(graph_.op_count(), 0);
    std::vector<double> both(graph_.op_count(), 0);
    for (std::size_t o = 0; o < graph_.op_count(); ++o) {
      const Weighted own = known_weighted(OpId(o), work, weight);
      const bool backward = bounds_.of(OpId(o)).backward;
      double before_in = 0;
      double before_both = 0;
      for (const TensorId tensor : graph_.ops[o].inputs) {
        const OpId producer = graph_.tensor(tensor).producer;
        if (!producer.valid()) continue;
        const std::size_t p = producer.index();
        before_in = std::max(before_in, in[p]);
        before_both = std::max(before_both, in[p]);
        if (needs_[tensor.index()]) before_both = std::max(before_both, both[p]);
      }
      in[o] = before_in + own.forward_s - own.off_path_s;
      both[o] = backward ? before_both + own.both_s - own.off_path_s : 0;
      longest_s = std::max({longest_s, in[o], both[o]});
      all_s += own.off_path_s;
    }
    return all_s + longest_s;
  }

  Weighted known_weighted(OpId op, Work work, double weight) const {
    if (std::pair(work, weight) != known_for_) known_.clear();
    known_for_ = {work, weight};
    const std::pair key{&bounds_.of(op), bounds_.summed_bytes(op)};
    const auto [at, fresh] = known_.try_emplace(key);
    if (fresh) at->second = weighted(op, work, weight);
    return at->second;
  }

  const Graph& graph_;
  double batch_;
  int at_once_;
  bool own_cores_;
  int width_;
  std::vector<bool> needs_;
  OperatorBounds bounds_;
  // Of operators that are equal, at one weight.
  mutable std::map<std::pair<const OperatorTimes*, std::int64_t>, Weighted> known_;
  mutable std::pair<Work, double> known_for_{Work::kTasks, -1};
};

}  // namespace

LowerBound iteration_lower_bound(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                 const BoundRules& rules) {
  GP_CHECK(!rules.micro_batches.empty() && rules.mini_batch > 0 && rules.max_width > 0,
           "{} micro-batch sizes, mini-batch {}, width {}", rules.micro_batches.size(),
           rules.mini_batch, rules.max_width);
  return Bound(graph, cluster, costs, rules).largest();
}

}  // namespace graphpipe
