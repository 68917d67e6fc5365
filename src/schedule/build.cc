// The static order of every stage, as prologue, period and epilogue.
//
// Jeon et al., ASPLOS 2025, section on the static micro-batch scheduler; the order is
// fixed before anything runs (docs/papers.md says what a run-time choice would cost).
// Symbols:
//   N  samples of the mini-batch           b  micro-batch size of the stage
//   d  replicas of the stage               k  forwards, and backwards, in a row
//   n  tasks of one replica: micro-batches (split), or its share of them (round robin)
//   W  warm-up forwards of one replica: min(I / b, n); of a round-robin replica, its own
//      among the stage's first I / b micro-batches
//   P  samples of the period
//
// One replica runs   F x W,  then rounds of (B x k, F x k),  then the backwards that are left;
// where the stage recomputes, each B is an R and a B.
// A stage without a backward runs its n forwards; its rounds are of one forward, W = 0.
//
// Rounds of whole micro-batches are alike but for their numbers: one covers k b samples of
// the mini-batch (k b d in round robin, where the other replicas run the rest). With P the
// least common multiple of these over the stages, P samples are a whole number of rounds on
// every rank. So on every rank the prologue is the warm-up, the period is P samples' worth of
// rounds, repeated as often as the rank with the fewest rounds allows, and the epilogue is the
// rest: rounds that others do not have, a short last micro-batch, the drain. Its length
// depends on W, k and P, not on N.
//
//   chain of two, I = 2, 1, six micro-batches, P = 1:
//     0: F0 F1 | B0 F2 | B1 F3 | B2 F4 | B3 F5 | B4 B5
//     1: F0    | B0 F1 | B1 F2 | B2 F3 | B3 F4 | B4 F5 B5
//
// A schedule of kind zb-h1 has I in place of B in a round, behind these the W's that are more
// than D late, and to its end an I and a W in turn, then the W's that are left. In flight is
// W + D, so that D is what the plan has in flight beyond the warm-up. The rounds until D are
// late have fewer W's: they belong to the prologue.
//
//   chain of two, I = 2, 2, so D = 0, 1, and P = 1:
//     0: F0 F1      | I0 W0 F2 | I1 W1 F3 | I2 W2 I3 W3
//     1: F0 I0 F1   | I1 W0 F2 | I2 W1 F3 | I3 W2 W3
//
// Qi et al., "Zero bubble pipeline parallelism", 2024, schedule ZB-H1: the chain of p stages
// with W = p, p-1, .., 1 and D = 0, 1, .., p-1.
//
// An asynchronous schedule is that of a stream of mini-batches. Its rounds keep and drop versions
// of the weights alike but for the first and the last (replica_work.h).
//
// Where a rank holds several stages no rank has rounds: list_order.h puts all tasks in order.
// A schedule of kind gpipe has no rounds: all forwards, then all backwards, and so no period;
// its size grows with N, as its memory does.

#include "schedule/build.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "schedule/list_order.h"
#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/replica_work.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kLeastRepeats = 2;  // fewer are not worth a period
// Of all ranks that are written out: each is a kilobyte of actions, once messages are among them.
constexpr std::int64_t kMostTasks = std::int64_t{1} << 21;

// Rounds of whole micro-batches.
std::int64_t round_count(const ReplicaWork& work) {
  return std::max<std::int64_t>(0, work.whole_tasks - work.warm_up) / work.in_a_row;
}

// Of these in the prologue.
std::int64_t first_rounds(const ReplicaWork& work) {
  return (work.late + work.in_a_row - 1) / work.in_a_row + work.unlike_first;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Plan& plan, const ReplicaWork& work, std::int64_t samples)
      : plan_(plan), work_(work), samples_(samples) {}

  void forwards(std::int64_t count, std::vector<Action>& out) {
    add(ActionKind::kForward, forward_, std::min(count, work_.tasks - forward_), out);
  }
  void rounds(std::int64_t count, std::vector<Action>& out) {
    for (std::int64_t i = 0; i < count; ++i) {
      backwards(work_.in_a_row, out);
      weights(backward_ - weight_ - work_.late, out);
      forwards(work_.in_a_row, out);
    }
  }
  // Goes on as if these rounds had been run.
  void skip_rounds(std::int64_t count) {
    forward_ += count * work_.in_a_row;
    backward_ += count * work_.in_a_row;
    weight_ += count * work_.in_a_row;
  }
  void rest(std::vector<Action>& out) {
    while (forward_ < work_.tasks) rounds(1, out);
    while (work_.backward && backward_ < work_.tasks) {
      backwards(1, out);
      if (backward_ < work_.tasks) weights(1, out);
    }
    weights(backward_ - weight_, out);
  }

 private:
  void backwards(std::int64_t count, std::vector<Action>& out) {
    if (!work_.backward) return;
    const ActionKind kind = work_.halves ? ActionKind::kBackwardInput : ActionKind::kBackward;
    add(kind, backward_, std::min(count, work_.tasks - backward_), out);
  }
  void weights(std::int64_t count, std::vector<Action>& out) {
    if (!work_.halves) return;
    add(ActionKind::kBackwardWeight, weight_, std::min(count, backward_ - weight_), out);
  }
  void add(ActionKind kind, std::int64_t& next, std::int64_t count, std::vector<Action>& out) {
    for (std::int64_t i = 0; i < count; ++i, ++next) {
      Action action{.kind = kind, .stage = work_.stage, .replica = work_.replica};
      action.micro_batch = work_.micro_batch(next);
      action.samples =
          replica_samples(plan_.stage(work_.stage), work_.replica, action.micro_batch, samples_);
      const bool first_half = kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
      if (first_half && work_.recompute) {
        out.push_back(action);
        out.back().kind = ActionKind::kRecompute;
      }
      out.push_back(action);
    }
  }

  const Plan& plan_;
  const ReplicaWork& work_;
  std::int64_t samples_;
  std::int64_t forward_ = 0;  // tasks that are in the program already
  std::int64_t backward_ = 0;
  std::int64_t weight_ = 0;
};

