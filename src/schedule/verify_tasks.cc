// V7 of tasks: every replica runs each micro-batch of which the owner map gives it samples
// once forward and, where there is something to do, once backward or once each half, with those
// samples; and where the stage recomputes, once forward again.

#include "base/error.h"
#include "schedule/owner_map.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

class TaskCheck {
 public:
  TaskCheck(const VerifyContext& context, RankId rank, Placement own, FaultList& faults)
      : context_(context),
        rank_(rank),
        own_(own),
        faults_(faults),
        count_(micro_batch_count(context.plan.stage(own.stage), context.schedule.samples)),
        forward_(static_cast<std::size_t>(count_), false),
        backward_(static_cast<std::size_t>(count_), false),
        recompute_(static_cast<std::size_t>(count_), false),
        input_(static_cast<std::size_t>(count_), false),
        weight_(static_cast<std::size_t>(count_), false) {}

  void run() {
    for (ActionCursor at(context_.schedule, context_.plan, rank_); !at.done(); at.next()) {
      const Action& action = at.action();
      if (action.stage != own_.stage) continue;
      if (action.kind == ActionKind::kForward) check(at, forward_);
      if (action.kind == ActionKind::kBackward) check(at, backward_);
      if (action.kind == ActionKind::kRecompute) check(at, recompute_);
      if (action.kind == ActionKind::kBackwardInput) check(at, input_);
      if (action.kind == ActionKind::kBackwardWeight) check(at, weight_);
    }
    for (std::size_t i = 0; i < backward_.size(); ++i) {
      if (backward_[i] && (input_[i] || weight_[i])) report_both(static_cast<std::int64_t>(i));
      if (input_[i] && weight_[i]) backward_[i] = true;
    }
    report_missing(forward_, "forward");
    if (context_.backward[own_.stage.index()]) report_missing(backward_, "backward");
    if (context_.recompute[own_.stage.index()]) report_missing(recompute_, "forward again");
  }

 private:
  void check(const ActionCursor& at, std::vector<bool>& seen) {
    const Action& action = at.action();
    const auto fault = [&](const std::string& message) {
      faults_.add("V7", context_.place(rank_, at.position(), action), message);
    };
    if (action.micro_batch < 0 || action.micro_batch >= count_) {
      fault(fmt::format("there is no micro-batch {}; the stage has {}, counted from 0",
                        action.micro_batch, count_));
      return;
    }
    const bool backward = action.kind != ActionKind::kForward;
    if (backward && !context_.backward[own_.stage.index()]) {
      fault("the stage has nothing to do backward in this schedule");
      return;
    }
    if (action.kind == ActionKind::kRecompute && !context_.recompute[own_.stage.index()]) {
      fault("the stage does not recompute in this schedule");
      return;
    }
    const SampleRange expected = context_.task_samples(action);
    if (expected.empty()) {
      fault("the owner map gives this rank no sample of the micro-batch");
    } else if (action.samples != expected) {
      fault(fmt::format("computes samples {}, where the owner map gives this rank {}",
                        samples_text(action.samples), samples_text(expected)));
    }
    const auto i = static_cast<std::size_t>(action.micro_batch);
    if (seen[i]) fault("runs a second time");
    seen[i] = true;
  }

  void report_both(std::int64_t i) {
    faults_.add("V7", fmt::format("rank {}", rank_.value),
                fmt::format("stage {} runs micro-batch {} backward as a whole and in halves",
                            own_.stage.value, i));
  }

  void report_missing(const std::vector<bool>& seen, std::string_view pass) {
    for (std::int64_t i = 0; i < count_; ++i) {
      const SampleRange expected = replica_samples(context_.plan.stage(own_.stage), own_.replica, i,
                                                   context_.schedule.samples);
      if (expected.empty() || seen[static_cast<std::size_t>(i)]) continue;
      faults_.add("V7", fmt::format("rank {}", rank_.value),
                  fmt::format("stage {} never runs micro-batch {} {}, samples {}", own_.stage.value,
                              i, pass, samples_text(expected)));
    }
  }

  const VerifyContext& context_;
  RankId rank_;
  Placement own_;
  FaultList& faults_;
  std::int64_t count_;
  std::vector<bool> forward_;
  std::vector<bool> backward_;
  std::vector<bool> recompute_;
  std::vector<bool> input_;  // halves
  std::vector<bool> weight_;
};

}  // namespace

void verify_tasks(const VerifyContext& context, FaultList& faults) {
  for (std::size_t r = 0; r < context.placed.size(); ++r) {
    for (const Placement& own : context.placed[r]) TaskCheck(context, RankId(r), own, faults).run();
  }
}

}  // namespace graphpipe
