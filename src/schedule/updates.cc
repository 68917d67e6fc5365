#include "schedule/updates.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "schedule/buckets.h"
#include "schedule/placement.h"
#include "schedule/shift.h"
#include "schedule/trained_params.h"

namespace graphpipe {
namespace {

bool is_last_half(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

bool has_backward(const std::vector<Action>& actions) {
  return std::ranges::any_of(actions, is_last_half, &Action::kind);
}

bool reduces(const Schedule& schedule, RankId rank) {
  return std::ranges::any_of(schedule.buckets, [&](const Bucket& bucket) {
    return std::ranges::binary_search(bucket.ranks, rank);
  });
}

bool ends_within_period(const Schedule& schedule) {
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const RankProgram& program = schedule.ranks[r];
    if (has_backward(program.period) && !has_backward(program.epilogue) &&
        reduces(schedule, RankId(r))) {
      return true;
    }
  }
  return false;
}

void move_last_repetition(Schedule& schedule, const Plan& plan) {
  const std::int64_t moved = --schedule.repeats * schedule.period_samples;
  for (RankProgram& program : schedule.ranks) {
    std::vector<Action> last;
    for (const Action& action : program.period) last.push_back(shifted(action, plan, moved));
    program.epilogue.insert(program.epilogue.begin(), last.begin(), last.end());
    if (schedule.repeats == 0) program.period.clear();
  }
  if (schedule.repeats == 0) schedule.period_samples = 0;
}

// [bucket]: the stage's operator whose backward completes the bucket's gradients on it.
std::vector<OpId> first_readers(const Schedule& schedule, const Graph& graph, const Stage& stage) {
  std::vector<int> bucket_of(graph.params.size(), -1);
  for (std::size_t b = 0; b < schedule.buckets.size(); ++b) {
    for (const ParamId param : schedule.buckets[b].params) {
      bucket_of[param.index()] = static_cast<int>(b);
    }
  }
  std::vector<OpId> readers(schedule.buckets.size());
  for (const OpId op : stage.ops) {
    for (const ParamId param : graph.op(op).params) {
      const int bucket = bucket_of[param.index()];
      if (bucket < 0) continue;
      OpId& reader = readers[static_cast<std::size_t>(bucket)];
      if (!reader.valid()) reader = op;
    }
  }
  return readers;
}

// One rank's reductions, in order.
class RankReductions {
 public:
  RankReductions(const Schedule& schedule, const Plan& plan, const Graph& graph,
                 const std::vector<bool>& needs, const std::vector<OpId>& readers, RankId rank,
                 const Placement& own)
      : schedule_(schedule),
        plan_(plan),
        graph_(graph),
        needs_(needs),
        readers_(readers),
        own_(own) {
    for (const DeviceId device : plan.stage(own.stage).devices) {
      stage_ranks_.push_back(schedule.rank_of(device));
    }
    std::ranges::sort(stage_ranks_);
    for (std::size_t b = 0; b < schedule.buckets.size(); ++b) {
      if (std::ranges::binary_search(schedule.buckets[b].ranks, rank)) {
        left_.push_back(static_cast<int>(b));
      }
    }
  }

  // Takes those that start while `last`, the rank's last task, goes on; each once it has been
  // through what they stand for: a wait is for the sake of the start behind it.
  std::vector<Action> take_within(const Action& last) {
    std::vector<Action> actions;
    if (last.kind != ActionKind::kBackward || left_.empty()) return actions;
    const std::vector<OpId>& ops = plan_.stage(own_.stage).ops;
    const OpId first = first_with_backward(ops);
    OpId after = ops.back();
    const auto add = [&](Action action) {
      action.micro_batch = last.micro_batch;
      action.samples = last.samples;
      action.after = after;
      actions.push_back(action);
    };
    while (!left_.empty()) {
      after = std::min(after, readers_[static_cast<std::size_t>(left_.front())]);
      if (after <= first) break;
      if (on_way_.size() == kReductionsOnTheWay) {
        if (!may_wait_within(on_way_.front())) break;
        add(wait_oldest());
      }
      add(start_next());
    }
    return actions;
  }

