#include "search/stage_estimate.h"

#include <algorithm>
#include <numeric>

#include "base/divide_up.h"
#include "plan/stage_memory.h"

namespace graphpipe {
namespace {

// So many tasks are run rather than extrapolated.
constexpr std::int64_t kMostTasks = 4000;

// Of a reduction at least this part comes after the last backward.
constexpr double kReducedAfter = 0.25;

struct Seconds {
  double forward_s = 0;
  double backward_s = 0;  // with the forward again, where the stage recomputes
};

struct Wire {
  std::size_t from = 0;
  std::size_t to = 0;
  bool gradient = false;
  double forward_s = 0;   // how long a whole micro-batch of the producer holds the way out
  double backward_s = 0;  // one of the consumer's, back
  double latency_s = 0;
};

struct StagePart {
  std::int64_t b = 1;
  std::int64_t k = 1;
  std::int64_t in_flight = 1;
  bool backward = true;
  Seconds whole;
  double reduction_s = 0;
  std::vector<std::size_t> in = {};   // wires
  std::vector<std::size_t> out = {};  // wires
};

class Pipeline {
 public:
  Pipeline(const StageEstimator& estimator, const Plan& plan)
      : estimator_(estimator),
        table_(estimator.table()),
        plan_(plan),
        graph_(*table_.problem().graph),
        needs_(estimator.needs_gradient()) {
    std::vector<bool> backward;
    for (const Stage& stage : plan.stages) {
      backward.push_back(std::ranges::any_of(
          stage.ops, [&](OpId op) { return has_backward(graph_.op(op), needs_); }));
    }
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const Stage& stage = plan.stages[s];
      StagePart part{.b = stage.micro_batch,
                     .k = stage.kfkb,
                     .in_flight = stage.in_flight_samples,
                     .backward = backward[s],
                     .whole = seconds(stage, stage.micro_batch, backward[s])};
      parts_.push_back(std::move(part));
    }
    add_reductions();
    for (const StageEdge& edge : plan.edges) add_wire(edge);
  }

  double iteration_s() {
    const std::int64_t all = plan_.mini_batch;
    std::int64_t period = 1;
    std::int64_t most = 1;
    for (const StagePart& part : parts_) {
      period = std::lcm(period, part.k * part.b);
      most = std::max(most, part.in_flight);
    }
    // The end of a mini-batch that is not whole periods stays as it is.
    const std::int64_t ramp = divide_up(2 * most, period) * period;
    const std::int64_t first = ramp + 2 * period + all % period;
    const std::int64_t second = first + std::max(2 * period, ramp / 2 / period * period);
    std::int64_t tasks = 0;
    for (const StagePart& part : parts_) tasks += 2 * divide_up(all, part.b);
    if (second >= all || tasks <= kMostTasks) return run(all);
    const double first_s = run(first);
    const double second_s = run(second);
    return second_s + static_cast<double>(all - second) * (second_s - first_s) /
                          static_cast<double>(second - first);
  }

 private:
  // What the slowest replica's share takes.
  Seconds seconds(const Stage& stage, std::int64_t samples, bool backward) {
    const auto width = static_cast<std::int64_t>(stage.devices.size());
    Seconds most;
    const DeviceId* last = nullptr;
    for (const DeviceId& device : stage.devices) {
      const auto& types = table_.problem().cluster->device_type;
      if (last != nullptr && types[last->index()] == types[device.index()]) continue;
      last = &device;
      const CostTable::Column& column = table_.of_device(device).at(divide_up(samples, width));
      const double overhead_s = table_.problem().costs->task_overhead_s();
      Seconds here{overhead_s, backward ? (stage.recompute ? 2 : 1) * overhead_s : 0};
      for (const OpId op : stage.ops) {
        here.forward_s += column.forward_s[op.index()];
        if (!backward) continue;
        here.backward_s += column.backward_s[op.index()];
        if (stage.recompute) here.backward_s += column.recompute_s[op.index()];
      }
      most.forward_s = std::max(most.forward_s, here.forward_s);
      most.backward_s = std::max(most.backward_s, here.backward_s);
    }
    return most;
  }

  void add_reductions() {
    const Problem& problem = table_.problem();
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      const std::vector<DeviceId>& devices = plan_.stages[s].devices;
      if (devices.size() < 2) continue;
      parts_[s].reduction_s = problem.costs->reduce_s(
          estimator_.gradient_bytes(plan_.stages[s].ops), static_cast<int>(devices.size()),
          slowest_link(*problem.cluster, devices));
    }
  }

