#include "schedule/list_order.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

#include "plan/stage_memory.h"
#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/replica_work.h"

namespace graphpipe {
namespace {

// Which of several stages goes first, where tasks of both could start.
struct Rule {
  bool last_stage_forward = false;  // the last of the plan; else the first
  bool oldest_backward = false;     // the one with the smallest samples; else the last stage
};
constexpr Rule kRules[] = {{false, false}, {false, true}, {true, false}, {true, true}};

constexpr int kForwardPass = 0;
constexpr int kBackwardPass = 1;  // or its input half
constexpr int kWeightPass = 2;

// How far a replica is: tasks begun and done, by pass.
struct Progress {
  ReplicaWork work;
  std::array<std::int64_t, 3> begun = {0, 0, 0};
  std::array<std::int64_t, 3> done = {0, 0, 0};

  int last_pass() const { return work.halves ? kWeightPass : kBackwardPass; }
  std::int64_t in_flight() const {
    return work.backward ? begun[kForwardPass] - done[static_cast<std::size_t>(last_pass())] : 0;
  }
};

class ListScheduler {
 public:
  ListScheduler(const Plan& plan, const std::vector<bool>& backward, std::int64_t samples,
                Rule rule, bool within_windows)
      : plan_(plan),
        samples_(samples),
        rule_(rule),
        within_windows_(within_windows),
        edges_(stage_edges(plan)),
        edge_backward_(edges_with_backward(plan, backward)),
        gpipe_(plan.schedule == ScheduleKind::kGpipe) {
    for (const StageEdge& edge : plan.edges) windows_.push_back(channel_window_samples(plan, edge));
    replicas_.resize(plan.stages.size());
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      for (std::size_t d = 0; d < plan.stages[s].devices.size(); ++d) {
        const Placement placed{StageId(s), static_cast<int>(d)};
        replicas_[s].push_back({replica_work(plan, placed, backward[s], samples)});
      }
    }
    placed_ = placements(plan);
    programs_.resize(placed_.size());
    running_.resize(placed_.size());
  }

  // Whether every task could start.
  bool run() {
    while (true) {
      for (std::size_t r = 0; r < placed_.size(); ++r) {
        if (!running_[r]) start_next(r);
      }
      if (ends_.empty()) break;
      now_ = ends_.begin()->first;
      while (!ends_.empty() && ends_.begin()->first == now_) finish_first();
    }
    return add_what_is_left();
  }
  std::int64_t end() const { return now_; }
  std::vector<std::vector<Action>> take_programs() { return std::move(programs_); }

 private:
  struct Task {
    Placement placed;
    int pass = kForwardPass;
    std::int64_t index = 0;
  };

  Progress& progress(Placement placed) {
    return replicas_[placed.stage.index()][static_cast<std::size_t>(placed.replica)];
  }
  SampleRange samples_of(const ReplicaWork& work, std::int64_t task) const {
    return replica_samples(plan_.stage(work.stage), work.replica, work.micro_batch(task), samples_);
  }

  // Whether all tasks of the stage that hold samples of `x` are done with the pass.
  bool is_done(StageId stage, int pass, SampleRange x) {
    const std::vector<OwnedPart> parts = owned_parts(plan_.stage(stage), x, samples_);
    return std::ranges::all_of(parts, [&](const OwnedPart& part) {
      const Progress& at = progress({stage, part.replica});
      const std::int64_t task = (part.micro_batch - at.work.first) / at.work.stride;
      return task < at.done[static_cast<std::size_t>(pass)];
    });
  }

  // Whether the pass over samples that end at `hi` is within the window of what the stage at
  // the other end has come to, on each of its replicas.
  bool is_within(EdgeId edge, StageId other, int pass, std::int64_t hi) {
    if (!within_windows_) return true;
    const std::int64_t window = windows_[edge.index()];
    return std::ranges::all_of(replicas_[other.index()], [&](const Progress& at) {
      const std::int64_t done = at.done[static_cast<std::size_t>(pass)];
      if (done == at.work.tasks) return true;
      return hi <= samples_of(at.work, done).lo + window;
    });
  }

  bool may_start_forward(const Progress& at) {
    const std::int64_t task = at.begun[kForwardPass];
    if (task == at.work.tasks) return false;
    if (at.work.backward && at.in_flight() >= at.work.in_flight) return false;
    const SampleRange x = samples_of(at.work, task);
    const std::size_t s = at.work.stage.index();
    return std::ranges::all_of(
               edges_.in[s],
               [&](EdgeId e) { return is_done(plan_.edge(e).from, kForwardPass, x); }) &&
           std::ranges::all_of(edges_.out[s], [&](EdgeId e) {
             return is_within(e, plan_.edge(e).to, kForwardPass, x.hi);
           });
  }

  bool may_start_backward(const Progress& at) {
    const std::int64_t task = at.begun[kBackwardPass];
    const std::int64_t forwards = at.done[kForwardPass];
    if (!at.work.backward || task >= forwards) return false;
    if (gpipe_ && forwards < at.work.tasks) return false;
    const SampleRange x = samples_of(at.work, task);
    const std::size_t s = at.work.stage.index();
    const auto goes_back = [&](EdgeId e) { return edge_backward_[e.index()]; };
    return std::ranges::all_of(edges_.out[s],
                               [&](EdgeId e) {
                                 return !goes_back(e) ||
                                        is_done(plan_.edge(e).to, kBackwardPass, x);
                               }) &&
           std::ranges::all_of(edges_.in[s], [&](EdgeId e) {
             return !goes_back(e) || is_within(e, plan_.edge(e).from, kBackwardPass, x.hi);
           });
  }

