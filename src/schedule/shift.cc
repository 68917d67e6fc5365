#include "schedule/shift.h"

namespace graphpipe {

Action shifted(Action action, const Plan& plan, std::int64_t samples) {
  switch (action.kind) {
    case ActionKind::kStartReduce:
    case ActionKind::kWaitReduce:
      if (!action.after.valid() && action.samples.empty()) return action;
      break;  // with its backward, or the step of a stream
    case ActionKind::kStep:
    case ActionKind::kMakeVersion:
    case ActionKind::kDropVersion:
      if (action.samples.empty()) return action;
      break;  // in a stream, with its backward
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kRecompute:
    case ActionKind::kPostReceive:
    case ActionKind::kWaitReceive:
    case ActionKind::kStartSend:
    case ActionKind::kWaitSend:
    case ActionKind::kFree:
      break;
  }
  action.samples.lo += samples;
  action.samples.hi += samples;
  action.micro_batch += samples / plan.stage(action.stage).micro_batch;
  return action;
}

Schedule with_repeats(const Schedule& schedule, const Plan& plan, std::int64_t repeats) {
  Schedule result = schedule;
  const std::int64_t moved = (repeats - schedule.repeats) * schedule.period_samples;
  result.repeats = repeats;
  result.samples += moved;
  for (RankProgram& program : result.ranks) {
    for (Action& action : program.epilogue) action = shifted(action, plan, moved);
  }
  return result;
}

}  // namespace graphpipe
