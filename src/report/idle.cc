#include "report/idle.h"

#include <algorithm>
#include <initializer_list>

#include "base/numbers.h"
#include "schedule/drawing.h"

namespace graphpipe {
namespace {

// Times are whole ticks of the simulator; where a latency is taken off them they may be off by
// a rounding.
constexpr double kSameTime = 1e-9;  // of the iteration

class IdleFinder {
 public:
  IdleFinder(const Trace& trace, const TraceLinks& links)
      : trace_(trace), links_(links), same_s_(kSameTime * trace.iteration_s) {}

  std::vector<IdleSpan> find() {
    for (std::size_t r = 0; r < links_.steps.size(); ++r) {
      rank_ = RankId(r);
      now_s_ = 0;
      for (const TraceLinks::Step& step : links_.steps[r]) pass(step);
      idle_until(trace_.iteration_s, IdleReason::kDone, -1, -1);
    }
    return std::move(spans_);
  }

 private:
  const TraceEvent& event(int i) const { return trace_.events[at(i)]; }

  void pass(const TraceLinks::Step& step) {
    if (is_compute(step.kind)) {
      idle_until(event(step.event).start_s, IdleReason::kCore, -1, -1);
      now_s_ = event(step.event).end_s;
    } else if (step.kind == ActionKind::kWaitReceive) {
      wait_for_message(step.event);
    } else if (step.kind == ActionKind::kWaitSend) {
      idle_until(links_.left_s[at(step.event)], IdleReason::kSend, step.event, -1);
    } else {
      wait_for_reduction(step.event);
    }
  }

  void wait_for_message(int message) {
    const int producer = links_.producer[at(message)];
    if (producer >= 0) {
      idle_until(event(producer).end_s, IdleReason::kProducer, message, producer);
    }
    idle_until(event(message).start_s, IdleReason::kQueue, message, producer);
    idle_until(event(message).end_s, IdleReason::kTransfer, message, -1);
  }

  void wait_for_reduction(int reduction) {
    int last = -1;
    for (const int other : links_.together[at(reduction)]) {
      const int task = links_.producer[at(other)];
      if (task >= 0 && (last < 0 || event(task).end_s > event(last).end_s)) last = task;
    }
    idle_until(event(reduction).start_s, IdleReason::kHolders, reduction, last);
    idle_until(event(reduction).end_s, IdleReason::kReduction, reduction, -1);
  }

  void idle_until(double time_s, IdleReason reason, int what, int task) {
    if (time_s <= now_s_ + same_s_) return;
    spans_.push_back({rank_, now_s_, time_s, reason, what, task});
    now_s_ = time_s;
  }

  const Trace& trace_;
  const TraceLinks& links_;
  double same_s_;
  RankId rank_;
  double now_s_ = 0;
  std::vector<IdleSpan> spans_;
};

// Walks from the iteration's end to its start, each time to what ended last of all that the step
// had to wait for.
class PathFinder {
 public:
  PathFinder(const Trace& trace, const TraceLinks& links)
      : trace_(trace), links_(links), same_s_(kSameTime * trace.iteration_s) {}

  std::vector<PathStep> find() {
    Cause last;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      offer(last, static_cast<int>(i), trace_.events[i].end_s, trace_.iteration_s);
    }
    while (last.event >= 0) {
      const TraceEvent& now = event(last.event);
      add(kind_of(now.action.kind), last.event, now.start_s, last.end_s);
      const Cause before = cause_of(last.event);
      const double end_s = before.event >= 0 ? before.end_s : 0;
      if (end_s < now.start_s - same_s_) {
        add(PathStep::Kind::kWait, last.event, end_s, now.start_s);
      }
      last = before;
    }
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  struct Cause {
    int event = -1;
    double end_s = 0;
  };

  static PathStep::Kind kind_of(ActionKind kind) {
    if (is_compute(kind)) return PathStep::Kind::kTask;
    return kind == ActionKind::kStartSend ? PathStep::Kind::kMessage : PathStep::Kind::kReduction;
  }

  const TraceEvent& event(int i) const { return trace_.events[at(i)]; }

  void add(PathStep::Kind kind, int what, double start_s, double end_s) {
    if (end_s > start_s) path_.push_back({kind, what, start_s, end_s});
  }

  // Takes what ended later, the first of several. A task may go on beyond `until_s`: gradients
  // are summed within a backward.
  void offer(Cause& best, int what, double end_s, double until_s) const {
    if (what < 0) return;
    if (is_compute(event(what).action.kind)) end_s = std::min(end_s, until_s);
    if (end_s > until_s + same_s_) return;
    if (best.event < 0 || end_s > best.end_s + same_s_) best = {what, end_s};
  }

  Cause cause_of(int what) const {
    if (is_compute(event(what).action.kind)) return cause_of_task(what);
    if (event(what).action.kind == ActionKind::kStartSend) return cause_of_message(what);
    return cause_of_reduction(what);
  }

  Cause cause_of_task(int task) const {
    const double start_s = event(task).start_s;
    const auto& steps = links_.steps[event(task).rank.index()];
    int first = links_.step_of[at(task)];
    while (first > 0 && !is_compute(steps[at(first - 1)].kind)) --first;
    Cause best;
    if (first > 0) {
      const int before = steps[at(first - 1)].event;
      offer(best, before, event(before).end_s, start_s);
    }
    for (int i = first; i < links_.step_of[at(task)]; ++i) {
      const auto& [kind, waited] = steps[at(i)];
      const bool send = kind == ActionKind::kWaitSend;
      offer(best, waited, send ? links_.left_s[at(waited)] : event(waited).end_s, start_s);
    }
    return best;
  }

  Cause cause_of_message(int message) const {
    const double start_s = event(message).start_s;
    Cause best;
    for (const int task : {links_.producer[at(message)], links_.posted_after[at(message)]}) {
      if (task >= 0) offer(best, task, event(task).end_s, start_s);
    }
    return best;
  }

  Cause cause_of_reduction(int reduction) const {
    std::vector<int> shares = links_.together[at(reduction)];
    shares.push_back(reduction);
    const double start_s = event(reduction).start_s;
    Cause best;
    for (const int share : shares) {
      const int task = links_.producer[at(share)];
      if (task >= 0) offer(best, task, event(task).end_s, start_s);
    }
    for (const int share : shares) {
      for (const int other : links_.reductions[event(share).rank.index()]) {
        if (other == share) break;
        offer(best, other, event(other).end_s, start_s);
      }
    }
    return best;
  }

  const Trace& trace_;
  const TraceLinks& links_;
  double same_s_;
  std::vector<PathStep> path_;
};

}  // namespace

std::string_view idle_reason_text(IdleReason reason) {
  switch (reason) {
    case IdleReason::kProducer:
      return "waits for the sender";
    case IdleReason::kQueue:
      return "waits for a link that carries other messages";
    case IdleReason::kTransfer:
      return "waits for a message on its way";
    case IdleReason::kSend:
      return "waits for its own message to leave";
    case IdleReason::kHolders:
      return "waits for other ranks to get to the reduction";
    case IdleReason::kReduction:
      return "waits for gradients to be summed";
    case IdleReason::kCore:
      return "waits for a core";
    case IdleReason::kDone:
      return "has nothing left to do";
  }
  return "";
}

std::vector<IdleSpan> idle_spans(const Trace& trace, const TraceLinks& links) {
  return IdleFinder(trace, links).find();
}

std::vector<PathStep> critical_path(const Trace& trace, const TraceLinks& links) {
  return PathFinder(trace, links).find();
}

}  // namespace graphpipe
