// S1 to S6, rule by rule, over the actions in order, repetitions included.

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "schedule/drawing.h"
#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/schedule.h"

namespace graphpipe {
namespace {

// Which pass of a stage over a micro-batch an action is. A backward's input half counts as
// the backward, its weight half beside it.
enum class Pass { kForward, kBackward, kWeight, kOther };

Pass pass_of(ActionKind kind) {
  if (kind == ActionKind::kForward) return Pass::kForward;
  if (kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput) return Pass::kBackward;
  return kind == ActionKind::kBackwardWeight ? Pass::kWeight : Pass::kOther;
}

std::string_view pass_name(Pass pass) { return pass == Pass::kForward ? "forward" : "backward"; }

bool is_half(ActionKind kind) {
  return kind == ActionKind::kBackwardInput || kind == ActionKind::kBackwardWeight;
}

std::string task_name(const Action& action) {
  return fmt::format("stage {}, micro-batch {}", action.stage.value, action.micro_batch);
}

class Checker {
 public:
  Checker(const Schedule& schedule, const Plan& plan, const Graph& graph, const std::string& where)
      : schedule_(schedule),
        plan_(plan),
        where_(where),
        placed_(placements(plan)),
        backward_(stages_with_backward(plan, graph)),
        recompute_(stages_that_recompute(plan, backward_)) {}

  void check_placement() const;  // S1
  void check_order() const;      // S2
  void check_coverage() const;   // S3
  void check_ascending() const;  // S4
  void check_in_flight() const;  // S5
  void check_recompute() const;  // S6

 private:
  [[noreturn]] void fail(RankId rank, std::int64_t position, const std::string& what) const {
    throw InputError(where_, what + "\n" + draw_marked(schedule_, plan_, rank, position));
  }
  template <typename Use>
  void for_each_action(RankId rank, Use use) const {
    for (ActionCursor at(schedule_, plan_, rank); !at.done(); at.next()) {
      use(at.action(), at.position());
    }
  }
  template <typename Check>
  void for_each_placement(Check check) const {
    for (std::size_t r = 0; r < placed_.size(); ++r) {
      for (const Placement& own : placed_[r]) check(RankId(r), own);
    }
  }
  bool trains(StageId stage) const { return schedule_.training && backward_[stage.index()]; }
  void check_task(RankId rank, std::int64_t position, const Action& action) const;
  void check_recompute_of(RankId rank) const;
  void check_coverage_of(RankId rank, Placement own) const;
  std::int64_t most_in_flight(RankId rank, Placement own, std::int64_t limit) const;