// P, or 0 where the mini-batch is too short for it.
std::int64_t common_period(const Plan& plan, const std::vector<ReplicaWork>& works,
                           std::int64_t samples) {
  std::int64_t period = is_asynchronous(plan.weights) ? plan.mini_batch : 1;
  for (const ReplicaWork& work : works) {
    if (work.round_samples > samples) return 0;
    period = std::lcm(period, work.round_samples);
    if (period > samples / kLeastRepeats) return 0;
  }
  return period;
}

// How often the period fits on the rank that has the fewest rounds. Replicas whose only work
// is at the mini-batch's end have none, and need none.
std::int64_t common_repeats(const std::vector<ReplicaWork>& works, std::int64_t period,
                            std::int64_t samples) {
  if (period == 0) return 0;
  std::int64_t repeats = samples / period;
  for (const ReplicaWork& work : works) {
    if (work.whole_tasks == 0) continue;
    const std::int64_t rounds = round_count(work) - first_rounds(work) - work.unlike_last;
    repeats = std::min(repeats, rounds / (period / work.round_samples));
  }
  return repeats >= kLeastRepeats ? repeats : 0;
}

void check_written(std::int64_t tasks, std::int64_t samples) {
  if (tasks <= kMostTasks) return;
  throw InputError(
      "the schedule",
      fmt::format("S7: a mini-batch of {} samples has {} forwards that are not repetitions, "
                  "more than the {} that can be held; take larger micro-batches, fewer "
                  "samples in flight, or a schedule with a period (1f1b, one stage a "
                  "device)",
                  samples, tasks, kMostTasks));
}

void add_program(const Plan& plan, const ReplicaWork& work, const Schedule& schedule,
                 RankProgram& program) {
  ProgramBuilder builder(plan, work, schedule.samples);
  if (schedule.repeats > 0 && work.whole_tasks > 0) {
    const std::int64_t rounds = schedule.period_samples / work.round_samples;
    builder.forwards(work.warm_up, program.prologue);
    builder.rounds(first_rounds(work), program.prologue);
    builder.rounds(rounds, program.period);
    builder.skip_rounds(rounds * (schedule.repeats - 1));
    builder.rest(program.epilogue);
    return;
  }
  std::vector<Action>& all = schedule.repeats > 0 ? program.epilogue : program.prologue;
  builder.forwards(work.warm_up, all);
  builder.rest(all);
}

// Some rank has more than one stage.
Schedule build_shared(const Plan& plan, const std::vector<bool>& backward, Schedule schedule) {
  std::vector<std::vector<Action>> order = list_order(plan, backward, schedule.samples);
  for (std::size_t r = 0; r < order.size(); ++r) {
    schedule.ranks[r].prologue = std::move(order[r]);
  }
  return schedule;
}

Schedule build(const Plan& plan, const std::vector<bool>& backward, std::int64_t samples,
               bool training) {
  GP_CHECK(samples >= 1, "a schedule over {} samples", samples);
  Schedule schedule{.ranks = empty_programs(plan), .samples = samples, .training = training};
  std::vector<ReplicaWork> works;
  std::int64_t tasks = 0;
  for (const std::vector<Placement>& own : placements(plan)) {
    for (const Placement& placed : own) {
      works.push_back(replica_work(plan, placed, backward[placed.stage.index()], samples));
      tasks += works.back().tasks;
    }
  }
  if (shares_devices(plan)) {
    check_written(tasks, samples);
    return build_shared(plan, backward, std::move(schedule));
  }
  const std::int64_t period = common_period(plan, works, samples);
  schedule.repeats = common_repeats(works, period, samples);
  schedule.period_samples = schedule.repeats > 0 ? period : 0;
  for (const ReplicaWork& work : works) {
    if (schedule.repeats == 0 || work.whole_tasks == 0) continue;
    tasks -= (schedule.repeats - 1) * (period / work.round_samples) * work.in_a_row;
  }
  check_written(tasks, samples);
  for (std::size_t r = 0; r < works.size(); ++r) {
    add_program(plan, works[r], schedule, schedule.ranks[r]);
  }
  return schedule;
}

}  // namespace

Schedule build_schedule(const Plan& plan, const Graph& graph, std::int64_t samples) {
  return build(plan, stages_with_backward(plan, graph), samples, true);
}

Schedule build_forward_schedule(const Plan& plan, const Graph& /*graph*/, std::int64_t samples) {
  return build(plan, std::vector<bool>(plan.stages.size(), false), samples, false);
}

}  // namespace graphpipe
