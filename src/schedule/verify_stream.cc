// V8 of a stream: which weights every forward and backward of an asynchronous pipeline finds.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

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
        keeps_(context.plan.weights != WeightPolicy::kNaive) {}

  void run() {
    for (std::size_t r = 0; r < context_.schedule.ranks.size(); ++r) check_rank(RankId(r));
  }

 private:
  // Of the rank's one stage.
  struct State {
    std::vector<std::int64_t> own;     // micro-batches that the rank computes, ascending
    std::size_t backwards = 0;         // of these, ended
    std::int64_t micro_batches = 0;    // of the stream
    std::int64_t newest = 0;           // version
    std::set<std::int64_t> kept = {};  // versions beside it
    std::vector<int> buckets = {};     // that it sums before each step
    std::set<int> started = {};        // of these, for the step to come
    std::set<int> summed = {};
  };

  State first_state(RankId rank, const Placement& placed) const {
    const Stage& stage = context_.plan.stage(placed.stage);
    const std::int64_t samples = context_.schedule.samples;
    State state;
    state.micro_batches = micro_batch_count(stage, samples);
    for (std::int64_t i = 0; i < state.micro_batches; ++i) {
      if (!replica_samples(stage, placed.replica, i, samples).empty()) state.own.push_back(i);
    }
    for (std::size_t b = 0; b < context_.schedule.buckets.size(); ++b) {
      const std::vector<RankId>& ranks = context_.schedule.buckets[b].ranks;
      if (std::ranges::find(ranks, rank) != ranks.end()) {
        state.buckets.push_back(static_cast<int>(b));
      }
    }
    return state;
  }

  void check_rank(RankId rank) {
    const Placement placed = context_.placed[rank.index()].front();
    State state = first_state(rank, placed);
    for (ActionCursor at(context_.schedule, context_.plan, rank); !at.done(); at.next()) {
      const std::string message = problem(at.action(), state);
      if (!message.empty()) {
        faults_.add("V8", context_.place(rank, at.position(), at.action()), message);
        return;
      }
    }
    if (!trained_[placed.stage.index()]) return;
    const std::string where = fmt::format("rank {}", rank.value);
    if (state.newest < state.micro_batches) {
      faults_.add("V8", where, fmt::format("never steps to version {}", due(placed.stage, state)));
    }
    for (const std::int64_t version : state.kept) {
      faults_.add("V8", where, fmt::format("never drops version {}", version));
    }
  }

  // The version after the newest: that of all replicas' micro-batches of a step.
  std::int64_t due(StageId stage, const State& state) const {
    const std::int64_t step = rule_.micro_batches_a_step(stage);
    return std::min(state.newest / step * step + step, state.micro_batches);
  }

  // Whether the rank has all that it adds to the next version, of which it may have none.
  bool must_step(StageId stage, const State& state) const {
    if (state.newest == state.micro_batches) return false;
    return state.backwards == state.own.size() || state.own[state.backwards] >= due(stage, state);
  }

  // What the action is not allowed to do; empty: nothing.
  std::string problem(const Action& a, State& state) {
    if (!trained_[a.stage.index()]) {
      return a.kind == ActionKind::kStep ? "the stage has no parameter that this schedule trains"
                                         : "";
    }
    switch (a.kind) {
      case ActionKind::kForward: {
        if (must_step(a.stage, state)) return early_text(a.stage, state);
        const std::string wrong = use_problem(rule_.version_of(a.stage, a.micro_batch), state);
        return wrong.empty() ? idle_problem(a.stage, state) : wrong;
      }
      case ActionKind::kBackward: {
        if (must_step(a.stage, state)) return early_text(a.stage, state);
        ++state.backwards;
        if (!keeps_) return "";
        return use_problem(rule_.version_of(a.stage, a.micro_batch), state);
      }
      case ActionKind::kMakeVersion:
        return keep_problem(a, state);
      case ActionKind::kDropVersion:
        return drop_problem(a, state);
      case ActionKind::kStartReduce:
      case ActionKind::kWaitReduce:
        return sum_problem(a, state);
      case ActionKind::kStep:
        return step_problem(a, state);
      default:
        return "";
    }
  }

  std::string early_text(StageId stage, const State& state) const {
    return fmt::format("comes before the step to v{}", due(stage, state));
  }

  static std::string use_problem(std::int64_t version, const State& state) {
    if (version == state.newest || state.kept.contains(version)) return "";
    return fmt::format("needs version {}, and the newest is {}", version, state.newest);
  }

  // Whether a micro-batch that is in flight here, or that comes, uses the version.
  bool used_later(StageId stage, std::int64_t version, const State& state) const {
    for (std::size_t i = state.backwards; i < state.own.size(); ++i) {
      const std::int64_t used = rule_.version_of(stage, state.own[i]);
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
    if (!must_step(a.stage, state)) return "no step follows that would replace it";
    if (!used_later(a.stage, a.micro_batch, state)) return "nothing uses it from here on";
    return "";
  }

  std::string drop_problem(const Action& a, State& state) const {
    if (state.kept.erase(a.micro_batch) == 0) return "it is not kept";
    if (used_later(a.stage, a.micro_batch, state)) return "it is used later";
    return "";
  }

  // Once for each step, when the rank has nothing left to add.
  std::string sum_problem(const Action& a, State& state) const {
    if (a.after.valid()) return "a stream sums gradients between backwards, not within one";
    if (!must_step(a.stage, state)) return early_sum_text(a.stage, state);
    if (a.micro_batch != due(a.stage, state)) {
      return fmt::format("the next step is to v{}", due(a.stage, state));
    }
    const bool starts = a.kind == ActionKind::kStartReduce;
    if (!starts && !state.started.contains(a.bucket)) return "it has not been started";
    if (!(starts ? state.started : state.summed).insert(a.bucket).second) {
      return fmt::format("it is {} already", starts ? "started" : "there");
    }
    return "";
  }

  std::string early_sum_text(StageId stage, const State& state) const {
    if (state.newest == state.micro_batches) return "no step is left";
    return fmt::format("micro-batch {} is still to add to v{}", state.own[state.backwards],
                       due(stage, state));
  }

  std::string step_problem(const Action& a, State& state) const {
    if (!must_step(a.stage, state)) return "no mini-batch's gradients are there";
    if (a.micro_batch != due(a.stage, state)) {
      return fmt::format("the gradients are those of {} micro-batches", due(a.stage, state));
    }
    for (const int bucket : state.buckets) {
      if (state.summed.contains(bucket)) continue;
      return fmt::format("the sum of bucket {} is not there", bucket);
    }
    if (keeps_ && !state.kept.contains(state.newest) && used_later(a.stage, state.newest, state)) {
      return fmt::format("replaces version {}, which is used later", state.newest);
    }
    state.newest = a.micro_batch;
    state.started.clear();
    state.summed.clear();
    return "";
  }

  const VerifyContext& context_;
  FaultList& faults_;
  VersionRule rule_;
  std::vector<bool> trained_;  // [stage]
  bool keeps_;                 // versions, until the backward
};

}  // namespace

void verify_stream_updates(const VerifyContext& context, FaultList& faults) {
  StreamCheck(context, faults).run();
}

}  // namespace graphpipe