  std::vector<Action> take_rest() {
    std::vector<Action> actions;
    while (!left_.empty()) {
      if (on_way_.size() == kReductionsOnTheWay) actions.push_back(wait_oldest());
      actions.push_back(start_next());
    }
    while (!on_way_.empty()) actions.push_back(wait_oldest());
    return actions;
  }

 private:
  const Bucket& bucket(int index) const {
    return schedule_.buckets[static_cast<std::size_t>(index)];
  }

  Action reduction(ActionKind kind, int index) const {
    Action action{.kind = kind, .stage = own_.stage, .replica = own_.replica};
    action.bytes = bucket(index).bytes;
    action.bucket = index;
    return action;
  }
  Action start_next() {
    on_way_.push_back(left_.front());
    left_.pop_front();
    return reduction(ActionKind::kStartReduce, on_way_.back());
  }
  Action wait_oldest() {
    const int oldest = on_way_.front();
    on_way_.pop_front();
    return reduction(ActionKind::kWaitReduce, oldest);
  }

  // A backward reaches it last.
  OpId first_with_backward(const std::vector<OpId>& ops) const {
    const auto at =
        std::ranges::find_if(ops, [&](OpId op) { return has_backward(graph_.op(op), needs_); });
    return at == ops.end() ? ops.back() : *at;
  }

  bool may_wait_within(int index) const {
    return plan_.stage(own_.stage).replication == Replication::kSplit &&
           bucket(index).ranks == stage_ranks_;
  }

  const Schedule& schedule_;
  const Plan& plan_;
  const Graph& graph_;
  const std::vector<bool>& needs_;    // [tensor]
  const std::vector<OpId>& readers_;  // [bucket]: first_readers() of the rank's first stage
  Placement own_;
  std::vector<RankId> stage_ranks_;  // ascending
  std::deque<int> left_;             // buckets that are to start
  std::deque<int> on_way_;           // that are to be waited for
};

// Where the rank's last backward stands: its section and the place behind it.
struct Place {
  std::vector<Action>* section = nullptr;
  std::size_t behind = 0;
};

std::optional<Place> last_backward(RankProgram& program) {
  for (std::vector<Action>* section : {&program.epilogue, &program.prologue}) {
    for (std::size_t i = section->size(); i > 0; --i) {
      if (is_last_half((*section)[i - 1].kind)) return Place{section, i};
    }
  }
  return std::nullopt;
}

}  // namespace

void add_updates(Schedule& schedule, const std::vector<std::ptrdiff_t>& last_sends,
                 const Plan& plan, const Graph& graph) {
  schedule.buckets = reduction_buckets(plan, graph);
  if (ends_within_period(schedule)) move_last_repetition(schedule, plan);
  const std::vector<bool> needs = needs_gradient(graph);
  const std::vector<bool> trained = stages_with_trained_params(plan, graph);
  const std::vector<std::vector<Placement>> placed = placements(plan);
  std::vector<std::vector<OpId>> readers;  // [stage]
  for (const Stage& stage : plan.stages) readers.push_back(first_readers(schedule, graph, stage));
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    RankProgram& program = schedule.ranks[r];
    const Placement& first = placed[r].front();
    RankReductions reductions(schedule, plan, graph, needs, readers[first.stage.index()], RankId(r),
                              first);
    const std::optional<Place> last = last_backward(program);
    if (last && placed[r].size() == 1) {
      const std::vector<Action> within = reductions.take_within((*last->section)[last->behind - 1]);
      last->section->insert(last->section->begin() + static_cast<std::ptrdiff_t>(last->behind),
                            within.begin(), within.end());
    }
    std::vector<Action>& end = program.epilogue;
    const std::vector<Action> rest = reductions.take_rest();
    end.insert(end.end() - last_sends[r], rest.begin(), rest.end());
    for (const Placement& own : placed[r]) {
      if (!trained[own.stage.index()]) continue;
      end.push_back({.kind = ActionKind::kStep, .stage = own.stage, .replica = own.replica});
    }
  }
}

}  // namespace graphpipe