  bool may_start(Placement placed, int pass) {
    const Progress& at = progress(placed);
    if (pass == kForwardPass) return may_start_forward(at);
    if (pass == kBackwardPass) return may_start_backward(at);
    return at.work.halves && at.begun[kWeightPass] < at.done[kBackwardPass];
  }

  // Of the rank's tasks of this pass that may start, by the rule.
  std::optional<Placement> first_of(std::size_t rank, int pass) {
    std::optional<Placement> best;
    std::int64_t best_lo = 0;
    for (const Placement& own : placed_[rank]) {  // in the order of the plan
      if (!may_start(own, pass)) continue;
      const Progress& at = progress(own);
      const std::int64_t lo = samples_of(at.work, at.begun[static_cast<std::size_t>(pass)]).lo;
      const bool by_age = pass == kWeightPass || (pass == kBackwardPass && rule_.oldest_backward);
      const bool later = pass == kBackwardPass || rule_.last_stage_forward;
      if (best && (by_age ? lo > best_lo : !later)) continue;
      best = own;
      best_lo = lo;
    }
    return best;
  }

  void start_next(std::size_t rank) {
    for (const int pass : {kBackwardPass, kForwardPass, kWeightPass}) {
      const std::optional<Placement> placed = first_of(rank, pass);
      if (!placed) continue;
      const std::int64_t takes = begin(rank, *placed, pass);
      ends_.emplace(now_ + takes, rank);
      return;
    }
  }

  // Writes it into the rank's program; returns what it takes.
  std::int64_t begin(std::size_t rank, Placement placed, int pass) {
    Progress& at = progress(placed);
    const std::int64_t task = at.begun[static_cast<std::size_t>(pass)]++;
    running_[rank] = Task{placed, pass, task};
    Action action{.stage = placed.stage, .replica = placed.replica};
    action.micro_batch = at.work.micro_batch(task);
    action.samples = samples_of(at.work, task);
    const std::int64_t n = action.samples.size();
    if (pass == kBackwardPass && at.work.recompute) {
      action.kind = ActionKind::kRecompute;
      programs_[rank].push_back(action);
    }
    action.kind = pass == kForwardPass  ? ActionKind::kForward
                  : pass == kWeightPass ? ActionKind::kBackwardWeight
                  : at.work.halves      ? ActionKind::kBackwardInput
                                        : ActionKind::kBackward;
    programs_[rank].push_back(action);
    if (pass != kBackwardPass) return n;
    return (at.work.halves ? n : 2 * n) + (at.work.recompute ? n : 0);
  }

  void finish(std::size_t rank) {
    const Task task = *running_[rank];
    ++progress(task.placed).done[static_cast<std::size_t>(task.pass)];
    running_[rank].reset();
  }

  void finish_first() {
    finish(ends_.begin()->second);
    ends_.erase(ends_.begin());
  }

  // Tasks that could not start, in an order that keeps S2 to S6. Returns whether there are none.
  bool add_what_is_left() {
    bool none = true;
    for (std::size_t r = 0; r < placed_.size(); ++r) {
      for (const Placement& own : placed_[r]) {
        Progress& at = progress(own);
        const int last = at.work.backward ? at.last_pass() : kForwardPass;
        while (at.done[static_cast<std::size_t>(last)] < at.work.tasks) {
          none = false;
          const bool full = at.work.backward && at.in_flight() >= at.work.in_flight;
          const bool forward = at.begun[kForwardPass] < at.work.tasks && !full;
          const bool weight = at.work.halves && at.begun[kWeightPass] < at.done[kBackwardPass];
          begin(r, own, forward ? kForwardPass : weight ? kWeightPass : kBackwardPass);
          finish(r);
        }
      }
    }
    return none;
  }

  const Plan& plan_;
  std::int64_t samples_;
  Rule rule_;
  bool within_windows_;
  StageEdges edges_;
  std::vector<bool> edge_backward_;  // [edge]
  bool gpipe_;
  std::vector<std::int64_t> windows_;                    // [edge]
  std::vector<std::vector<Progress>> replicas_;          // [stage][replica]
  std::vector<std::vector<Placement>> placed_;           // [rank]
  std::vector<std::optional<Task>> running_;             // [rank]
  std::set<std::pair<std::int64_t, std::size_t>> ends_;  // (when, rank) of what runs
  std::int64_t now_ = 0;
  std::vector<std::vector<Action>> programs_;  // [rank]
};

}  // namespace

// Windows first; where they stop every order, without, so that the verifier has the last word.
std::vector<std::vector<Action>> list_order(const Plan& plan, const std::vector<bool>& backward,
                                            std::int64_t samples) {
  std::vector<std::vector<Action>> best;
  std::int64_t best_end = std::numeric_limits<std::int64_t>::max();
  for (const bool within_windows : {true, false}) {
    for (const Rule rule : kRules) {
      ListScheduler scheduler(plan, backward, samples, rule, within_windows);
      const bool complete = scheduler.run();
      if (best.empty() || (complete && scheduler.end() < best_end)) {
        best = scheduler.take_programs();
        if (complete) best_end = scheduler.end();
      }
    }
    if (best_end < std::numeric_limits<std::int64_t>::max()) break;
  }
  return best;
}

}  // namespace graphpipe
