// V6 and what must exist before anything can be followed. Looks at the programs as they
// are written, so that no later pass meets an id out of range.

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "schedule/owner_map.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

class StructureCheck {
 public:
  StructureCheck(const VerifyContext& context, FaultList& faults)
      : context_(context), schedule_(context.schedule), plan_(context.plan), faults_(faults) {}

  void run() {
    if (!check_form() || !check_devices() || !check_period()) return;
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
      const RankProgram& program = schedule_.ranks[r];
      std::int64_t position = 0;
      for (const auto* section : {&program.prologue, &program.period, &program.epilogue}) {
        for (const Action& action : *section) check_action(RankId(r), position++, action);
      }
    }
  }

 private:
  struct Problem {
    std::string rule;
    std::string message;
  };

  bool check_form() {
    if (schedule_.lowered) return true;
    faults_.add("V6", "schedule",
                "the schedule is not lowered: it has no messages, frees or steps");
    return false;
  }

  bool check_devices() {
    const std::vector<DeviceId> used = used_devices(plan_);
    for (std::size_t r = 0; r + 1 < schedule_.ranks.size(); ++r) {
      for (std::size_t q = r + 1; q < schedule_.ranks.size(); ++q) {
        if (schedule_.ranks[r].device != schedule_.ranks[q].device) continue;
        faults_.add("V6", fmt::format("ranks {} and {}", r, q),
                    fmt::format("both run on device {}, at the same time; give each device one "
                                "program",
                                schedule_.ranks[r].device.value));
        return false;
      }
    }
    const auto same = [](const RankProgram& program, DeviceId device) {
      return program.device == device;
    };
    if (std::ranges::equal(schedule_.ranks, used, same)) return true;
    faults_.add("V6", "schedule",
                fmt::format("its {} ranks are not the {} devices that the plan uses, ascending",
                            schedule_.ranks.size(), used.size()));
    return false;
  }

  bool check_period() {
    if (schedule_.repeats == 0) return true;
    if (schedule_.repeats < 0 || schedule_.period_samples < 1) {
      faults_.add("V6", "schedule",
                  fmt::format("{} repetitions of a period of {} samples", schedule_.repeats,
                              schedule_.period_samples));
      return false;
    }
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& stage = plan_.stages[s];
      const bool in_turn = stage.replication == Replication::kRoundRobin;
      const std::int64_t unit =
          stage.micro_batch * (in_turn ? static_cast<std::int64_t>(stage.devices.size()) : 1);
      if (schedule_.period_samples % unit == 0) continue;
      faults_.add("V7", "schedule",
                  fmt::format("its period of {} samples is not a multiple of the {} that stage {} "
                              "takes at once",
                              schedule_.period_samples, unit, s));
      return false;
    }
    return true;
  }

  void check_action(RankId rank, std::int64_t position, const Action& action) {
    const std::optional<Problem> problem = problem_of(rank, action);
    if (problem)
      faults_.add(problem->rule, context_.place(rank, position, action), problem->message);
  }

  std::optional<Problem> problem_of(RankId rank, const Action& action) const {
    const std::size_t s = action.stage.index();
    if (s >= plan_.stages.size()) {
      return Problem{"V6", fmt::format("there is no stage {}; the plan has {}", action.stage.value,
                                       plan_.stages.size())};
    }
    const std::vector<Placement>& own = context_.placed[rank.index()];
    if (std::ranges::find(own, Placement{action.stage, action.replica}) == own.end()) {
      return Problem{"V6",
                     fmt::format("replica {} of stage {} does not run on device {}, which is "
                                 "this rank's",
                                 action.replica, s, schedule_.ranks[rank.index()].device.value)};
    }
    switch (action.kind) {
      case ActionKind::kForward:
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
      case ActionKind::kBackwardWeight:
      case ActionKind::kRecompute:
      case ActionKind::kStep:
        return std::nullopt;
      case ActionKind::kFree:
        return action.edge.valid() ? message_problem(action, true) : std::nullopt;
      case ActionKind::kPostReceive:
      case ActionKind::kWaitReceive:
        return message_problem(action, true);
      case ActionKind::kStartSend:
      case ActionKind::kWaitSend:
        return message_problem(action, false);
      case ActionKind::kStartReduce:
      case ActionKind::kWaitReduce:
        return bucket_problem(rank, action);
      case ActionKind::kMakeVersion:
      case ActionKind::kDropVersion:
        if (is_asynchronous(plan_.weights) && schedule_.training) return std::nullopt;
        return Problem{"V8", "synchronous training has one version of the weights"};
    }
    return Problem{"V6", "the verifier has no rule for actions of this kind"};
  }

  std::optional<Problem> message_problem(const Action& action, bool receives) const {
    const std::size_t e = action.edge.index();
    if (e >= plan_.edges.size()) {
      return Problem{"V1", fmt::format("there is no edge {}; the plan has {}", action.edge.value,
                                       plan_.edges.size())};
    }
    const StageEdge& edge = plan_.edges[e];
    const bool forward = action.direction == Direction::kForward;
    if (!forward && !context_.edge_backward[e]) {
      return Problem{"V1", "nothing goes back over this edge"};
    }
    const bool at_start = forward != receives;  // of the edge: where forward messages are sent
    const StageId own = at_start ? edge.from : edge.to;
    const StageId other = at_start ? edge.to : edge.from;
    if (own != action.stage) {
      return Problem{"V1", fmt::format("stage {} does not {} over this edge in this direction",
                                       action.stage.value, receives ? "receive" : "send")};
    }
    if (action.peer.index() < schedule_.ranks.size()) {
      const DeviceId device = schedule_.ranks[action.peer.index()].device;
      const std::vector<DeviceId>& devices = plan_.stage(other).devices;
      if (std::ranges::find(devices, device) != devices.end()) return std::nullopt;
    }
    return Problem{"V1", fmt::format("its other end is rank {}, which does not run stage {}",
                                     action.peer.value, other.value)};
  }

  std::optional<Problem> bucket_problem(RankId rank, const Action& action) const {
    if (action.bucket < 0 || static_cast<std::size_t>(action.bucket) >= schedule_.buckets.size()) {
      return Problem{"V8", fmt::format("there is no bucket {}; the schedule has {}", action.bucket,
                                       schedule_.buckets.size())};
    }
    const Bucket& bucket = schedule_.buckets[static_cast<std::size_t>(action.bucket)];
    if (std::ranges::find(bucket.ranks, rank) == bucket.ranks.end()) {
      return Problem{"V8", "this rank is not among the bucket's"};
    }
    const std::vector<OpId>& ops = plan_.stage(action.stage).ops;
    if (action.after.valid() && std::ranges::find(ops, action.after) == ops.end()) {
      return Problem{"V8", fmt::format("operator {} is not of stage {}", action.after.value,
                                       action.stage.value)};
    }
    return std::nullopt;
  }

  const VerifyContext& context_;
  const Schedule& schedule_;
  const Plan& plan_;
  FaultList& faults_;
};

}  // namespace

void verify_structure(const VerifyContext& context, FaultList& faults) {
  StructureCheck(context, faults).run();
}

}  // namespace graphpipe