  const Schedule& schedule_;
  const Plan& plan_;
  const std::string& where_;
  std::vector<std::vector<Placement>> placed_;  // [rank]
  std::vector<bool> backward_;                  // [stage]
  std::vector<bool> recompute_;                 // [stage]
};

bool is_of(const Action& action, Placement own) {
  return action.stage == own.stage && action.replica == own.replica;
}

void Checker::check_placement() const {
  const std::vector<DeviceId> used = used_devices(plan_);
  if (schedule_.ranks.size() != used.size()) {
    throw InputError(where_, fmt::format("S1: the schedule has {} ranks, the plan uses {} devices",
                                         schedule_.ranks.size(), used.size()));
  }
  for (std::size_t r = 0; r < used.size(); ++r) {
    if (schedule_.ranks[r].device != used[r]) {
      throw InputError(where_,
                       fmt::format("S1: rank {} is on device {}; ranks are the devices that "
                                   "the plan uses, ascending, so expected {}",
                                   r, schedule_.ranks[r].device.value, used[r].value));
    }
    for_each_action(RankId(r), [&](const Action& action, std::int64_t position) {
      if (std::ranges::any_of(placed_[r], [&](Placement own) { return is_of(action, own); }))
        return;
      fail(
          RankId(r), position,
          fmt::format("S1: stage {} does not run on device {}", action.stage.value, used[r].value));
    });
  }
}

void Checker::check_order() const {
  for_each_placement([&](RankId rank, Placement own) {
    std::vector<bool> forward(
        static_cast<std::size_t>(micro_batch_count(plan_.stage(own.stage), schedule_.samples)));
    std::vector<bool> input(forward.size());
    for_each_action(rank, [&](const Action& action, std::int64_t position) {
      const auto i = static_cast<std::size_t>(action.micro_batch);
      if (!is_of(action, own) || !is_compute(action.kind)) return;
      if (i >= forward.size()) return;  // S3's
      if (action.kind == ActionKind::kForward) forward[i] = true;
      if (action.kind == ActionKind::kBackwardInput) input[i] = true;
      if (action.kind == ActionKind::kBackwardWeight && forward[i] && !input[i]) {
        fail(rank, position, "S2: a weight half before its input half");
      }
      if (forward[i]) return;
      const bool again = action.kind == ActionKind::kRecompute;
      fail(rank, position,
           fmt::format("S2: a {} before its forward", again ? "recompute" : "backward"));
    });
  });
}

// A pass has its replica's samples of a micro-batch that exists, and something to do.
void Checker::check_task(RankId rank, std::int64_t position, const Action& action) const {
  const Stage& stage = plan_.stage(action.stage);
  const std::int64_t count = micro_batch_count(stage, schedule_.samples);
  if (action.micro_batch < 0 || action.micro_batch >= count) {
    fail(rank, position,
         fmt::format("S3: {}: there are {}, counted from 0", task_name(action), count));
  }
  const SampleRange expected =
      replica_samples(stage, action.replica, action.micro_batch, schedule_.samples);
  if (expected.empty()) {
    fail(rank, position, fmt::format("S3: {}: this rank has no sample of it", task_name(action)));
  }
  if (action.samples != expected) {
    fail(rank, position,
         fmt::format("S3: {}: this rank has samples [{},{}), not [{},{})", task_name(action),
                     expected.lo, expected.hi, action.samples.lo, action.samples.hi));
  }
  if (pass_of(action.kind) != Pass::kForward && !trains(action.stage)) {
    fail(rank, position, fmt::format("S3: {}: there is nothing to do backward", task_name(action)));
  }
}

void Checker::check_coverage_of(RankId rank, Placement own) const {
  const Stage& stage = plan_.stage(own.stage);
  const std::int64_t count = micro_batch_count(stage, schedule_.samples);
  // [micro-batch]: what was seen of it.
  struct Seen {
    bool forward = false;
    bool backward = false;
    bool weight = false;
    bool in_halves = false;  // its backward
  };
  std::vector<Seen> seen(static_cast<std::size_t>(count));
  std::int64_t end = 0;
  for_each_action(rank, [&](const Action& action, std::int64_t position) {
    end = position + 1;
    const Pass pass = pass_of(action.kind);
    if (!is_of(action, own) || pass == Pass::kOther) return;
    check_task(rank, position, action);
    Seen& at = seen[static_cast<std::size_t>(action.micro_batch)];
    bool& done = pass == Pass::kForward    ? at.forward
                 : pass == Pass::kBackward ? at.backward
                                           : at.weight;
    if (done) {
      fail(rank, position, fmt::format("S3: {} runs {} twice", task_name(action), pass_name(pass)));
    }
    done = true;
    at.in_halves = at.in_halves || is_half(action.kind);
  });
  for (std::int64_t i = 0; i < count; ++i) {
    if (replica_samples(stage, own.replica, i, schedule_.samples).empty()) continue;
    const Seen& at = seen[static_cast<std::size_t>(i)];
    const bool backward = at.backward && (at.weight || !at.in_halves);
    if (at.forward && (backward || !trains(own.stage))) continue;
    fail(rank, end,
         fmt::format("S3: stage {}, micro-batch {} never runs {}", own.stage.value, i,
                     at.forward ? "backward" : "forward"));
  }
}

void Checker::check_coverage() const {
  for_each_placement([&](RankId rank, Placement own) { check_coverage_of(rank, own); });
}

void Checker::check_ascending() const {
  for_each_placement([&](RankId rank, Placement own) {
    std::int64_t last[] = {-1, -1, -1};  // forward, backward, weight half
    for_each_action(rank, [&](const Action& action, std::int64_t position) {
      const Pass pass = pass_of(action.kind);
      if (!is_of(action, own) || pass == Pass::kOther) return;
      std::int64_t& before = last[static_cast<int>(pass)];
      if (action.micro_batch < before) {
        fail(rank, position,
             fmt::format("S4: stage {} runs micro-batch {} {} after {}", own.stage.value,
                         action.micro_batch, pass_name(pass), before));
      }
      before = action.micro_batch;
    });
  });
}

// In whole micro-batches. Fails where they are more than `limit` samples.
std::int64_t Checker::most_in_flight(RankId rank, Placement own, std::int64_t limit) const {
  const Stage& stage = plan_.stage(own.stage);
  std::int64_t now = 0;
  std::int64_t most = 0;
  for_each_action(rank, [&](const Action& action, std::int64_t position) {
    if (!is_of(action, own)) return;
    const std::int64_t size =
        micro_batch_samples(stage, action.micro_batch, schedule_.samples).size();
    if (action.kind == ActionKind::kForward) now += size;
    // Of a backward in halves the second ends it: what the forward saved lives until then.
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) {
      now -= size;
    }
    most = std::max(most, now);
    if (now > limit) {
      fail(rank, position,
           fmt::format("S5: stage {} has more samples in flight than the {} of its plan",
                       own.stage.value, stage.in_flight_samples));
    }
  });
  return most;
}

void Checker::check_in_flight() const {
  // Split replicas share each micro-batch; those in round robin have theirs at the same time.
  std::vector<std::int64_t> left;
  for (const Stage& stage : plan_.stages) left.push_back(stage.in_flight_samples);
  for_each_placement([&](RankId rank, Placement own) {
    if (!trains(own.stage)) return;
    std::int64_t& limit = left[own.stage.index()];
    const std::int64_t most = most_in_flight(rank, own, limit);
    if (plan_.stage(own.stage).replication == Replication::kRoundRobin) limit -= most;
  });
}

bool same_task(const Action& a, const Action& b) {
  return a.stage == b.stage && a.replica == b.replica && a.micro_batch == b.micro_batch &&
         a.samples == b.samples;
}

void Checker::check_recompute_of(RankId rank) const {
  std::optional<Action> before;  // a recompute that waits for its backward
  std::int64_t end = 0;
  const auto unused = [&](std::int64_t position) {
    fail(rank, position - 1,
         fmt::format("S6: {}: its backward must stand right behind", task_name(*before)));
  };
  for_each_action(rank, [&](const Action& action, std::int64_t position) {
    end = position + 1;
    const bool is_first_pass = pass_of(action.kind) == Pass::kBackward;
    const bool is_ready = before && same_task(*before, action);
    if (before && !(is_first_pass && is_ready)) unused(position);
    if (action.kind == ActionKind::kRecompute) {
      if (!schedule_.training || !recompute_[action.stage.index()]) {
        fail(rank, position,
             fmt::format("S6: stage {} does not recompute in this plan", action.stage.value));
      }
      before = action;
      return;
    }
    if (is_first_pass && recompute_[action.stage.index()] && !is_ready) {
      fail(rank, position,
           fmt::format("S6: {}: its forward must run again right before", task_name(action)));
    }
    before.reset();
  });
  if (before) unused(end);
}

void Checker::check_recompute() const {
  for (std::size_t r = 0; r < placed_.size(); ++r) check_recompute_of(RankId(r));
}

}  // namespace

void validate(const Schedule& schedule, const Plan& plan, const Graph& graph,
              const std::string& where) {
  const Checker checker(schedule, plan, graph, where);
  checker.check_placement();
  checker.check_order();
  checker.check_coverage();
  checker.check_ascending();
  checker.check_in_flight();
  checker.check_recompute();
}

}  // namespace graphpipe