  // Replicas of the stage that share the busiest port, where a message leaves its group.
  std::int64_t sharing(const Stage& stage, int level) const {
    const Cluster& cluster = *table_.problem().cluster;
    if (level == 0 || !cluster.levels[static_cast<std::size_t>(level)].shared) return 1;
    std::int64_t most = 1;
    std::int64_t run = 0;
    int group = -1;
    for (const DeviceId device : stage.devices) {  // ascending
      const int own = group_of(cluster, device, level - 1);
      run = own == group ? run + 1 : 1;
      group = own;
      most = std::max(most, run);
    }
    return most;
  }

  void add_wire(const StageEdge& edge) {
    const Cluster& cluster = *table_.problem().cluster;
    const Stage& from = plan_.stage(edge.from);
    const Stage& to = plan_.stage(edge.to);
    int level = 0;
    for (const DeviceId a : {from.devices.front(), from.devices.back()}) {
      for (const DeviceId b : {to.devices.front(), to.devices.back()}) {
        if (a != b) level = std::max(level, level_between(cluster, a, b));
      }
    }
    const Link& link = cluster.levels[static_cast<std::size_t>(level)].link;
    const auto out_width = static_cast<std::int64_t>(from.devices.size());
    const auto in_width = static_cast<std::int64_t>(to.devices.size());
    const CostModel& costs = *table_.problem().costs;
    const double latency_s = costs.transfer_s(0, link);
    const auto seconds = [&](std::int64_t samples, bool backward) {
      const auto bytes = [&](std::int64_t share) {
        return message_bytes(graph_, needs_, edge, share, backward);
      };
      const std::int64_t most =
          std::max(bytes(divide_up(samples, out_width)) * sharing(from, level),
                   bytes(divide_up(samples, in_width)) * sharing(to, level));
      return costs.transfer_s(most, link) - latency_s;
    };
    parts_[edge.from.index()].out.push_back(wires_.size());
    parts_[edge.to.index()].in.push_back(wires_.size());
    wires_.push_back({edge.from.index(), edge.to.index(), edge.gradient,
                      seconds(from.micro_batch, false),
                      edge.gradient ? seconds(to.micro_batch, true) : 0, latency_s});
  }

  // A stage in a run.
  struct Progress {
    std::int64_t tasks = 0;
    std::int64_t warm_up = 0;
    std::int64_t forward = 0;  // done
    std::int64_t backward = 0;
    double free_s = 0;
    double out_free_s = 0;
    double in_free_s = 0;  // of the way in, for values; gradients come the other way
    double back_free_s = 0;
  };

