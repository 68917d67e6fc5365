// What each rank does, in order. Planners do not see this; the simulator and the
// runtime execute it, so an order that simulates is the order that runs.
//
// A Schedule has two forms of one type: *compute only* (forwards, recomputes and
// backwards; the text form) and *lowered* (with every receive, send, reduction, free and step: one
// program a rank). build.h makes the first, lower.h the second from it.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "plan/plan.h"

namespace graphpipe {

// Samples [lo, hi) of the mini-batch.
struct SampleRange {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  std::int64_t size() const { return hi - lo; }
  bool empty() const { return hi <= lo; }
  friend auto operator<=>(const SampleRange&, const SampleRange&) = default;
};

enum class ActionKind {
  kForward,         // F
  kBackward,        // B: both halves
  kBackwardInput,   // I: the gradients of the inputs, which are sent
  kBackwardWeight,  // W: those of the weights
  kRecompute,       // R: the forward again, right before a backward
  kPostReceive,     // the buffer exists and the peer may fill it
  kWaitReceive,     // the message is there
  kStartSend,       // the message is packed and on its way
  kWaitSend,        // the message has left: its buffer is gone
  kFree,            // a value ends: what a forward saved (no edge), or a received message
  kStartReduce,     // gradients of a bucket are summed over its holders
  kWaitReduce,      //   ... and are there
  kStep,            // the optimiser's step of the stage's parameters; of those that stages of the
                    // rank share, with the first of them
  kMakeVersion,     // asynchronous schedules: the newest weights are kept as a version of their own
  kDropVersion,     //   ... and end
};

enum class Direction { kForward, kBackward };

// One unit of work. `2F0` in text is the forward of micro-batch 0 on stage 2.
struct Action {
  ActionKind kind = ActionKind::kForward;
  StageId stage = {};            // whose work it is; of a message: the end at this rank
  int replica = 0;               // within the stage
  std::int64_t micro_batch = 0;  // of the stage, counted from 0 in the mini-batch; of steps,
                                 // their sums and versions in a stream: the version
  SampleRange samples = {};      // F, B, ...: what this rank computes (a split replica's
                                 // share); messages: what they carry; free: what it frees
  EdgeId edge = {};              // messages, and the free of a received one
  Direction direction = Direction::kForward;  // messages
  RankId peer = {};                           // messages: the other end
  std::int64_t bytes = 0;                     // messages and reductions
  int bucket = -1;                            // reductions: index into Schedule::buckets
  // Reductions that happen within a backward: once it has been through this operator. They
  // stand behind that backward, which is of their stage and micro-batch.
  OpId after = {};
  friend bool operator==(const Action&, const Action&) = default;
};

// Gradients that are summed together over the ranks that hold the parameters.
struct Bucket {
  std::vector<ParamId> params = {};
  std::vector<RankId> ranks = {};  // ascending
  std::int64_t bytes = 0;
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// A rank's program. In `period`, micro-batches and samples are those of its first
// repetition; each later one adds Schedule::period_samples to samples and
// period_samples / b(stage) to micro-batches.
struct RankProgram {
  DeviceId device = {};
  std::vector<Action> prologue = {};
  std::vector<Action> period = {};
  std::vector<Action> epilogue = {};
  friend bool operator==(const RankProgram&, const RankProgram&) = default;
};

// One iteration (synchronous training, evaluation) or one stream of mini-batches
// (asynchronous). Its size does not grow with the number of micro-batches, but for kind
// gpipe, which has no steady state, and plans in which a rank holds several stages, whose
// steady state is not looked for.
struct Schedule {
  std::vector<RankProgram> ranks = {};  // ranks[r]: devices that the plan uses, ascending
  std::int64_t repeats = 0;             // of the period
  std::int64_t period_samples = 0;      // 0 where there is no period
  std::int64_t samples = 0;             // of the mini-batch
  bool training = true;                 // false: forwards only
  bool lowered = false;
  std::vector<Bucket> buckets = {};  // lowered training schedules

  RankId rank_of(DeviceId device) const;  // invalid where the plan does not use it
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Runs over a rank's actions from the first to the last, repetitions included, without
// unrolling them.
//
//   for (ActionCursor at(schedule, plan, rank); !at.done(); at.next()) use(at.action());
class ActionCursor {
 public:
  ActionCursor(const Schedule& schedule, const Plan& plan, RankId rank);
  bool done() const { return section_ == 3; }
  // With micro-batch and samples of this repetition.
  const Action& action() const { return current_; }
  std::int64_t position() const { return position_; }  // counted from 0 over the run
  bool in_period() const { return section_ == 1; }
  bool in_epilogue() const { return section_ == 2; }
  std::int64_t repetition() const { return repetition_; }  // of the period: 0 before it
  std::size_t index() const { return index_; }             // within the section
  void next();

 private:
  void settle();  // skips empty sections and sets current_
  const Schedule* schedule_;
  const Plan* plan_;
  const RankProgram* program_;
  int section_ = 0;  // prologue, period, epilogue, done
  std::int64_t repetition_ = 0;
  std::size_t index_ = 0;
  std::int64_t position_ = 0;
  Action current_;
};

// Invariants of compute-only schedules, checked by validate() in this order:
//   S1  ranks are the devices that the plan uses, ascending; every action is of a stage
//       that runs on the rank
//   S2  a backward follows the forward of its stage, replica and micro-batch, and its weight
//       half the input half
//   S3  every stage runs every sample once forward and, where the schedule trains and
//       the stage has a backward, once backward, or once each half
//   S4  on each stage and replica fw(i) precedes fw(i+1) and bw(i) precedes bw(i+1); so do
//       weight halves
//   S5  no stage has more samples in flight than its plan says, to the backward or its weight
//       half
//   S6  where a stage recomputes, the recompute of its micro-batch stands right before each
//       backward (or its input half) on the rank; there is no other
// Throws InputError(where, "S2: ...") with the schedule drawn and the action at fault
// marked:
//   s: S2: a backward before its forward
//     rank 0: 0F0 0B0
//     rank 1: 1F0 1B1 1F1
//                 ^ here
void validate(const Schedule& schedule, const Plan& plan, const Graph& graph,
              const std::string& where);

// "0F0", "2B13"; messages as "post 0>2 F [4,8)", "recv ...", "send ...", "sent ..." (a
// wait_send); "free 2 [4,8)" of what stage 2 saved, "free 0>2 F [4,8)" of a message;
// "reduce #0", "reduced #0", within a backward "reduce #0 in 2B7"; "step 2"; in a stream
// "reduce #0 to v7", "step 2 to v7", "keep 2 v6", "drop 2 v5".
std::string to_text(const Action& action, const Plan& plan);

// One line a rank ("-" where it has nothing to do), actions separated by blanks, all
// repetitions written out; messages and frees are left out. parse_schedule(to_text(s), ...)
// gives the compute-only schedule with everything in the prologue, over plan.mini_batch
// samples; it trains where there is a backward.
std::string to_text(const Schedule& schedule, const Plan& plan);
Schedule parse_schedule(std::string_view text, const Plan& plan, const std::string& where);

// Whether the stage runs its forwards again in a schedule that trains: where the plan says
// so, and it has a backward. Indexed by stage; `backward` is stages_with_backward().
std::vector<bool> stages_that_recompute(const Plan& plan, const std::vector<bool>& backward);

// Whether the stage has anything to do backward: a gradient flows to one of its
// parameters or through it to another stage's. Indexed by stage.
std::vector<bool> stages_with_backward(const Plan& plan, const Graph& graph);

}  // namespace graphpipe
