// V8: reductions and steps come once, in order, and leave no parameter out.

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "schedule/trained_params.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

// When a rank did what, by position in its program.
struct RankTimes {
  Action task;  // the last action that was no reduction within a backward
  std::map<StageId, std::int64_t> last_backward;
  std::map<StageId, std::int64_t> step;
  std::map<int, std::int64_t> reduce_started;  // by bucket
  std::map<int, std::int64_t> reduced;
};

std::string ranks_text(const std::vector<RankId>& ranks) {
  std::vector<int> values;
  for (const RankId rank : ranks) values.push_back(rank.value);
  return fmt::format("{}", fmt::join(values, ", "));
}

class UpdateCheck {
 public:
  UpdateCheck(const VerifyContext& context, FaultList& faults)
      : context_(context), schedule_(context.schedule), faults_(faults) {
    if (schedule_.training) {
      trained_ = trained_params(context.plan, context.graph);
      steps_ = stages_with_trained_params(context.plan, context.graph);
    }
    stages_ = find_stages();
  }

  void run() {
    check_buckets();
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) check_rank(RankId(r));
  }

  // Every parameter with several holders is in one bucket of exactly these; no other is in one.
  void check_buckets() {
    std::map<ParamId, int> bucket_of;
    for (std::size_t b = 0; b < schedule_.buckets.size(); ++b) add_bucket(b, bucket_of);
    for (const ParamHolders& held : trained_) {
      check_bucket_of(held, bucket_of);
      bucket_of.erase(held.param);
    }
    for (const auto& [param, bucket] : bucket_of) {
      faults_.add("V8", fmt::format("bucket {}", bucket),
                  fmt::format("parameter '{}' is not trained", context_.graph.param(param).name));
    }
  }

 private:
  std::vector<RankId> holders(const ParamHolders& held) const {
    std::vector<RankId> ranks;
    for (const DeviceId device : held.devices) ranks.push_back(schedule_.rank_of(device));
    return ranks;
  }

  void add_bucket(std::size_t b, std::map<ParamId, int>& bucket_of) {
    std::int64_t bytes = 0;
    for (const ParamId param : schedule_.buckets[b].params) {
      if (param.index() >= context_.graph.params.size()) {
        faults_.add("V8", fmt::format("bucket {}", b),
                    fmt::format("there is no parameter {}", param.value));
        continue;
      }
      bytes += param_bytes(context_.graph.param(param));
      if (!bucket_of.emplace(param, static_cast<int>(b)).second) {
        faults_.add("V8", fmt::format("bucket {}", b),
                    fmt::format("parameter '{}' is in bucket {} too",
                                context_.graph.param(param).name, bucket_of.at(param)));
      }
    }
    if (bytes == schedule_.buckets[b].bytes) return;
    faults_.add(
        "V8", fmt::format("bucket {}", b),
        fmt::format("has {} bytes, and its parameters {}", schedule_.buckets[b].bytes, bytes));
  }

  void check_bucket_of(const ParamHolders& held, const std::map<ParamId, int>& bucket_of) {
    const std::vector<RankId> ranks = holders(held);
    const std::string& name = context_.graph.param(held.param).name;
    const auto at = bucket_of.find(held.param);
    if (at == bucket_of.end()) {
      if (ranks.size() < 2) return;
      faults_.add(
          "V8", fmt::format("parameter '{}'", name),
          fmt::format("is held by ranks {}, and no bucket sums its gradients", ranks_text(ranks)));
      return;
    }
    const std::vector<RankId>& found =
        schedule_.buckets[static_cast<std::size_t>(at->second)].ranks;
    if (found == ranks) return;
    faults_.add("V8", fmt::format("parameter '{}'", name),
                fmt::format("is held by ranks {}, but bucket {} sums over ranks {}",
                            ranks_text(ranks), at->second, ranks_text(found)));
  }

  void check_rank(RankId rank) {
    RankTimes times;
    for (ActionCursor at(schedule_, context_.plan, rank); !at.done(); at.next()) {
      const Action& a = at.action();
      const auto once = [&](auto& seen, const auto& key) {
        if (!seen.emplace(key, at.position()).second) fault(rank, at, "comes a second time");
      };
      if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardWeight) {
        times.last_backward[a.stage] = at.position();
      }
      if (a.kind == ActionKind::kStep) once(times.step, a.stage);
      if (a.kind == ActionKind::kStartReduce) once(times.reduce_started, a.bucket);
      if (a.kind == ActionKind::kWaitReduce) once(times.reduced, a.bucket);
      if (a.after.valid()) {
        check_within(rank, at, times.task);
      } else {
        times.task = a;
      }
      if (a.kind == ActionKind::kStep && (!schedule_.training || !steps_[a.stage.index()])) {
        fault(rank, at, "the stage has no parameter that this schedule trains");
      }
    }
    for (std::size_t b = 0; b < schedule_.buckets.size(); ++b) {
      if (std::ranges::find(schedule_.buckets[b].ranks, rank) != schedule_.buckets[b].ranks.end()) {
        check_reduction(rank, static_cast<int>(b), times);
      }
    }
    if (!schedule_.training) return;
    for (const Placement& own : context_.placed[rank.index()]) {
      if (steps_[own.stage.index()]) check_step(rank, own.stage, times);
    }
  }

  // A reduction within a backward: that stands before it, and has made the gradients by then.
  void check_within(RankId rank, const ActionCursor& at, const Action& task) {
    const Action& a = at.action();
    if (task.kind != ActionKind::kBackward || task.stage != a.stage ||
        task.micro_batch != a.micro_batch) {
      fault(rank, at, "is not within the backward that stands before it");
      return;
    }
    if (a.kind != ActionKind::kStartReduce) return;
    const std::vector<ParamId>& params =
        schedule_.buckets[static_cast<std::size_t>(a.bucket)].params;
    for (const OpId op : context_.plan.stage(a.stage).ops) {
      if (op >= a.after) break;
      for (const ParamId param : context_.graph.op(op).params) {
        if (std::ranges::find(params, param) == params.end()) continue;
        fault(rank, at,
              fmt::format("starts after operator '{}', and '{}' adds to the gradient of '{}' later",
                          context_.graph.op(a.after).name, context_.graph.op(op).name,
                          context_.graph.param(param).name));
        return;
      }
    }
  }

  void fault(RankId rank, const ActionCursor& at, const std::string& message) {
    faults_.add("V8", context_.place(rank, at.position(), at.action()), message);
  }

  static std::optional<std::int64_t> find(const auto& times, const auto& key) {
    const auto at = times.find(key);
    return at == times.end() ? std::nullopt : std::optional(at->second);
  }

  void check_reduction(RankId rank, int bucket, const RankTimes& times) {
    const std::string where = fmt::format("rank {}", rank.value);
    const auto started = find(times.reduce_started, bucket);
    const auto reduced = find(times.reduced, bucket);
    if (!started || !reduced) {
      faults_.add("V8", where,
                  fmt::format("never {} the reduction of bucket {}",
                              started ? "waits for" : "starts", bucket));
      return;
    }
    if (*reduced < *started) {
      faults_.add("V8", where,
                  fmt::format("waits for the reduction of bucket {} before it starts it", bucket));
    }
    for (const StageId stage : stages_of(bucket)) {
      const auto last = find(times.last_backward, stage);
      if (!last || *last < *started) continue;
      faults_.add("V8", where,
                  fmt::format("starts the reduction of bucket {} (action {}) before the last "
                              "backward of stage {} (action {}), which adds to its gradients",
                              bucket, *started, stage.value, *last));
    }
  }

  void check_step(RankId rank, StageId stage, const RankTimes& times) {
    const std::string where = fmt::format("rank {}", rank.value);
    const auto step = find(times.step, stage);
    if (!step) {
      faults_.add("V8", where, fmt::format("never steps the parameters of stage {}", stage.value));
      return;
    }
    const auto last = find(times.last_backward, stage);
    if (last && *step < *last) {
      faults_.add("V8", where,
                  fmt::format("steps stage {} (action {}) before its last backward (action {})",
                              stage.value, *step, *last));
    }
    for (const StageId other : sharers_of(rank, stage)) {
      const auto theirs = find(times.last_backward, other);
      if (!theirs || *theirs < *step) continue;
      faults_.add("V8", where,
                  fmt::format("steps stage {} (action {}) before the last backward of stage {} "
                              "(action {}), which shares a parameter",
                              stage.value, *step, other.value, *theirs));
    }
    for (const auto& [bucket, reduced] : times.reduced) {
      const std::vector<StageId>& stages = stages_of(bucket);
      if (std::ranges::find(stages, stage) == stages.end() || reduced < *step) continue;
      faults_.add("V8", where,
                  fmt::format("steps stage {} (action {}) before the reduction of bucket {} is "
                              "there (action {})",
                              stage.value, *step, bucket, reduced));
    }
  }

  // Other stages of the rank that hold a parameter of the stage.
  std::vector<StageId> sharers_of(RankId rank, StageId stage) const {
    std::vector<StageId> sharers;
    for (const Placement& own : context_.placed[rank.index()]) {
      const auto shared = [&](const ParamHolders& held) {
        return std::ranges::find(held.stages, stage) != held.stages.end() &&
               std::ranges::find(held.stages, own.stage) != held.stages.end();
      };
      if (own.stage != stage && std::ranges::any_of(trained_, shared)) {
        sharers.push_back(own.stage);
      }
    }
    return sharers;
  }

  // [bucket]: stages that hold one of its parameters.
  std::vector<std::vector<StageId>> find_stages() const {
    std::vector<std::vector<StageId>> of_param(context_.graph.params.size());
    for (const ParamHolders& held : trained_) of_param[held.param.index()] = held.stages;
    std::vector<std::vector<StageId>> result;
    for (const Bucket& bucket : schedule_.buckets) {
      std::vector<StageId>& stages = result.emplace_back();
      for (const ParamId param : bucket.params) {
        if (param.index() >= of_param.size()) continue;
        const std::vector<StageId>& more = of_param[param.index()];
        stages.insert(stages.end(), more.begin(), more.end());
      }
      std::ranges::sort(stages);
      const auto repeated = std::ranges::unique(stages);
      stages.erase(repeated.begin(), repeated.end());
    }
    return result;
  }
  const std::vector<StageId>& stages_of(int bucket) const {
    return stages_[static_cast<std::size_t>(bucket)];
  }

  const VerifyContext& context_;
  const Schedule& schedule_;
  FaultList& faults_;
  std::vector<ParamHolders> trained_;
  std::vector<bool> steps_;  // [stage]: has a step
  std::vector<std::vector<StageId>> stages_;
};

}  // namespace

void verify_updates(const VerifyContext& context, FaultList& faults) {
  if (is_asynchronous(context.plan.weights) && context.schedule.training) {
    UpdateCheck(context, faults).check_buckets();
    verify_stream_updates(context, faults);
    return;
  }
  UpdateCheck(context, faults).run();
}

}  // namespace graphpipe