  double run(std::int64_t samples) {
    samples_ = samples;
    std::vector<Progress>& progress = progress_;
    progress.assign(parts_.size(), {});
    wire_forward_s_.assign(wires_.size(), {});
    wire_backward_s_.assign(wires_.size(), {});
    std::int64_t left = 0;
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      const StagePart& part = parts_[s];
      progress[s].tasks = divide_up(samples, part.b);
      const std::int64_t warm_up =
          part.in_flight >= samples || !part.backward ? progress[s].tasks : part.in_flight / part.b;
      progress[s].warm_up = std::min(progress[s].tasks, warm_up);
      left += progress[s].tasks * (part.backward ? 2 : 1);
    }
    while (left > 0) {
      std::int64_t done = 0;
      for (std::size_t s = 0; s < parts_.size(); ++s) done += advance(s);
      for (std::size_t s = parts_.size(); s-- > 0;) done += advance(s);
      if (done == 0) return 0;  // it stalls: the verifier will say so
      left -= done;
    }
    double end_s = 0;
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      // Reductions begin within the last backward; what is ready at its end is left in any case.
      const StagePart& part = parts_[s];
      const double after_s =
          std::max(kReducedAfter * part.reduction_s, part.reduction_s - part.whole.backward_s);
      end_s = std::max(end_s, progress[s].free_s + after_s);
    }
    return end_s;
  }

  // Whether the stage's next task is a forward.
  static bool forward_next(const Progress& p, const StagePart& part) {
    if (p.forward == p.tasks) return false;
    if (!part.backward || p.forward < p.warm_up) return true;
    // Rounds of k backwards and k forwards.
    const std::int64_t rounds = p.forward - p.warm_up;
    return p.backward >= std::min((rounds / part.k + 1) * part.k, p.tasks);
  }

  std::int64_t advance(std::size_t s) {
    Progress& p = progress_[s];
    const StagePart& part = parts_[s];
    std::int64_t done = 0;
    while (p.forward < p.tasks || (part.backward && p.backward < p.tasks)) {
      const bool forward = forward_next(p, part);
      double ready_s = 0;
      if (!arrived(s, forward ? p.forward : p.backward, forward, ready_s)) break;
      const std::int64_t index = forward ? p.forward : p.backward;
      const std::int64_t first = index * part.b;
      const std::int64_t size = std::min(part.b, samples_ - first);
      const Seconds time =
          size == part.b ? part.whole : seconds(plan_.stages[s], size, part.backward);
      p.free_s = std::max(p.free_s, ready_s) + (forward ? time.forward_s : time.backward_s);
      send(s, forward, static_cast<double>(size) / static_cast<double>(part.b));
      ++(forward ? p.forward : p.backward);
      ++done;
    }
    return done;
  }

  // When all that the task reads is there; false: not known yet.
  bool arrived(std::size_t s, std::int64_t index, bool forward, double& ready_s) {
    Progress& p = progress_[s];
    const StagePart& part = parts_[s];
    const std::int64_t end = std::min((index + 1) * part.b, samples_);
    double last_s = 0;
    double carried_s = 0;
    for (const std::size_t w : forward ? part.in : part.out) {
      const Wire& wire = wires_[w];
      if (!forward && !wire.gradient) continue;
      const std::int64_t b = parts_[forward ? wire.from : wire.to].b;
      const std::vector<double>& arrivals = forward ? wire_forward_s_[w] : wire_backward_s_[w];
      const auto last = static_cast<std::size_t>(divide_up(end, b) - 1);
      if (last >= arrivals.size()) return false;
      last_s = std::max(last_s, arrivals[last]);
      carried_s += (forward ? wire.forward_s : wire.backward_s) * static_cast<double>(part.b) /
                   static_cast<double>(b);
    }
    double& free_s = forward ? p.in_free_s : p.back_free_s;
    free_s = std::max(last_s, free_s + carried_s);
    ready_s = free_s;
    return true;
  }

  void send(std::size_t s, bool forward, double share) {
    Progress& p = progress_[s];
    for (const std::size_t w : forward ? parts_[s].out : parts_[s].in) {
      const Wire& wire = wires_[w];
      if (!forward && !wire.gradient) continue;
      p.out_free_s =
          std::max(p.out_free_s, p.free_s) + share * (forward ? wire.forward_s : wire.backward_s);
      (forward ? wire_forward_s_ : wire_backward_s_)[w].push_back(p.out_free_s + wire.latency_s);
    }
  }

  const StageEstimator& estimator_;
  CostTable& table_;
  const Plan& plan_;
  const Graph& graph_;
  const std::vector<bool>& needs_;
  std::vector<StagePart> parts_;
  std::vector<Wire> wires_;
  std::int64_t samples_ = 0;
  std::vector<Progress> progress_;
  std::vector<std::vector<double>> wire_forward_s_;  // [wire][producer's micro-batch]: arrival
  std::vector<std::vector<double>> wire_backward_s_;
};

}  // namespace

StageEstimator::StageEstimator(CostTable& table)
    : table_(table), needs_(graphpipe::needs_gradient(*table.problem().graph)) {
  const Graph& graph = *table.problem().graph;
  std::vector<bool> known(graph.params.size());
  for (const Operator& op : graph.ops) {
    std::int64_t bytes = 0;
    for (const ParamId param : op.params) {
      shared_params_ = shared_params_ || known[param.index()];
      known[param.index()] = true;
      if (graph.param(param).trainable) bytes += param_bytes(graph.param(param));
    }
    gradient_bytes_.push_back(bytes);
  }
}

std::int64_t StageEstimator::gradient_bytes(const std::vector<OpId>& ops) const {
  const Graph& graph = *table_.problem().graph;
  std::int64_t bytes = 0;
  if (!shared_params_) {
    for (const OpId op : ops) bytes += gradient_bytes_[op.index()];
    return bytes;
  }
  for (const ParamId param : stage_params(graph, ops)) {
    if (graph.param(param).trainable) bytes += param_bytes(graph.param(param));
  }
  return bytes;
}

double StageEstimator::iteration_s(const Plan& plan) const {
  if (plan.schedule != ScheduleKind::k1F1B || shares_devices(plan)) return 0;
  const bool split = std::ranges::all_of(
      plan.stages, [](const Stage& stage) { return stage.replication == Replication::kSplit; });
  return split ? Pipeline(*this, plan).iteration_s() : 0;
}

}  // namespace graphpipe
