// V8 of a stream: which weights every forward and backward of an asynchronous pipeline finds.

#include <map>
#include <set>

#include "base/error.h"
#include "plan/weight_versions.h"
#include "schedule/trained_params.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

class StreamCheck {
 public:
  StreamCheck(const VerifyContext& context, FaultList& faults)
      : context_(context),
        faults_(faults),
        rule_(context.plan),
        trained_(stages_with_trained_params(context.plan, context.graph)),
        micro_batches_(micro_batch_count(context.plan.stages[0], context.schedule.samples)),
        keeps_(context.plan.weights != WeightPolicy::kNaive) {}

  void run() {
    for (std::size_t r = 0; r < context_.schedule.ranks.size(); ++r) check_rank(RankId(r));
  }

 private:
  // Of the rank's one stage.
  struct State {
    std::int64_t newest = 0;           // version
    std::set<std::int64_t> kept = {};  // versions beside it
    std::int64_t backwards = 0;        // ended
    bool must_step = false;            // a mini-batch's gradients are there
  };

  void check_rank(RankId rank) {
    State state;
    for (ActionCursor at(context_.schedule, context_.plan, rank); !at.done(); at.next()) {
      const std::string message = problem(at.action(), state);
      if (!message.empty()) {
        faults_.add("V8", context_.place(rank, at.position(), at.action()), message);
        return;
      }
    }
    const StageId stage = context_.placed[rank.index()].front().stage;
    if (!trained_[stage.index()]) return;
    const std::string where = fmt::format("rank {}", rank.value);
    if (state.must_step) {
      faults_.add("V8", where, fmt::format("never steps to version {}", state.backwards));
    }
    for (const std::int64_t version : state.kept) {
      faults_.add("V8", where, fmt::format("never drops version {}", version));
    }
  }

  // What the action is not allowed to do; empty: nothing.
  std::string problem(const Action& a, State& state) {
    const bool trained = trained_[a.stage.index()];
    switch (a.kind) {
      case ActionKind::kForward: {
        if (!trained) return "";
        if (state.must_step) return fmt::format("comes before the step to v{}", state.backwards);
        const std::int64_t version = rule_.version_of(a.stage, a.micro_batch);
        const std::string wrong = use_problem(version, state);
        return wrong.empty() ? idle_problem(a.stage, state) : wrong;
      }
      case ActionKind::kBackward: {
        if (!trained) return "";
        if (state.must_step) return fmt::format("comes before the step to v{}", state.backwards);
        state.backwards = a.micro_batch + 1;
        state.must_step = rule_.ends_mini_batch(a.micro_batch, micro_batches_);
        if (!keeps_) return "";
        return use_problem(rule_.version_of(a.stage, a.micro_batch), state);
      }
      case ActionKind::kMakeVersion:
        return keep_problem(a, state);
      case ActionKind::kDropVersion:
        return drop_problem(a, state);
      case ActionKind::kStep:
        return step_problem(a, state);
      default:
        return "";
    }
  }

  static std::string use_problem(std::int64_t version, const State& state) {
    if (version == state.newest || state.kept.contains(version)) return "";
    return fmt::format("needs version {}, and the newest is {}", version, state.newest);
  }

  // Whether a micro-batch that is in flight, or that comes, uses the version.
  bool used_later(StageId stage, std::int64_t version, const State& state) const {
    for (std::int64_t i = state.backwards; i < micro_batches_; ++i) {
      const std::int64_t used = rule_.version_of(stage, i);
      if (used == version) return true;
      if (used > version) return false;
    }
    return false;
  }

  std::string idle_problem(StageId stage, const State& state) const {
    for (const std::int64_t version : state.kept) {
      if (used_later(stage, version, state)) continue;
      return fmt::format("version {} is kept, and nothing uses it from here on", version);
    }
    return "";
  }

  std::string keep_problem(const Action& a, State& state) const {
    if (a.micro_batch != state.newest) {
      return fmt::format("the newest version is {}", state.newest);
    }
    if (!state.kept.insert(a.micro_batch).second) return "it is kept already";
    if (!state.must_step) return "no step follows that would replace it";
    if (!used_later(a.stage, a.micro_batch, state)) return "nothing uses it from here on";
    return "";
  }

  std::string drop_problem(const Action& a, State& state) const {
    if (state.kept.erase(a.micro_batch) == 0) return "it is not kept";
    if (used_later(a.stage, a.micro_batch, state)) return "it is used later";
    return "";
  }

  std::string step_problem(const Action& a, State& state) const {
    if (!trained_[a.stage.index()]) return "the stage has no parameter that this schedule trains";
    if (!state.must_step) return "no mini-batch's gradients are there";
    if (a.micro_batch != state.backwards) {
      return fmt::format("the gradients are those of {} micro-batches", state.backwards);
    }
    if (keeps_ && !state.kept.contains(state.newest) && used_later(a.stage, state.newest, state)) {
      return fmt::format("replaces version {}, which is used later", state.newest);
    }
    state.newest = a.micro_batch;
    state.must_step = false;
    return "";
  }

  const VerifyContext& context_;
  FaultList& faults_;
  VersionRule rule_;
  std::vector<bool> trained_;  // [stage]
  std::int64_t micro_batches_;
  bool keeps_;  // versions, until the backward
};

}  // namespace

void verify_stream_updates(const VerifyContext& context, FaultList& faults) {
  StreamCheck(context, faults).run();
}

}  // namespace graphpipe
